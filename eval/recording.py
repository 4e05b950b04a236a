"""What happened in one world, step by step, compact and exact: recorded, kept, shown again.

A file holds a few hundred kB an episode. Numbers that do not change cost nearly nothing: every
row is kept as its difference in bits to the one before, which compresses well and loses none.
"""

from __future__ import annotations

import dataclasses
import io
import json
import warnings
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from planner.chain.interface import AgentReport, SkillRecord
from tpsrl.episodes.habitat_json import episode_from_json, episode_to_json
from tpsrl.episodes.types import Episode, Target
from tpsrl.errors import UserError
from tpsrl.files import write_atomically
from tpsrl.sim.door import SimState
from tpsrl.sim.mujoco.stage import Poses

FOLDER = "states"
"""Of a result folder: where the files are."""
MODES = ("failures", "all", "none")
RECORD = "whose states are kept in out= ('tpsrl view results=DIR' shows them)"
_FIELDS = ("base_pose", "arm_qpos", "joint_pos", "object_pos", "object_quat")
"""Of ``SimState``: what decides a picture."""
_DIGITS = 12
"""Decimals of poses of the episode itself; those of the steps are exact."""


class Marks(NamedTuple):
    """What an agent was about in one step.

    Attributes:
        held: index of the held object, -1 for none.
        handle: index of the held marker, -1 for none.
        plan: index into ``Recording.plans``, -1 for none.
        cursor: index of the running action in that plan.
        run: index into ``Recording.runs``, -1 for none.
    """

    held: int
    handle: int
    plan: int
    cursor: int
    run: int


class Recording:
    """One episode; it grows by :meth:`add`.

    Args:
        episode: what was loaded; of targets that change later only these are kept.
        about: plain values: what made it.

    Attributes:
        plans: each with the ``step`` it was made in, its ``actions`` as text, and ``why``.
    """

    def __init__(self, episode: Episode, about: Mapping[str, Any]) -> None:
        self.episode, self.about = episode, dict(about)
        self.plans: list[dict[str, Any]] = []
        self._runs: list[SkillRecord] = []
        self._earlier: list[SkillRecord] = []
        self._states: list[tuple[np.ndarray, ...]] = []
        self._marks: list[Marks] = []
        self._signals: list[tuple[float, float, float]] = []
        self._plan: tuple[list[str], int] | None = None

    def __len__(self) -> int:
        return len(self._states)

    @property
    def runs(self) -> list[SkillRecord]:
        """Every skill run so far, in order."""
        return [*self._earlier, *self._runs]

    def add(self, state: SimState, report: AgentReport, reward: float = np.nan) -> None:
        """Add the state of world 0 after the reset or a step.

        Args:
            state: of the simulator.
            report: of the agent, as it stands.
            reward: of the running skill in this step, NaN where none is known.
        """
        # Compared by what is in it: a report of one's own may build its lists in every step.
        if report.plan and (plan := (list(report.plan), report.replans)) != self._plan:
            another = "there is another goal" if self.plans and not report.replans else ""
            why = report.why or another
            self.plans.append({"step": len(self), "actions": plan[0], "why": why})
            self._plan = plan
        self._runs = report.skills
        # Arrays of a state never change, so that nothing is copied here: this runs in every step.
        self._states.append(tuple(getattr(state, name)[0] for name in _FIELDS))
        held, handle = int(state.held_object[0]), int(state.held_marker[0])
        run = len(self._earlier) + len(self._runs) - 1
        self._marks.append(Marks(held, handle, len(self.plans) - 1, report.cursor, run))
        self._signals.append((float(state.force[0]), float(state.force_sum[0]), float(reward)))

    def hand_over(self) -> None:
        """Say that another agent goes on: its skills come after those so far."""
        self._earlier, self._runs, self._plan = self.runs, [], None

    def poses(self, step: int) -> Poses:
        """Return where everything was, to the last bit."""
        base, arm, joints, positions, quats = self._states[step]
        return Poses(base, arm, joints, np.concatenate([positions, quats], axis=1))

    def marks(self, step: int) -> Marks:
        """Return what the agent was about."""
        return self._marks[step]

    def signals(self, first: int = 0, end: int | None = None) -> np.ndarray:
        """Return (k, 3) float32: contact force and its accumulated increases, N, and reward."""
        return np.array(self._signals[first:end], dtype=np.float32).reshape(-1, 3)

    def save(self, path: Path) -> None:
        """Write the file.

        Raises:
            StorageError: it cannot be written; what stood there before is intact.
        """
        header = {
            "episode": episode_to_json(self.episode, _DIGITS),
            "targets": [_written_target(target) for target in self.episode.targets],
            "about": self.about,
            "plans": self.plans,
            "runs": [dataclasses.asdict(run) for run in self.runs],
        }
        content, columns = io.BytesIO(), zip(*self._states, strict=True)
        packed: dict[str, Any] = {
            name: _packed(np.stack(rows)) for name, rows in zip(_FIELDS, columns, strict=True)
        }
        np.savez_compressed(
            content,
            header=np.frombuffer(json.dumps(header).encode(), dtype=np.uint8),
            marks=np.array(self._marks, dtype=np.int32).T,
            signals=self.signals().T,
            **packed,
        )
        write_atomically(path, content.getvalue())

    @classmethod
    def load(cls, path: Path) -> Recording:
        """Read a file.

        Raises:
            UserError: it is missing or damaged.
        """
        try:
            with np.load(path, allow_pickle=False) as file:
                header = json.loads(file["header"].tobytes())
                episode = episode_from_json(header["episode"], str(path))
                targets = tuple(_read_target(row) for row in header["targets"])
                episode = dataclasses.replace(episode, targets=targets)
                found = cls(episode, header["about"])
                found.plans = header["plans"]
                found._runs = [SkillRecord(**run) for run in header["runs"]]
                found._states = list(zip(*(_unpacked(file[n]) for n in _FIELDS), strict=True))
                found._marks = [Marks(*row) for row in file["marks"].T.tolist()]
                found._signals = [tuple(row) for row in file["signals"].T.tolist()]
        except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
            why = error.strerror if isinstance(error, OSError) else "damaged"
            raise UserError(
                f"{path}: no states of an episode ({why}); remove the file, and run 'tpsrl eval'"
                " with another out= to record it anew."
            ) from None
        return found


def _written_target(target: Target) -> dict[str, Any]:
    """Return plain values.

    Habitat's format has one target an object. A goal in words may have more: a place to go to
    stands in it as a target of an object that lies there.
    """
    return {
        "index": int(target.object_index),
        "pos": np.asarray(target.goal_pos, dtype=np.float64).tolist(),
        "quat": np.asarray(target.goal_quat, dtype=np.float64).tolist(),
        "label": target.label,
        "start": target.start_receptacle,
        "goal": target.goal_receptacle,
    }


def _read_target(row: Mapping[str, Any]) -> Target:
    """Return what :func:`_written_target` was given."""
    pos, quat = (np.array(row[name], dtype=np.float64) for name in ("pos", "quat"))
    return Target(row["index"], pos, quat, row["label"], row["start"], row["goal"])


def _packed(rows: np.ndarray) -> np.ndarray:
    """Return (t, ...) float64 as (8, ..., t) uint8, each byte beside its likes of other rows."""
    bits = np.ascontiguousarray(rows, dtype=np.float64).view(np.uint64)
    bits = bits ^ np.concatenate([np.zeros_like(bits[:1]), bits[:-1]])
    return np.ascontiguousarray(bits[..., None].view(np.uint8).T)


def _unpacked(planes: np.ndarray) -> np.ndarray:
    """Return what :func:`_packed` was given."""
    bits = np.ascontiguousarray(planes.T).view(np.uint64)[..., 0]
    return np.bitwise_xor.accumulate(bits, axis=0).view(np.float64)


@dataclass(frozen=True)
class Keeper:
    """Which episodes of an evaluation are kept, and where.

    Attributes:
        folder: of the results.
        mode: one of ``MODES``.
    """

    folder: Path
    mode: str = "none"

    def begin(self, episode: Episode, about: Mapping[str, Any]) -> Recording | None:
        """Return a recording to add to, ``None`` if nothing is kept."""
        return None if self.mode == "none" else Recording(episode, about)

    def end(self, recording: Recording | None, record: Mapping[str, Any]) -> None:
        """Write the file of an episode that is to be kept.

        What an agent of one's own reports may be no plain values. The file is left out then, with
        a warning: the episode counts all the same.

        Args:
            recording: what :meth:`begin` returned.
            record: of the episode, as it stands in ``episodes.jsonl``.

        Raises:
            StorageError: it cannot be written.
        """
        if recording is None or (self.mode != "all" and record["success"]):
            return
        recording.about["record"] = dict(record)
        try:
            recording.save(states_file(self.folder, record["index"]))
        except UserError:
            raise
        except Exception as error:
            what = f"the states of episode {record['index']} cannot be kept"
            warnings.warn(f"{what}: {type(error).__name__}: {error}", stacklevel=2)


def states_file(folder: Path, index: int) -> Path:
    """Return where a result folder has the states of an episode, if it has them."""
    return folder / FOLDER / f"episode_{index:06d}.npz"
