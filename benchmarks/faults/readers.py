"""What is read from outside, a small sound example of each, and what its content has to fulfil."""

from __future__ import annotations

import dataclasses
import gzip
import io
import json
import mmap
import shutil
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from benchmarks.faults import mutations as mutate
from skills.interface import SkillCall
from skills.learned.cards import SHIPPED, policies_in
from skills.learned.inference import NumpyPolicy
from skills.tasks.handoff import HandoffStart, capture_start, read_starts, write_starts
from tpsrl.episodes.habitat_json import load_episodes, save_episodes
from tpsrl.episodes.shipped import load_shipped
from tpsrl.episodes.types import EpisodeSet
from tpsrl.episodes.validate import validate
from tpsrl.errors import UserError
from tpsrl.habitat.export.dataset import export_dataset
from tpsrl.habitat.load.dataset import Dataset, load_dataset
from tpsrl.habitat.server import wire
from tpsrl.habitat.sound import check_links, shape_problem
from tpsrl.scenes.apartment import load_apartment
from tpsrl.scenes.description import Apartment
from tpsrl.scenes.objects import object_types
from tpsrl.sim.mujoco.engine import MujocoSimulator
from ver_trainer.reading import read_yaml

Change = Callable[[Path, Random], bool]
"""Damages a file; returns whether a checksum has to notice it."""


@dataclass(frozen=True)
class Reader:
    """One reader.

    Attributes:
        name: of the row.
        share: of all mutations.
        make: writes a sound example into a folder.
        read: reads it and asserts that what was read can be; raises ``UserError`` otherwise.
        change: damages it.
    """

    name: str
    share: float
    make: Callable[[Path], None]
    read: Callable[[Path], Any]
    change: Change


def _bytes_or_place(path: Path, rng: Random) -> None:
    if rng.random() < 0.12:
        mutate.damage_place(path, rng)
    else:
        path.write_bytes(mutate.damage_bytes(path.read_bytes(), rng))


def _small_set(count: int) -> EpisodeSet:
    return EpisodeSet(load_shipped("set_table").episodes[:count])


def _check_episodes(episodes: Any) -> None:
    for episode in episodes:
        validate(episode, load_apartment(), object_types())
        for item in episode.objects:
            assert np.isfinite(item.pos).all() and abs(np.linalg.norm(item.quat) - 1) < 1e-6
        assert all(0 <= t.object_index < len(episode.objects) for t in episode.targets)
        assert all(isinstance(t.label, str) for t in episode.targets)


def _read_episodes(path: Path) -> list[str]:
    episodes = load_episodes(path)
    try:
        _check_episodes(episodes)
    except UserError as error:
        raise UserError(f"{path}: {error}") from error
    return list(map(str, episodes))


def _change_json(path: Path, rng: Random) -> bool:
    if rng.random() < 0.3:
        _bytes_or_place(path, rng)
    else:
        text = mutate.damage_tree(json.loads(path.read_bytes()), rng)
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
    return False


def _change_gzip(path: Path, rng: Random) -> bool:
    data = path.read_bytes()
    if rng.random() < 0.5:
        _bytes_or_place(path, rng)
        # Another header is no other content, and the file may have become no gzip at all.
        return path.is_file() and not path.is_symlink() and path.stat().st_size < 2**30
    text = mutate.damage_tree(json.loads(gzip.decompress(data)), rng)
    path.write_bytes(gzip.compress(text.encode("utf-8", "surrogatepass")))
    return False


def _make_handoff(path: Path) -> None:
    episodes = _small_set(2).episodes
    starts: list[HandoffStart] = []
    with MujocoSimulator(depth=None) as sim:
        for episode in episodes:
            sim.reset([episode], [0])
            starts.append(capture_start(sim, 0, SkillCall("pick", target=0)))
            starts.append(capture_start(sim, 0, SkillCall("navigate", target=1, place="start")))
    write_starts(path, starts)


def _read_handoff(path: Path) -> Any:
    starts = read_starts(path)
    for start in starts:
        _check_poses(start)
    return [dataclasses.astuple(s.call) for s in starts]


def _check_poses(start: HandoffStart) -> None:
    count = len(start.episode.objects)
    assert start.object_pos.shape == (count, 3) and start.object_quat.shape == (count, 4)
    assert (np.abs(start.object_pos) < 1e3).all() and np.isfinite(start.joint_pos).all()
    assert -1 <= start.held_object < count and np.isfinite(start.base_pose).all()
    assert start.call.target is None or 0 <= start.call.target < len(start.episode.targets)


def _change_npz(path: Path, rng: Random) -> bool:
    kind = rng.random()
    if kind < 0.35:
        _bytes_or_place(path, rng)
        return False
    if kind < 0.5:
        path.write_bytes(mutate.damage_zip(path.read_bytes(), rng))
        return False
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    if kind < 0.75:
        arrays = mutate.damage_arrays(arrays, rng)
    else:
        arrays["meta"] = np.array(mutate.damage_tree(json.loads(str(arrays["meta"])), rng))
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)  # type: ignore[arg-type]
    path.write_bytes(buffer.getvalue())
    return False


def _make_policy(path: Path) -> None:
    path.mkdir()
    for name in ("open_cab.json", "open_cab.safetensors"):
        shutil.copy(SHIPPED / name, path / name)


def _read_policy(path: Path) -> Any:
    policies = policies_in(path)
    return [_read_weights(policy.path) for policy in policies.values()]


def _read_weights(path: Path) -> Any:
    policy = NumpyPolicy.load(path)
    rng = np.random.default_rng(0)
    seen = {k: rng.normal(size=v).astype(np.float32) for k, v in policy.observations.items()}
    action = policy.step(seen)
    assert action.shape == (policy.size,) and np.isfinite(action).all()
    return action.tolist()


def _change_weights(path: Path, rng: Random) -> bool:
    if rng.random() < 0.4:
        _bytes_or_place(path, rng)
    else:
        data = path.read_bytes()
        size = int.from_bytes(data[:8], "little")
        header = json.loads(data[8 : 8 + size])
        if rng.random() < 0.5:
            described = mutate.damage_tree(json.loads(header["__metadata__"]["ver_trainer"]), rng)
            header["__metadata__"]["ver_trainer"] = described
            text = json.dumps(header)
        else:
            text = mutate.damage_tree(header, rng)
        path.write_bytes(mutate.pack_safetensors(text, data[8 + size :]))
    return False


def _change_policy(path: Path, rng: Random) -> bool:
    if rng.random() < 0.4:
        _change_weights(path / "open_cab.safetensors", rng)
        return True
    _change_json(path / "open_cab.json", rng)
    return False


def _small_apartment() -> Apartment:
    whole = load_apartment()
    names = ("fridge", "kitchen_counter")
    pieces = tuple(piece for piece in whole.furniture if piece.name in names)
    layouts = {}
    for name, layout in list(whole.benchmark.items())[:1]:
        poses = {key: layout.poses[key] for key in names}
        layouts[name] = dataclasses.replace(layout, poses=poses)
    return dataclasses.replace(whole, furniture=pieces, layouts=layouts)


def _make_dataset(path: Path) -> None:
    types = {name: object_types()[name] for name in ("024_bowl", "013_apple")}
    export_dataset(path, _small_apartment(), types, {})


def _read_dataset(path: Path) -> Any:
    found: Dataset = load_dataset(path)
    for piece in found.apartment.furniture:
        check_links(path, piece.links)
        for place in piece.receptacles:
            assert min(place.half_size) > 0 and np.isfinite(place.center).all()
    for shape in found.apartment.walls:
        assert not shape_problem(shape), shape_problem(shape)
    for kind in found.types.values():
        assert kind.mass > 0 and min(kind.half_size) > 0 and np.isfinite(kind.half_size).all()
        assert not any(shape_problem(s) for s in kind.shapes)
    return [p.name for p in found.apartment.furniture]


def _change_dataset(path: Path, rng: Random) -> bool:
    files = [p for p in sorted(path.rglob("*")) if p.is_file()]
    kinds: dict[str, list[Path]] = {}
    for file in files:
        kinds.setdefault(file.suffix if file.suffix != ".json" else file.suffixes[0], []).append(
            file
        )
    file = rng.choice(kinds[rng.choice(sorted(kinds))])
    if file.suffix == ".json":
        return _change_json(file, rng)
    if file.suffix == ".urdf" and rng.random() < 0.8:
        file.write_text(mutate.damage_text(file.read_text(), rng))
    elif file.suffix == ".glb" and rng.random() < 0.5:
        _change_glb(file, rng)
    else:
        _bytes_or_place(file, rng)
    return False


def _change_glb(path: Path, rng: Random) -> None:
    data = path.read_bytes()
    size = int.from_bytes(data[12:16], "little")
    text = mutate.damage_tree(json.loads(data[20 : 20 + size]), rng).encode("utf-8", "replace")
    text += b" " * (-len(text) % 4)
    rest = data[20 + size :]
    whole = len(text) + 20 + len(rest)
    head = data[:8] + whole.to_bytes(4, "little") + len(text).to_bytes(4, "little") + data[16:20]
    path.write_bytes(head + text + rest)


_YAML = """env: CartPole-v1
seed: 1
ppo:
  clip: 0.2
  epochs: 3
net: {core: lstm, mlp: [64, 64], size: null}
optim:
  lr: 2.5e-4
weights: "runs/${seed}"
"""


def _make_yaml(path: Path) -> None:
    path.write_text(_YAML)


def _read_yaml(path: Path) -> Any:
    content = read_yaml(path)
    assert isinstance(content, dict)
    return json.loads(json.dumps(content, default=str))


def _change_yaml(path: Path, rng: Random) -> bool:
    if rng.random() < 0.25:
        _bytes_or_place(path, rng)
    elif rng.random() < 0.1:
        bomb = "a0: &a0 [x, x]\n" + "".join(
            f"a{k}: &a{k} [{', '.join([f'*a{k - 1}'] * 9)}]\n" for k in range(1, 12)
        )
        path.write_text(bomb)
    else:
        path.write_text(mutate.damage_text(_YAML, rng))
    return False


def _make_wire(path: Path) -> None:
    array = {"__array__": [wire.SERVER, "<f8", [2, 3]]}
    path.write_text(json.dumps({"value": {"depth": array, "names": ["a"], "done": False}}))


def _read_wire(path: Path) -> Any:
    """Receive the text of the file as the client of a Habitat server would."""
    ours, theirs = socket.socketpair()
    data = path.read_bytes()
    with ours, theirs, mmap.mmap(-1, 2 * wire.HALF) as memory:
        theirs.sendall(len(data).to_bytes(4, "little") + data)
        theirs.shutdown(socket.SHUT_WR)
        try:
            found = wire.Channel(ours, memory, wire.CLIENT).receive(5.0)
        except (wire.WireError, TimeoutError) as error:
            raise UserError(f"{path}: {error}") from None
    return str(found)


def _change_wire(path: Path, rng: Random) -> bool:
    if rng.random() < 0.3:
        path.write_bytes(mutate.damage_bytes(path.read_bytes(), rng)[:100_000])
    else:
        text = mutate.damage_tree(json.loads(path.read_bytes()), rng)
        path.write_bytes(text.encode("utf-8", "surrogatepass")[:100_000])
    return False


READERS = (
    Reader("episodes .json", 0.2, lambda p: save_episodes(p.with_suffix(".json"), _small_set(2)),
           lambda p: _read_episodes(p.with_suffix(".json")),
           lambda p, r: _change_json(p.with_suffix(".json"), r)),
    Reader("episodes .json.gz", 0.1,
           lambda p: save_episodes(p.with_suffix(".json.gz"), _small_set(2)),
           lambda p: _read_episodes(p.with_suffix(".json.gz")),
           lambda p, r: _change_gzip(p.with_suffix(".json.gz"), r)),
    Reader("start states .npz", 0.2, lambda p: _make_handoff(p.with_suffix(".npz")),
           lambda p: _read_handoff(p.with_suffix(".npz")),
           lambda p, r: _change_npz(p.with_suffix(".npz"), r)),
    Reader("weights .safetensors", 0.15,
           lambda p: Path(shutil.copy(SHIPPED / "open_cab.safetensors", p)).touch(),
           _read_weights, _change_weights),
    Reader("weights with a card", 0.1, _make_policy, _read_policy, _change_policy),
    Reader("scene dataset", 0.15, _make_dataset, _read_dataset, _change_dataset),
    Reader("Habitat wire", 0.1, _make_wire, _read_wire, _change_wire),
    Reader("configuration .yaml", 0.1, _make_yaml, _read_yaml, _change_yaml),
)  # fmt: skip
