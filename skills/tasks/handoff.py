"""Start states taken from where a chain of skills really arrived, in a small file.

One ``.npz`` holds many starts: ``meta`` is JSON text (format number, and per start the episode in
Habitat's JSON, the skill call and the names of the furniture joints), the other arrays are stacked
over starts. Object arrays are padded with NaN to the largest number of objects.
"""

from __future__ import annotations

import dataclasses
import io
import json
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from skills.interface import HELPERS, Skill, SkillCall, SkillName, SkillStatus
from tpsrl.episodes.types import Episode
from tpsrl.errors import UserError
from tpsrl.files import write_atomically
from tpsrl.sim.door import Simulator

FORMAT = 1
_ARRAYS = {
    "object_pos": 3,
    "object_quat": 3,
    "joint_pos": 2,
    "base_pose": 2,
    "arm_qpos": 2,
    "held_object": 1,
}
"""Array of the file -> its number of axes."""


@dataclass(frozen=True)
class HandoffStart:
    """The world as one skill left it to the next.

    Attributes:
        episode: the chain's episode.
        call: the skill that starts here.
        object_pos: (O, 3) float64, m.
        object_quat: (O, 4) float64.
        joint_names: furniture joints.
        joint_pos: (J,) float64, m or rad.
        base_pose: (3,) x, y, yaw.
        arm_qpos: (7,) float64, rad.
        held_object: index into the episode's objects, -1 for none.
    """

    episode: Episode
    call: SkillCall
    object_pos: np.ndarray
    object_quat: np.ndarray
    joint_names: tuple[str, ...]
    joint_pos: np.ndarray
    base_pose: np.ndarray
    arm_qpos: np.ndarray
    held_object: int


def capture_start(sim: Simulator, env_id: int, call: SkillCall) -> HandoffStart:
    """Note the present state of a world as a start of ``call``.

    Raises:
        UserError: a handle is held, which cannot be put back.
    """
    state, episode = sim.state(), sim.episode(env_id)
    if int(state.held_marker[env_id]) >= 0:
        raise UserError(
            f"episode '{episode.episode_id}': {call.skill} starts with a handle in the hand, which"
            " no start file can hold; leave this start out."
        )
    count = len(episode.objects)
    return HandoffStart(
        episode,
        call,
        _float(state.object_pos[env_id])[:count],
        _float(state.object_quat[env_id])[:count],
        tuple(sim.joint_names),
        _float(state.joint_pos[env_id]),
        _float(state.base_pose[env_id]),
        _float(state.arm_qpos[env_id]),
        int(state.held_object[env_id]),
    )


class StartRecorder:
    """Notes the state at every entry of a skill while a chain runs.

    Give the chain ``recorder.wrap(make_skill)`` instead of ``make_skill``.

    Attributes:
        starts: what was noted so far, in order; arm resets, waits and entries with a handle in the
            hand are left out.
    """

    def __init__(self) -> None:
        self.starts: list[HandoffStart] = []

    def wrap(self, make: Callable[[SkillName], Skill]) -> Callable[[SkillName], Skill]:
        """Return a maker of the same skills that note where they start."""
        return lambda name: _Recorded(make(name), self)

    def note(self, sim: Simulator, env_id: int, call: SkillCall) -> None:
        """Note the present state."""
        if call.skill in HELPERS or int(sim.state().held_marker[env_id]) >= 0:
            return
        self.starts.append(capture_start(sim, env_id, call))


class _Recorded(Skill):
    """A skill that tells a recorder where it starts."""

    def __init__(self, skill: Skill, recorder: StartRecorder) -> None:
        self.name, self.privileged = skill.name, skill.privileged
        self._skill, self._recorder = skill, recorder

    def reset(self, sim: Simulator, env_id: int, call: SkillCall, seed: int) -> None:
        """See :meth:`Skill.reset`."""
        self._recorder.note(sim, env_id, call)
        self._skill.reset(sim, env_id, call, seed)

    def act(self, sim: Simulator, env_id: int) -> np.ndarray:
        """See :meth:`Skill.act`."""
        return self._skill.act(sim, env_id)

    def status(self, sim: Simulator, env_id: int) -> SkillStatus:
        """See :meth:`Skill.status`."""
        return self._skill.status(sim, env_id)


def apply_start(sim: Simulator, env_id: int, start: HandoffStart, seed: int) -> None:
    """Load the episode of a start into a world and put everything where it was.

    Raises:
        UserError: the engine lacks a joint of the file.
    """
    unknown = set(start.joint_names) - set(sim.joint_names)
    if unknown:
        raise UserError(
            f"the start of episode '{start.episode.episode_id}' has furniture joints that this"
            f" apartment lacks ({', '.join(sorted(unknown))}); collect the starts again."
        )
    sim.reset([dataclasses.replace(start.episode, start=start.base_pose)], [seed], [env_id])
    for name, value in zip(start.joint_names, start.joint_pos, strict=True):
        now = float(sim.state().joint_pos[env_id, sim.joint_names.index(name)])
        if abs(now - value) > 1e-9:
            sim.set_joint(name, float(value), [env_id])
    poses = zip(start.object_pos, start.object_quat, strict=True)
    for index, (pos, quat) in enumerate(poses):
        if index != start.held_object:
            sim.set_object(index, pos, quat, env_id)
    sim.set_arm(start.arm_qpos[None], [env_id])
    if start.held_object >= 0:
        held = start.held_object
        pose = np.concatenate([start.object_pos[held], start.object_quat[held]])
        sim.snap_object(held, env_id, pose)


def write_starts(path: str | Path, starts: Sequence[HandoffStart]) -> None:
    """Write starts to an ``.npz`` file; the file is either old or new, never half written.

    Raises:
        UserError: there are no starts, or the file cannot be written.
    """
    from tpsrl.episodes.habitat_json import episode_to_json

    if not starts:
        raise UserError(f"{path}: there are no start states to write; run more episodes.")
    joints = starts[0].joint_names
    if any(s.joint_names != joints for s in starts):
        raise UserError(f"{path}: the starts come from different apartments; write one file each.")
    most = max(len(s.object_pos) for s in starts)
    meta = {
        "format": FORMAT,
        "joint_names": list(joints),
        "starts": [
            {
                "episode": episode_to_json(s.episode, decimals=9),
                "call": dataclasses.asdict(s.call),
                "objects": [item.instance for item in s.episode.objects],
            }
            for s in starts
        ],
    }
    arrays = {
        name: np.stack([_padded(getattr(s, name), most, name) for s in starts]) for name in _ARRAYS
    }
    buffer = io.BytesIO()
    np.savez_compressed(buffer, meta=np.array(json.dumps(meta)), **arrays)  # type: ignore[arg-type]
    write_atomically(Path(path), buffer.getvalue())


def read_starts(path: str | Path) -> list[HandoffStart]:
    """Read a file written by :func:`write_starts`.

    Raises:
        UserError: the file is missing, damaged or of another format.
    """
    from tpsrl.episodes.habitat_json import episode_from_json

    meta, arrays = _read(Path(path))
    starts = []
    for k, entry in enumerate(meta["starts"]):
        episode = episode_from_json(entry["episode"], str(path))
        # Habitat's files name objects, they do not number them: reading may change their order.
        order = [entry["objects"].index(item.instance) for item in episode.objects]
        held = int(arrays["held_object"][k])
        starts.append(
            HandoffStart(
                episode,
                SkillCall(**entry["call"]),
                arrays["object_pos"][k, order],
                arrays["object_quat"][k, order],
                tuple(meta["joint_names"]),
                arrays["joint_pos"][k],
                arrays["base_pose"][k],
                arrays["arm_qpos"][k],
                -1 if held < 0 else order.index(held),
            )
        )
    return starts


def _read(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    try:
        with np.load(path, allow_pickle=False) as file:
            meta = json.loads(str(file["meta"]))
            arrays = {name: file[name] for name in _ARRAYS}
    except FileNotFoundError:
        raise UserError(f"{path}: no such file; collect start states first.") from None
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise UserError(f"{path}: no file of start states ({error}); collect it again.") from None
    if not isinstance(meta, dict) or meta.get("format") != FORMAT:
        raise UserError(f"{path}: its format is not {FORMAT}; collect the start states again.")
    for name, axes in _ARRAYS.items():
        if arrays[name].ndim != axes or len(arrays[name]) != len(meta["starts"]):
            raise UserError(f"{path}: array '{name}' has the wrong shape; collect it again.")
    return meta, arrays


def _padded(values: Any, most: int, name: str) -> np.ndarray:
    array = np.asarray(values)
    if not name.startswith("object_"):
        return array
    out = np.full((most, array.shape[1]), np.nan)
    out[: len(array)] = array
    return out


def _float(values: Any) -> np.ndarray:
    return np.array(values, dtype=np.float64)
