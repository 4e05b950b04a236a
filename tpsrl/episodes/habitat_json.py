"""Habitat's rearrangement episode files, in and out (habitat-lab ``RearrangeEpisode``).

The file is ``{"config": null, "episodes": [...]}``, plain or gzip. Fields that tpsrl does not
use are kept in ``Episode.extra`` and written back.
"""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from tpsrl.episodes import handles
from tpsrl.episodes.reader import Reader
from tpsrl.episodes.types import Episode, EpisodeSet, RigidObject, Target
from tpsrl.errors import UserError
from tpsrl.files import write_atomically
from tpsrl.geometry import frames
from ver_trainer.reading import read_json

_READ = {
    "episode_id",
    "scene_id",
    "start_position",
    "start_rotation",
    "ao_states",
    "rigid_objs",
    "targets",
    "target_receptacles",
    "goal_receptacles",
    "name_to_receptacle",
    "markers",
}
_MARKER_TYPE = "articulated_object"
MOST_OBJECTS = 500
"""Most movable objects of an episode; the benchmark's have about 20."""
_LINK_ID = re.compile(r"-?[0-9]{1,6}")
_GZIP_SYSTEM = 9
"""Byte of gzip's header that names the system, of which Pythons say different things."""
_NO_START = ([0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0])


def load_episodes(path: str | Path) -> EpisodeSet:
    """Read an episode file (``.json`` or ``.json.gz``).

    Raises:
        UserError: one sentence that names file, episode and field.
    """
    path = Path(path)
    top = read_json(path, hint="give the path of an episode file")
    if not isinstance(top.get("episodes"), list):
        raise UserError(f"{path}: field 'episodes' is missing; this is no Habitat episode file")
    raw = top["episodes"]
    ids = _episode_ids(path, raw)
    episodes = tuple(_episode(Reader(str(path), i), r) for i, r in zip(ids, raw, strict=True))
    extra = {k: v for k, v in top.items() if k != "episodes"}
    return EpisodeSet(episodes=episodes, extra=extra, source=str(path))


def save_episodes(path: str | Path, episodes: EpisodeSet, decimals: int = 5) -> None:
    """Write an episode file; ``.gz`` compresses. The same episodes give the same bytes.

    Args:
        path: file to write, replaced as a whole.
        episodes: what to write.
        decimals: digits kept of every number (5: 0.01 mm).

    Raises:
        UserError: the file cannot be written.
    """
    path = Path(path)
    top = {"config": None, **episodes.extra}
    top["episodes"] = [episode_to_json(e, decimals) for e in episodes]
    try:
        data = json.dumps(top, separators=(",", ":"), allow_nan=False).encode()
    except ValueError:
        source = episodes.source or "an episode"
        raise UserError(f"{source}: a field holds NaN or infinity; correct it") from None
    if path.suffix == ".gz":
        data = gzip.compress(data, compresslevel=9, mtime=0)
        data = data[:_GZIP_SYSTEM] + b"\xff" + data[_GZIP_SYSTEM + 1 :]
    write_atomically(path, data)


def episode_from_json(raw: dict[str, Any], source: str = "episode") -> Episode:
    """Turn one element of ``episodes`` into an `Episode`; errors name ``source``.

    Raises:
        UserError: one sentence that names source, episode and field.
    """
    return _episode(Reader(source, _episode_ids(source, [raw])[0]), raw)


def _episode_ids(path: Path | str, raw: list[Any]) -> list[str]:
    """Ids of the file, or list indices where another tool's file repeats them, as Habitat does."""
    for i, r in enumerate(raw):
        if not isinstance(r, dict) or "episode_id" not in r:
            raise UserError(f"{path}: episode number {i}: field 'episode_id' is missing; add it")
        if type(r["episode_id"]) not in (str, int):
            raise UserError(f"{path}: episode number {i}: field 'episode_id' is no text or number")
    ids = [str(r["episode_id"]) for r in raw]
    twice = [i for i, n in Counter(ids).items() if n > 1]
    if not twice:
        return ids
    if any(str(r.get("scene_id", "")).startswith(handles.SCENE_PREFIX) for r in raw):
        raise UserError(
            f"{path}: episode '{twice[0]}': field 'episode_id' stands more than once;"
            " give every episode its own id"
        )
    return [str(i) for i in range(len(raw))]


def _episode(r: Reader, raw: dict[str, Any]) -> Episode:
    info = r.mapping(raw, "info", default={})
    layout = handles.layout_name(r.text(raw, "scene_id"))
    configs, transforms, order = _rigid_objects(r, raw)
    types = [c.split(".")[0] for c in configs]
    instances = handles.instance_handles(types)
    receptacles = r.mapping(raw, "name_to_receptacle", default={})
    pos, quat = frames.from_habitat(transforms[order])
    objects = tuple(
        RigidObject(t, i, p, q, r.text(receptacles, i, f"name_to_receptacle['{i}']", ""))
        for t, i, p, q in zip(types, instances, pos, quat, strict=True)
    )
    extra = {k: v for k, v in raw.items() if k not in _READ | {"info"}}
    extra["scene_id"] = raw["scene_id"]
    extra["info"] = {k: v for k, v in info.items() if k != "object_labels"}
    odd = {t: c for t, c in zip(types, configs, strict=True) if c != t + handles.OBJECT_SUFFIX}
    if odd:
        extra["object_configs"] = odd
    for key in ("target_receptacles", "goal_receptacles"):
        extra[key] = r.pairs(raw, key)
    return Episode(
        episode_id=r.episode_id,
        scenario=r.text(info, "scenario", "info.scenario", ""),
        layout=layout,
        objects=objects,
        targets=_targets(r, raw, info, objects),
        joints=_joints(r, raw),
        markers=_markers(r, raw, extra),
        start=_start(r, raw, bool(info.get("start_is_fixed", False))),
        extra=extra,
    )


def _rigid_objects(r: Reader, raw: dict[str, Any]) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Sorted config names, all transforms in file order, and the sorting permutation."""
    pairs = r.sequence(raw, "rigid_objs")
    if len(pairs) > MOST_OBJECTS:
        r.fail("rigid_objs", f"holds {len(pairs)} objects, more than the {MOST_OBJECTS} allowed")
    for i, pair in enumerate(pairs):
        if not (isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str)):
            r.fail(f"rigid_objs[{i}]", "is not a pair of a name and a 4x4 transform")
    transforms = r.transforms([p[1] for p in pairs], lambda i: f"rigid_objs[{i}]")
    order = np.array(sorted(range(len(pairs)), key=lambda i: pairs[i][0]), dtype=int)
    return [pairs[i][0] for i in order], transforms, order


def _targets(
    r: Reader, raw: dict[str, Any], info: dict[str, Any], objects: tuple[RigidObject, ...]
) -> tuple[Target, ...]:
    targets = r.mapping(raw, "targets")
    labels = r.mapping(info, "object_labels", default={}, path="info.object_labels")
    index = {o.instance: i for i, o in enumerate(objects)}
    names = list(targets)
    for name in names:
        if name not in index:
            r.fail(f"targets['{name}']", "names an object that 'rigid_objs' does not have")
    for name in labels:
        if name not in index:
            r.fail(f"info.object_labels['{name}']", "names an object 'rigid_objs' does not have")
    transforms = r.transforms(list(targets.values()), lambda i: f"targets['{names[i]}']")
    pos, quat = frames.from_habitat(transforms)
    starts = r.pairs(raw, "target_receptacles")
    goals = r.pairs(raw, "goal_receptacles")
    goal_names = r.sequence(info, "goal_receptacle_names", [], "info.goal_receptacle_names")
    if not all(isinstance(name, str) for name in goal_names):
        r.fail("info.goal_receptacle_names", "is not a list of names")
    out = []
    for i, name in enumerate(names):
        start = objects[index[name]].receptacle or _place(starts, i)
        goal = goal_names[i] if i < len(goal_names) else _place(goals, i)
        label = r.text(labels, name, f"info.object_labels['{name}']", f"any_targets|{i}")
        out.append(Target(index[name], pos[i], quat[i], label, start, str(goal)))
    return tuple(out)


def _place(pairs: list[Any], i: int) -> str:
    if i >= len(pairs):
        return ""
    furniture = handles.furniture_name(str(pairs[i][0]))
    if not isinstance(pairs[i][1], int):
        return furniture
    return f"{furniture}/{handles.link_name(furniture, pairs[i][1])}"


def _joints(r: Reader, raw: dict[str, Any]) -> dict[str, float]:
    joints: dict[str, float] = {}
    for handle, states in r.mapping(raw, "ao_states").items():
        furniture = handles.furniture_name(handle)
        field = f"ao_states['{handle}']"
        if not isinstance(states, dict):
            r.fail(field, "is not an object of link ids and joint positions")
        for link, value in states.items():
            if not _LINK_ID.fullmatch(link):
                r.fail(f"{field}['{link}']", "has a link id that is no whole number")
            name = f"{furniture}/{handles.link_name(furniture, int(link))}"
            joints[name] = r.number(value, f"{field}['{link}']")
    return joints


def _markers(
    r: Reader, raw: dict[str, Any], extra: dict[str, Any]
) -> dict[str, tuple[str, np.ndarray]]:
    out: dict[str, tuple[str, np.ndarray]] = {}
    for i, marker in enumerate(r.sequence(raw, "markers", default=[])):
        field = f"markers[{i}]"
        if not isinstance(marker, dict):
            r.fail(field, "is not an object")
        params = r.mapping(marker, "params", path=f"{field}.params")
        name = r.text(marker, "name", path=f"{field}.name")
        if marker.get("type") != _MARKER_TYPE:
            extra.setdefault("other_markers", []).append(marker)
            continue
        if name in out:
            r.fail(f"{field}.name", f"gives '{name}' a second time")
        furniture = handles.furniture_name(r.text(params, "object", path=f"{field}.params.object"))
        link = r.text(params, "link", path=f"{field}.params.link")
        offset = r.vector(params.get("offset"), 3, f"{field}.params.offset")
        out[name] = (f"{furniture}/{link}", offset)
    return out


def _start(r: Reader, raw: dict[str, Any], fixed: bool) -> np.ndarray | None:
    position = r.vector(raw.get("start_position", _NO_START[0]), 3, "start_position")
    rotation = r.vector(raw.get("start_rotation", _NO_START[1]), 4, "start_rotation")
    if abs(np.linalg.norm(rotation) - 1.0) > 1e-2 or max(abs(rotation[[0, 2]])) > 1e-2:
        r.fail("start_rotation", "is not a rotation about the vertical (x, y, z, w)")
    placeholder = not position.any() and rotation.tolist() == _NO_START[1]
    return None if placeholder and not fixed else frames.start_from_habitat(position, rotation)


def episode_to_json(episode: Episode, decimals: int = 5) -> dict[str, Any]:
    """Turn an episode into Habitat's fields (plain lists and dictionaries)."""

    def rounded(x: Any) -> Any:
        # adding 0.0 turns -0.0 into 0.0, so that equal episodes give equal bytes
        return (np.round(np.asarray(x, dtype=np.float64), decimals) + 0.0).tolist()

    extra = dict(episode.extra)
    configs = extra.pop("object_configs", {})
    info = dict(extra.pop("info", {}))
    info.pop("start_is_fixed", None)  # it may have been when the episode was read
    labels = {episode.objects[t.object_index].instance: t.label for t in episode.targets}
    if episode.scenario:
        info["scenario"] = episode.scenario
    if any(t.goal_receptacle for t in episode.targets):
        info["goal_receptacle_names"] = [t.goal_receptacle for t in episode.targets]
    position, rotation = _NO_START
    if episode.start is not None:
        position, rotation = frames.start_to_habitat(episode.start)
        info["start_is_fixed"] = True
    poses = _transforms((o.pos, o.quat) for o in episode.objects)
    goals = _transforms((t.goal_pos, t.goal_quat) for t in episode.targets)
    scene_id = extra.pop("scene_id", "")
    if handles.layout_name(scene_id) != episode.layout:
        scene_id = handles.SCENE_PREFIX + episode.layout
    return {
        "episode_id": episode.episode_id,
        "scene_id": scene_id,
        "scene_dataset_config": extra.pop("scene_dataset_config", "tpsrl"),
        "additional_obj_config_paths": extra.pop("additional_obj_config_paths", []),
        "start_position": rounded(position),
        "start_rotation": rounded(rotation),
        "info": {**info, "object_labels": labels},
        "ao_states": _ao_states(episode, rounded),
        "rigid_objs": [
            [configs.get(o.type, o.type + handles.OBJECT_SUFFIX), rounded(p)]
            for o, p in zip(episode.objects, poses, strict=True)
        ],
        "targets": {
            episode.objects[t.object_index].instance: rounded(g)
            for t, g in zip(episode.targets, goals, strict=True)
        },
        "target_receptacles": _written_places(
            extra.pop("target_receptacles", []), [t.start_receptacle for t in episode.targets]
        ),
        "goal_receptacles": _written_places(
            extra.pop("goal_receptacles", []), [t.goal_receptacle for t in episode.targets]
        ),
        "name_to_receptacle": {o.instance: o.receptacle for o in episode.objects if o.receptacle},
        "markers": _written_markers(episode, rounded) + list(extra.pop("other_markers", [])),
        **extra,
    }


def _transforms(poses: Iterable[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    items = list(poses)
    pos = np.array([p for p, _ in items], dtype=np.float64).reshape(-1, 3)
    quat = np.array([q for _, q in items], dtype=np.float64).reshape(-1, 4)
    return frames.to_habitat(pos, quat)


def _written_places(known: list[Any], names: list[str]) -> list[Any]:
    if len(known) == len(names):
        return known
    out: list[Any] = []
    for name in names:
        furniture, _, link = name.partition("/")
        out.append([handles.furniture_handle(furniture), handles.link_id(furniture, link)])
    return out


def _ao_states(episode: Episode, rounded: Any) -> dict[str, dict[str, float]]:
    out: dict[str, dict[str, float]] = {}
    for joint, value in sorted(episode.joints.items()):
        furniture, _, link = joint.partition("/")
        number = handles.link_id(furniture, link)
        if number is None:
            raise UserError(
                f"episode '{episode.episode_id}': joint '{joint}' has no link id in Habitat's"
                " format; add it to tpsrl.episodes.handles.LINK_IDS"
            )
        out.setdefault(handles.furniture_handle(furniture), {})[str(number)] = rounded(value)
    return out


def _written_markers(episode: Episode, rounded: Any) -> list[dict[str, Any]]:
    out = []
    for name, (joint, offset) in episode.markers.items():
        furniture, _, link = joint.partition("/")
        params = {
            "offset": rounded(offset),
            "link": link,
            "object": handles.furniture_handle(furniture),
        }
        out.append({"name": name, "type": _MARKER_TYPE, "params": params})
    return out
