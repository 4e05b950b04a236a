"""Start states taken from where a chain of skills really arrived, in a small file.

One ``.npz`` holds many starts: ``meta`` is JSON text (format number, the names of the furniture
joints, the episodes in Habitat's JSON, and per start the skill call and the number of its episode),
the other arrays are stacked over starts. Object arrays are padded with NaN to the largest number
of objects.
"""

from __future__ import annotations

import dataclasses
import io
import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np

from skills.interface import HELPERS, Skill, SkillCall, SkillName, WatchedSkill
from tpsrl.episodes.habitat_json import episode_from_json, episode_to_json
from tpsrl.episodes.types import Episode
from tpsrl.errors import UserError
from tpsrl.files import write_atomically
from tpsrl.robot import fetch
from tpsrl.sim.door import Simulator
from ver_trainer.reading import parse_json, read_npz

FORMAT = 2
_ARRAYS = ("object_pos", "object_quat", "joint_pos", "base_pose", "arm_qpos", "held_object")
_AGAIN = "collect the start states again ('tpsrl handoff')"
FARTHEST = 1e3
"""No number of a start is larger."""
_FAR, _REACH = 30.0, 2.5
"""Farthest object from the robot, and farthest held one, m."""
_SOFT = 0.2
"""How far a joint's limit gives way, rad."""


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

    Args:
        tries: of the same call so many are noted, since what cannot be done is tried again and
            again; 0 for all.

    Attributes:
        starts: what was noted so far, in order; arm resets, waits and states with a handle in the
            hand are left out.
    """

    def __init__(self, tries: int = 0) -> None:
        self.tries = tries
        self.starts: list[HandoffStart] = []
        self._called = Counter[SkillCall]()

    def wrap(self, make: Callable[[SkillName], Skill]) -> Callable[[SkillName], Skill]:
        """Return a maker of the same skills that note where they start."""
        return lambda name: _Recorded(make(name), self)

    def note(self, sim: Simulator, env_id: int, call: SkillCall) -> None:
        """Note the present state, in which a skill is called."""
        self._called[call] += 1
        if call.skill in HELPERS or (self.tries and self._called[call] > self.tries):
            return
        if int(sim.state().held_marker[env_id]) < 0:
            self.starts.append(capture_start(sim, env_id, call))


class _Recorded(WatchedSkill):
    """A skill that tells a recorder where it starts."""

    def __init__(self, skill: Skill, recorder: StartRecorder) -> None:
        super().__init__(skill)
        self._recorder = recorder

    def reset(self, sim: Simulator, env_id: int, call: SkillCall, seed: int) -> None:
        """See :meth:`Skill.reset`."""
        self._recorder.note(sim, env_id, call)
        super().reset(sim, env_id, call, seed)


def apply_start(sim: Simulator, env_id: int, start: HandoffStart, seed: int) -> None:
    """Load the episode of a start into a world and put everything where it was.

    Raises:
        UserError: the engine lacks a joint of the file, or something lies outside.
    """
    unknown = set(start.joint_names) - set(sim.joint_names)
    if unknown:
        raise UserError(
            f"the start of episode '{start.episode.episode_id}' has furniture joints that this"
            f" apartment lacks ({', '.join(sorted(unknown))}); collect the starts again."
        )
    for name, value in zip(start.joint_names, start.joint_pos, strict=True):
        low, high = np.asarray(sim.joint_ranges)[sim.joint_names.index(name)]
        if not low - 0.1 <= value <= high + 0.1:
            raise UserError(
                f"the start of episode '{start.episode.episode_id}' puts joint '{name}' at"
                f" {value:g}, outside {low:g} to {high:g}; {_AGAIN}."
            )
    sim.reset([dataclasses.replace(start.episode, start=start.base_pose)], [seed], [env_id])
    for name, value in zip(start.joint_names, start.joint_pos, strict=True):
        now = float(sim.state().joint_pos[env_id, sim.joint_names.index(name)])
        if abs(now - value) > 1e-9:
            sim.set_joint(name, float(value), [env_id])
    lying = [k for k in range(len(start.object_pos)) if k != start.held_object]
    sim.set_objects(lying, start.object_pos[lying], start.object_quat[lying], env_id)
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
    if not starts:
        raise UserError(f"{path}: there are no start states to write; run more episodes.")
    joints = starts[0].joint_names
    if any(s.joint_names != joints for s in starts):
        raise UserError(f"{path}: the starts come from different apartments; write one file each.")
    most = max(len(s.object_pos) for s in starts)
    episodes = {id(s.episode): s.episode for s in starts}
    number = {key: k for k, key in enumerate(episodes)}
    meta = {
        "format": FORMAT,
        "joint_names": list(joints),
        "episodes": [
            {
                "episode": episode_to_json(episode, decimals=9),
                "objects": [item.instance for item in episode.objects],
            }
            for episode in episodes.values()
        ],
        "starts": [
            {"episode": number[id(s.episode)], "call": dataclasses.asdict(s.call)} for s in starts
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
        UserError: the file is missing, damaged or of another format, or holds what cannot be.
    """
    arrays = read_npz(path, _AGAIN)
    text = arrays.get("meta")
    if text is None or text.shape != () or text.dtype.kind != "U":
        raise UserError(f"{path}: is no file of start states; {_AGAIN}")
    meta = parse_json(str(text).encode("utf-8", "replace"), f"{path}: meta", _AGAIN)
    if meta.get("format") != FORMAT:
        raise UserError(f"{path}: its format is not {FORMAT}; {_AGAIN}")
    entries, joints, known = (meta.get(name) for name in ("starts", "joint_names", "episodes"))
    if not isinstance(entries, list) or not isinstance(known, list) or not _names(joints):
        raise UserError(f"{path}: meta has no list 'starts', 'episodes' or 'joint_names'; {_AGAIN}")
    _check_arrays(path, arrays, len(entries), len(joints))
    episodes = [_episode(f"{path}: episode {k}", entry) for k, entry in enumerate(known)]
    return [
        _start(f"{path}: start {k}", entry, joints, episodes, arrays, k)
        for k, entry in enumerate(entries)
    ]


def _names(value: Any) -> TypeGuard[list[str]]:
    text = isinstance(value, list) and all(isinstance(name, str) for name in value)
    return text and len(set(value)) == len(value)


def _check_arrays(path: str | Path, arrays: dict[str, np.ndarray], count: int, joints: int) -> None:
    poses = arrays.get("object_pos")
    most = poses.shape[1] if poses is not None and poses.ndim == 3 else 0
    wanted: dict[str, tuple[int, ...]] = {
        "object_pos": (count, most, 3),
        "object_quat": (count, most, 4),
        "joint_pos": (count, joints),
        "base_pose": (count, 3),
        "arm_qpos": (count, fetch.ARM_DOF),
        "held_object": (count,),
    }
    for name, size in wanted.items():
        found, kind = arrays.get(name), "i" if name == "held_object" else "f"
        if found is None or found.shape != size or found.dtype.kind != kind:
            raise UserError(f"{path}: array '{name}' is missing or has the wrong shape; {_AGAIN}")


def _episode(where: str, entry: Any) -> tuple[Episode, list[int]]:
    """Return an episode, and where each of its objects stands in the arrays of its starts.

    Raises:
        UserError: naming what cannot be.
    """
    if not isinstance(entry, dict) or not isinstance(entry.get("episode"), dict):
        raise UserError(f"{where}: field 'episode' is missing; {_AGAIN}")
    episode, names = episode_from_json(entry["episode"], where), entry.get("objects")
    if not _names(names) or {item.instance for item in episode.objects} != set(names):
        raise UserError(f"{where}: field 'objects' does not name those of its episode; {_AGAIN}")
    # Habitat's files name objects, they do not number them: reading may change their order.
    return episode, [names.index(item.instance) for item in episode.objects]


def _start(
    where: str,
    entry: Any,
    joints: list[str],
    episodes: Sequence[tuple[Episode, list[int]]],
    arrays: dict[str, np.ndarray],
    k: int,
) -> HandoffStart:
    """Return the ``k``-th start of a file.

    Raises:
        UserError: naming what cannot be.
    """
    number = entry.get("episode") if isinstance(entry, dict) else None
    if type(number) is not int or not 0 <= number < len(episodes):
        raise UserError(f"{where}: field 'episode' is no number of an episode; {_AGAIN}")
    episode, order = episodes[number]
    if len(order) > arrays["object_pos"].shape[1]:
        raise UserError(f"{where}: array 'object_pos' lacks some of its objects; {_AGAIN}")
    call = _call(where, entry.get("call"), episode, joints)
    held = int(arrays["held_object"][k])
    if not -1 <= held < len(order):
        raise UserError(f"{where}: held_object={held}, and it has {len(order)} objects; {_AGAIN}")
    start = HandoffStart(
        episode,
        call,
        arrays["object_pos"][k, order],
        arrays["object_quat"][k, order],
        tuple(joints),
        arrays["joint_pos"][k],
        arrays["base_pose"][k],
        arrays["arm_qpos"][k],
        -1 if held < 0 else order.index(held),
    )
    _check_values(where, start)
    return start


def is_sound(start: HandoffStart) -> bool:
    """Return whether a start could be read again: nothing lies farther off than is possible."""
    try:
        _check_values("", start)
    except UserError:
        return False
    return True


def _check_values(where: str, start: HandoffStart) -> None:
    """Refuse positions far from the robot, and rotations that are none."""
    for name in ("joint_pos", "base_pose", "arm_qpos", "object_pos", "object_quat"):
        if not (np.abs(getattr(start, name)) < FARTHEST).all():
            raise UserError(f"{where}: '{name}' holds NaN or a number beyond reason; {_AGAIN}")
    if (np.abs(np.linalg.norm(start.object_quat, axis=1) - 1.0) > 1e-3).any():
        raise UserError(f"{where}: 'object_quat' holds what is no rotation; {_AGAIN}")
    far = np.linalg.norm(start.object_pos[:, :2] - start.base_pose[:2], axis=1)
    far = np.maximum(far, np.abs(start.object_pos[:, 2]))
    reach = [_REACH if k == start.held_object else _FAR for k in range(len(far))]
    if (far > reach).any():
        item = start.episode.objects[int(np.argmax(far > reach))].instance
        raise UserError(f"{where}: object '{item}' lies too far from the robot; {_AGAIN}")
    arm = start.arm_qpos
    if (arm < fetch.ARM_LOWER - _SOFT).any() or (arm > fetch.ARM_UPPER + _SOFT).any():
        raise UserError(f"{where}: 'arm_qpos' is beyond the limits of the arm; {_AGAIN}")


def _call(where: str, raw: Any, episode: Episode, joints: list[str]) -> SkillCall:
    known = [field.name for field in dataclasses.fields(SkillCall)]
    if not isinstance(raw, dict) or not set(raw) <= set(known):
        raise UserError(f"{where}: field 'call' is missing or no call of a skill; {_AGAIN}")
    call = SkillCall(**{"skill": None, **raw})
    if not isinstance(call.skill, str) or call.skill in HELPERS:
        raise UserError(f"{where}: field 'call.skill' is {call.skill}, which is no skill; {_AGAIN}")
    choices = (
        ("place", [None, "start", "goal", "receptacle", "front"]),
        ("target", [None, *range(len(episode.targets))]),
        ("joint", [None, *joints]),
        ("steps", [None]),
    )
    for name, valid in choices:
        value = getattr(call, name)
        if isinstance(value, bool | float | list | dict) or value not in valid:
            raise UserError(f"{where}: field 'call.{name}' is {value}, which cannot be; {_AGAIN}")
    if call.target is None and call.joint is None:
        raise UserError(f"{where}: field 'call' has no target for {call.skill}; {_AGAIN}")
    return call


def _padded(values: Any, most: int, name: str) -> np.ndarray:
    array = np.asarray(values)
    if not name.startswith("object_"):
        return array
    out = np.full((most, array.shape[1]), np.nan)
    out[: len(array)] = array
    return out


def _float(values: Any) -> np.ndarray:
    return np.array(values, dtype=np.float64)
