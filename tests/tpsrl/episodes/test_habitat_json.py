"""Reading and writing Habitat's episode files, and every way in which they can be broken."""

import copy
import gzip
import json
import os

import numpy as np
import pytest

from tpsrl.episodes.habitat_json import load_episodes, save_episodes
from tpsrl.episodes.types import Episode, EpisodeSet, RigidObject, Target
from tpsrl.errors import UserError


def transform(x, y, z, yaw=0.0):
    """A y-up transform of Habitat: rotation about y."""
    c, s = np.cos(yaw), np.sin(yaw)
    return [[c, 0, s, x], [0, 1, 0, y], [-s, 0, c, z], [0, 0, 0, 1]]


def hab_file():
    """A file as habitat-lab's generator writes it (ReplicaCAD scene)."""
    episode = {
        "episode_id": "0",
        "scene_id": "data/replica_cad/configs/scenes/v3_sc3_staging_07.scene_instance.json",
        "scene_dataset_config": "data/replica_cad/replicaCAD.scene_dataset_config.json",
        "additional_obj_config_paths": ["data/objects/ycb/configs/"],
        "start_position": [0, 0, 0],
        "start_rotation": [0, 0, 0, 1],
        "ao_states": {"fridge_:0000": {"1": 1.5}, "kitchen_counter_:0000": {"6": 0.5}},
        "rigid_objs": [
            ["024_bowl.object_config.json", transform(1.0, 0.8, -2.0)],
            ["003_cracker_box.object_config.json", transform(0.5, 0.9, 3.0, yaw=0.5)],
            ["003_cracker_box.object_config.json", transform(-0.5, 0.9, 3.5)],
        ],
        "targets": {
            "024_bowl_:0000": transform(2.0, 0.7, 1.0),
            "003_cracker_box_:0001": transform(2.5, 0.7, 1.0),
        },
        "target_receptacles": [["kitchen_counter_:0000", 6], ["frl_apartment_sofa_:0000", None]],
        "goal_receptacles": [["frl_apartment_table_01_:0000", None], ["fridge_:0000", 0]],
        "name_to_receptacle": {"024_bowl_:0000": "receptacle_aabb_drawer_right_top"},
        "markers": [
            {
                "name": "cab_push_point_5",
                "type": "articulated_object",
                "params": {
                    "offset": [0.3, 0.0, 0],
                    "link": "drawer3",
                    "object": "kitchen_counter_:0000",
                },
            }
        ],
        "info": {
            "object_labels": {
                "024_bowl_:0000": "bowl_target|0",
                "003_cracker_box_:0001": "any_targets|1",
            },
            "difficulty": "hard",
        },
        "future_field": {"a": [1, 2]},
    }
    return {"config": None, "episodes": [episode], "made_by": "a test"}


def write(tmp_path, top, name="e.json"):
    path = tmp_path / name
    data = json.dumps(top).encode()
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return path


def test_hab_file_is_read_with_z_up_and_sorted_instances(tmp_path):
    episodes = load_episodes(write(tmp_path, hab_file()))
    (e,) = episodes
    assert e.layout == "v3_sc3_staging_07"
    assert [o.instance for o in e.objects] == [
        "003_cracker_box_:0000",
        "003_cracker_box_:0001",
        "024_bowl_:0000",
    ]
    np.testing.assert_allclose(e.objects[0].pos, [0.5, -3.0, 0.9])
    # a turn about Habitat's y (up) is the same turn about z here
    np.testing.assert_allclose(e.objects[0].quat, [np.cos(0.25), 0, 0, np.sin(0.25)], atol=1e-12)
    assert [t.object_index for t in e.targets] == [2, 1]
    assert [t.label for t in e.targets] == ["bowl_target|0", "any_targets|1"]
    assert e.targets[0].start_receptacle == "receptacle_aabb_drawer_right_top"
    assert e.targets[1].start_receptacle == "frl_apartment_sofa"
    assert e.targets[1].goal_receptacle == "fridge/fridge_body"
    np.testing.assert_allclose(e.targets[0].goal_pos, [2.0, -1.0, 0.7])
    assert dict(e.joints) == {"fridge/top_door": 1.5, "kitchen_counter/drawer3": 0.5}
    joint, offset = e.markers["cab_push_point_5"]
    assert joint == "kitchen_counter/drawer3"
    assert offset.tolist() == [0.3, 0.0, 0.0]
    assert e.start is None
    assert episodes.extra["made_by"] == "a test"


@pytest.mark.parametrize("name", ["e.json", "e.json.gz"])
def test_round_trip_keeps_every_field(tmp_path, name):
    source = hab_file()
    out = tmp_path / f"out_{name}"
    save_episodes(out, load_episodes(write(tmp_path, source, name)), decimals=12)
    raw = out.read_bytes()
    written = json.loads(gzip.decompress(raw) if name.endswith(".gz") else raw)
    (before,), (after,) = source["episodes"], written["episodes"]
    before["rigid_objs"].sort(key=lambda x: x[0])
    for i, (config, pose) in enumerate(before["rigid_objs"]):
        assert after["rigid_objs"][i][0] == config
        np.testing.assert_allclose(after["rigid_objs"][i][1], pose, atol=1e-11)
    for handle, pose in before["targets"].items():
        np.testing.assert_allclose(after["targets"][handle], pose, atol=1e-11)
    assert list(after["targets"]) == list(before["targets"])
    after["info"].pop("goal_receptacle_names")
    for e in (before, after):
        del e["rigid_objs"], e["targets"]
    assert after == before
    assert written["made_by"] == "a test"


def random_episodes(rng, n=4):
    episodes = []
    for i in range(n):
        quat = rng.normal(size=(6, 4))
        quat /= np.linalg.norm(quat, axis=1, keepdims=True)
        quat *= np.sign(quat[:, :1])
        names = sorted(["002_master_chef_can", "013_apple", "013_apple"])
        objects = tuple(
            RigidObject(t, f"{t}_:{k:04d}", rng.uniform(-4, 4, 3), quat[j], "table")
            for j, (t, k) in enumerate(zip(names, [0, 0, 1], strict=True))
        )
        target = Target(2, rng.uniform(-4, 4, 3), quat[4], "fruit_target|0", "table", "sofa")
        episodes.append(
            Episode(
                episode_id=f"val_{i}",
                scenario="set_table",
                layout="sc3_staging_07",
                objects=objects,
                targets=(target,),
                joints={"fridge/top_door": 1.0},
                markers={"m": ("fridge/top_door", np.array([0.1, -0.6, 0.2]))},
                start=rng.uniform(-3, 3, 3) if i % 2 else None,
                extra={"target_receptacles": [["table_:0000", None]]},
            )
        )
    return EpisodeSet(tuple(episodes))


def test_own_episodes_survive_a_round_trip(tmp_path):
    before = random_episodes(np.random.default_rng(0))
    save_episodes(tmp_path / "e.json.gz", before, decimals=9)
    after = load_episodes(tmp_path / "e.json.gz")
    for a, b in zip(before, after, strict=True):
        assert (a.episode_id, a.scenario, a.layout) == (b.episode_id, b.scenario, b.layout)
        for x, y in zip(a.objects, b.objects, strict=True):
            assert (x.type, x.instance, x.receptacle) == (y.type, y.instance, y.receptacle)
            np.testing.assert_allclose(y.pos, x.pos, atol=1e-8)
            np.testing.assert_allclose(y.quat, x.quat, atol=1e-7)
        (t,), (u,) = a.targets, b.targets
        assert (t.object_index, t.label) == (u.object_index, u.label)
        assert (t.start_receptacle, t.goal_receptacle) == (u.start_receptacle, u.goal_receptacle)
        np.testing.assert_allclose(u.goal_pos, t.goal_pos, atol=1e-8)
        assert dict(a.joints) == dict(b.joints)
        assert b.markers["m"][0] == "fridge/top_door"
        if a.start is None:
            assert b.start is None
        else:
            np.testing.assert_allclose(b.start, a.start, atol=1e-7)


def test_start_at_the_origin_is_kept(tmp_path):
    (e,) = random_episodes(np.random.default_rng(0), n=1)
    e = Episode(**{**e.__dict__, "start": np.zeros(3)})
    save_episodes(tmp_path / "e.json", EpisodeSet((e,)))
    np.testing.assert_array_equal(load_episodes(tmp_path / "e.json")[0].start, np.zeros(3))


def test_same_episodes_give_the_same_bytes(tmp_path, monkeypatch):
    save_episodes(tmp_path / "a.json.gz", random_episodes(np.random.default_rng(1)))
    # gzip stores the time of writing unless told otherwise
    monkeypatch.setattr("time.time", lambda: 1e9)
    save_episodes(tmp_path / "b.json.gz", random_episodes(np.random.default_rng(1)))
    assert (tmp_path / "a.json.gz").read_bytes() == (tmp_path / "b.json.gz").read_bytes()


def broken(edit):
    top = hab_file()
    edit(top["episodes"][0])
    return top


def nan(e):
    e["rigid_objs"][1][1][0][3] = float("nan")


def stretched(e):
    e["rigid_objs"][0][1][0][0] = 2.0


BROKEN = {
    "no objects": (lambda e: e.pop("rigid_objs"), "rigid_objs' is missing"),
    "no targets": (lambda e: e.pop("targets"), "targets' is missing"),
    "no scene": (lambda e: e.pop("scene_id"), "scene_id' is missing"),
    "no joints": (lambda e: e.pop("ao_states"), "ao_states' is missing"),
    "objects no list": (lambda e: e.update(rigid_objs={}), "rigid_objs' is not a list"),
    "3x4": (lambda e: e["rigid_objs"][2][1].pop(), "rigid_objs[2]' is not a 4x4 matrix"),
    "text": (lambda e: e["rigid_objs"][2].__setitem__(1, "x"), "rigid_objs[2]' is not a 4x4"),
    "nan": (nan, "rigid_objs[1]' contains NaN"),
    "stretched": (stretched, "rigid_objs[0]' is not a rigid transform"),
    "unknown target": (
        lambda e: e["targets"].update({"013_apple_:0000": transform(0, 0, 0)}),
        "targets['013_apple_:0000']' names an object that 'rigid_objs' does not have",
    ),
    "label": (
        lambda e: e["info"]["object_labels"].update({"x_:0000": "any|3"}),
        "info.object_labels['x_:0000']'",
    ),
    "goal nan": (
        lambda e: e["targets"].update({"024_bowl_:0000": transform(0, float("inf"), 0)}),
        "targets['024_bowl_:0000']' contains NaN",
    ),
    "joint text": (
        lambda e: e["ao_states"]["fridge_:0000"].update({"1": "open"}),
        "ao_states['fridge_:0000']['1']' is not a number",
    ),
    "joint link": (
        lambda e: e["ao_states"]["fridge_:0000"].update({"door": 1.0}),
        "ao_states['fridge_:0000']['door']'",
    ),
    "marker": (
        lambda e: e["markers"][0]["params"].pop("link"),
        "markers[0].params.link' is missing",
    ),
    "marker offset": (
        lambda e: e["markers"][0]["params"].update(offset=[1]),
        "markers[0].params.offset' is not a list of 3 numbers",
    ),
    "start": (lambda e: e.update(start_position=[0, 1]), "start_position'"),
    "receptacles": (lambda e: e.update(goal_receptacles=["x"]), "goal_receptacles[0]'"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_field_is_named(tmp_path, case):
    edit, message = BROKEN[case]
    path = write(tmp_path, broken(edit))
    with pytest.raises(UserError) as error:
        load_episodes(path)
    text = str(error.value)
    assert text.startswith(f"{path}: episode '0': field ")
    assert message in text
    assert "\n" not in text


@pytest.mark.parametrize("keep", [0.1, 0.5, 0.95])
def test_truncated_gzip(tmp_path, keep):
    path = write(tmp_path, hab_file(), "e.json.gz")
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * keep)])
    with pytest.raises(UserError, match="truncated or damaged"):
        load_episodes(path)


def test_damaged_gzip(tmp_path):
    path = write(tmp_path, hab_file(), "e.json.gz")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(UserError, match=r"e\.json\.gz: "):
        load_episodes(path)


def test_truncated_json(tmp_path):
    path = write(tmp_path, hab_file())
    path.write_bytes(path.read_bytes()[:300])
    with pytest.raises(UserError, match="not valid JSON at line 1"):
        load_episodes(path)


@pytest.mark.parametrize("content", ["{}", '{"episodes": 1}'])
def test_not_an_episode_file(tmp_path, content):
    path = tmp_path / "e.json"
    path.write_text(content)
    with pytest.raises(UserError, match="field 'episodes' is missing"):
        load_episodes(path)


def test_episode_without_id(tmp_path):
    top = broken(lambda e: e.pop("episode_id"))
    with pytest.raises(UserError, match="episode number 0: field 'episode_id' is missing"):
        load_episodes(write(tmp_path, top))


def test_binary_file_and_missing_file(tmp_path):
    path = tmp_path / "e.json"
    path.write_bytes(b"\x89PNG\xff\xfe\x00")
    with pytest.raises(UserError, match="neither JSON text nor gzip"):
        load_episodes(path)
    with pytest.raises(UserError, match="no such file"):
        load_episodes(tmp_path / "absent.json")
    with pytest.raises(UserError, match="cannot be read"):
        load_episodes(tmp_path)


def test_duplicate_ids_of_our_own_are_refused(tmp_path):
    top = hab_file()
    top["episodes"][0]["scene_id"] = "tpsrl/apartment_v1/sc3_staging_07"
    top["episodes"].append(copy.deepcopy(top["episodes"][0]))
    with pytest.raises(UserError, match="episode '0': field 'episode_id' stands more than once"):
        load_episodes(write(tmp_path, top))


def test_duplicate_ids_of_habitat_are_renumbered(tmp_path):
    top = hab_file()
    top["episodes"].append(copy.deepcopy(top["episodes"][0]))
    episodes = load_episodes(write(tmp_path, top))
    assert [e.episode_id for e in episodes] == ["0", "1"]


def test_target_given_twice_is_refused(tmp_path):
    text = json.dumps(hab_file()).replace('"003_cracker_box_:0001": [', '"024_bowl_:0000": [')
    path = tmp_path / "e.json"
    path.write_text(text)
    with pytest.raises(UserError, match="'024_bowl_:0000' stands twice"):
        load_episodes(path)


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "e.json"
    save_episodes(path, random_episodes(np.random.default_rng(2)))
    before = path.read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UserError, match="No space left on device"):
        save_episodes(path, random_episodes(np.random.default_rng(3)))
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["e.json"]


def test_the_bytes_do_not_tell_pythons_apart(tmp_path):
    save_episodes(tmp_path / "a.json.gz", random_episodes(np.random.default_rng(1)))
    header = (tmp_path / "a.json.gz").read_bytes()[:10]
    assert header == b"\x1f\x8b\x08\0\0\0\0\0\x02\xff"
    assert len(load_episodes(tmp_path / "a.json.gz")) > 0
