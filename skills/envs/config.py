"""What the arguments of ``gymnasium.make`` mean, and the parts they are turned into."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
from gymnasium import spaces

from skills.book import Contract, Stop, make_task, placed, row_of, sensor_sets
from skills.envs import arguments
from skills.envs.starts import Starts, beginnings
from skills.envs.worlds import SkillWorlds
from skills.row import Actions
from skills.tasks.base import Task
from skills.tasks.handoff import HandoffStart
from skills.tasks.kinds import check
from skills.tasks.places import BALANCED, KINDS, SHARES
from skills.tasks.seen import PIXELS, sees_way
from skills.tasks.sensors import COLOUR, DEPTH, PICTURES, SENSORS
from tpsrl.engines import make_simulator, object_pool
from tpsrl.episodes.habitat_json import load_episodes
from tpsrl.episodes.types import Episode
from tpsrl.errors import UserError, nearest
from tpsrl.habitat.scenes import Scenes, choose_scenes
from tpsrl.provide import find_episodes
from tpsrl.sim.door import Simulator

MOST_COLOUR = 960
"""Pixels along the side of a colour picture."""


@dataclass(frozen=True)
class EnvConfig:
    """Arguments of a skill environment.

    Attributes:
        depth: pixels of the square depth picture; ``None`` leaves ``head_depth`` out, and a map
            of what was seen then has pictures of 64. A policy that keeps such a map and does not
            look at pictures itself is used with pictures of 64.
        depth_dtype: ``"float32"``, in [0, 1], or ``"uint8"``, in [0, 255], which other libraries
            take for a picture.
        colour: pixels of the square colour pictures ``head_rgb`` and ``third_rgb``, for which
            ``sensors`` asks.
        actions: ``"full"``, or ``"restricted"``: no base movement in manipulation skills.
        stop: ``"action"``: the policy calls stop, as habitat-lab has it; ``"success"``: its action
            has none, and the skill ends when it is done.
        contract: ``"fixed"``, or ``"parity"`` with the quirks of habitat-lab.
        episodes: episode file, or several whose episodes are drawn alike; ``None`` takes the set
            that ships for the skill's scenario, or with ``path`` the one found there.
        split: of the shipped set, or of one made on this machine: ``"train"``, ``"val"``, ...
        start: ``"generated"``, or ``"handoff"`` from the file ``handoff``.
        handoff: file or files of start states (:mod:`skills.tasks.handoff`).
        handoff_fraction: share of the episodes that begin at hand-off starts.
        again: share of the episodes whose start has failed in this process before, up to four
            times each, from 0 to below 1, or ``"auto"``: the skill's own (``SkillRow.again``). For
            training; it changes what the share of successes means.
        spawn: ``"hab"``, ``"near"``, or ``"auto"``: ``"near"`` where actions are restricted.
        places: kinds of places (``open``, ``cabinet``, ``drawer``) that Pick takes from or Place
            sets down in, all if empty: ``["cabinet"]`` is the fridge. ``"balanced"`` draws kinds
            as often as ``skills.tasks.places.SHARES`` says; it changes nothing in other skills.
        sensors: observations instead of the contract's; among them ``"contract"`` stands for the
            contract's, ``"fine"`` for what follows from these and tells their last centimetres
            (``SkillRow.fine``), ``"seen"`` for the way as far as the robot has seen it
            (``SkillRow.seen``), ``"felt"`` for what it was told and did not do
            (``SkillRow.felt``), ``"state"`` for those of a policy that may know the whole state
            (``SkillRow.state``), ``"course"`` for the way itself (``SkillRow.course``).
        reward: ``"contract"``, or ``"teaching"`` with what helps to learn from reward alone
            (``SkillRow.teaching``).
        options: fields of the task to override, e.g. ``{"horizon": 500}`` or
            ``{"scenario": "FILE.yaml"}``.
        sim: engine, one of ``tpsrl.engines.ENGINES``.
        path: Habitat scene dataset or data folder to play in, ``None`` for tpsrl's own apartments.
        gpu: ``sim="habitat"``: which one renders, -1 for software.
        habitat: ``sim="habitat"``: ``python``, its interpreter, and ``robot``, its URDF.

    Raises:
        UserError: an argument is of another kind.
    """

    depth: int | None = 128
    depth_dtype: Literal["float32", "uint8"] = "float32"
    colour: int = 64
    actions: Actions = "full"
    stop: Stop = "action"
    contract: Contract = "fixed"
    episodes: str | Path | Sequence[str | Path] | None = None
    split: str = "train"
    start: Literal["generated", "handoff"] = "generated"
    handoff: str | Path | Sequence[str | Path] | None = None
    handoff_fraction: float = 1.0
    again: float | str = 0.0
    spawn: Literal["auto", "hab", "near"] = "auto"
    places: tuple[str, ...] | str = ()
    sensors: tuple[str, ...] | str | None = None
    reward: Literal["contract", "teaching"] = "contract"
    options: Mapping[str, Any] = field(default_factory=dict)
    sim: str = "mujoco"
    path: str | Path | None = None
    gpu: int = -1
    habitat: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check(vars(self), arguments.KINDS)

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> EnvConfig:
        """Return the arguments that somebody gave by their names.

        Raises:
            UserError: there is none of such a name, or it is of another kind.
        """
        known = [f.name for f in fields(cls)]
        for name in given:
            if name not in known:
                raise UserError(
                    f"the environment of a skill has no argument '{name}'{nearest(name, known)}"
                )
        return cls(**given)

    @property
    def coarse_depth(self) -> bool:
        """Whether the depth picture is uint8."""
        return self.depth_dtype == "uint8"

    def space(self, task: Task) -> spaces.Dict:
        """Return the space of one world's observations."""
        return observation_space(task, self.depth, self.coarse_depth, self.colour)

    def task(self, skill: str) -> Task:
        """Return the task.

        Raises:
            UserError: unknown sensor or option.
        """
        if self.reward not in ("contract", "teaching"):
            raise UserError(f"reward='{self.reward}' is unknown; use 'contract' or 'teaching'.")
        if self.depth_dtype not in ("float32", "uint8"):
            raise UserError(
                f"depth_dtype='{self.depth_dtype}' is unknown; use 'float32' or 'uint8'."
            )
        if not 1 <= self.colour <= MOST_COLOUR:
            raise UserError(f"colour={self.colour}; a picture has 1 to {MOST_COLOUR} pixels.")
        task = make_task(
            skill,
            contract=self.contract,
            actions=self.actions,
            stop=self.stop,
            options=self._options(skill),
        )
        known = [*SENSORS, *PICTURES]
        for name in task.sensors:
            if name not in known:
                raise UserError(f"unknown sensor '{name}'{nearest(name, known)}")
        if self.depth is None:
            task = replace(task, sensors=tuple(name for name in task.sensors if name != DEPTH))
        return task

    def _options(self, skill: str) -> dict[str, Any]:
        """Return the fields of the task that differ from its row's."""
        options = dict(self.options)
        if self.reward == "teaching":
            options = row_of(skill).taught(self.actions) | options
        if self.sim == "habitat" and self.contract == "fixed":
            # Its base gives no way, so what was calibrated on ours would end good runs.
            options = {"max_force": None, "max_force_sum": None} | options
        if self.sensors is not None:
            options["sensors"] = self._sensors(skill)
        return options

    def _sensors(self, skill: str) -> tuple[str, ...]:
        wanted = (self.sensors,) if isinstance(self.sensors, str) else tuple(self.sensors or ())
        sets = sensor_sets(skill, self.contract, self.actions)
        for name in ("state", "fine"):
            if name in wanted and not sets[name]:
                raise UserError(
                    f"sensors={name}: the skill '{skill}' lists none in skills/rows.py."
                )
        # Once each, in the order in which they were asked for.
        found = tuple(dict.fromkeys(n for name in wanted for n in sets.get(name, (name,))))
        if not found:
            raise UserError(
                f"sensors={','.join(wanted)}: '{skill}' would sense nothing; add 'contract'."
            )
        return found

    def check(self, skill: str) -> Task:
        """Return the task, with what needs no file looked at first.

        Raises:
            UserError: an argument cannot be used.
        """
        task = self.task(skill)
        self._spawn()
        self._again(skill)
        self._places(skill)
        if self.start not in ("generated", "handoff"):
            raise UserError(f"start='{self.start}' is unknown; use 'generated' or 'handoff'.")
        if not 0.0 <= self.handoff_fraction <= 1.0:
            raise UserError(f"handoff_fraction={self.handoff_fraction}; it is a share, 0 to 1.")
        return task

    def _spawn(self) -> Literal["hab", "near"]:
        if self.spawn == "auto":
            return "near" if self.actions == "restricted" else "hab"
        if self.spawn not in ("hab", "near"):
            raise UserError(f"spawn='{self.spawn}' is unknown; use 'auto', 'hab' or 'near'.")
        return self.spawn

    def worlds(self, skill: str, num_envs: int, sim: Simulator | None = None) -> SkillWorlds:
        """Return the worlds of the environment.

        Args:
            skill: which task.
            num_envs: worlds of the engine that is made if ``sim`` is ``None``.
            sim: the simulator to use instead.

        Raises:
            UserError: there are no episodes or start states, or the engine cannot be had.
        """
        task, spawn = self.check(skill), self._spawn()
        starts, fraction = self._starts(skill)
        scenes = self.scenes(task.scenario)
        types = None
        if scenes is not None:
            dataset, episodes = scenes.read()
            types = dataset.types
        elif fraction < 1.0:
            episodes = self._episodes(task.scenario)
        else:
            episodes = ()
        if sim is None:
            sim = make_simulator(
                self.sim,
                self.depth or (PIXELS if sees_way(task.sensors) else None),
                None if scenes is None else asdict(scenes),
                self._habitat(),
                num_envs=num_envs,
                pool=object_pool([*episodes, *(s.episode for s in starts)], types),
            )
        begins = Starts(
            task,
            sim,
            episodes,
            spawn=spawn,
            starts=starts,
            handoff_fraction=fraction,
            places=self._places(skill),
        )
        return SkillWorlds(
            task,
            sim,
            begins,
            again=self._again(skill),
            colour=self.colour,
            coarse_depth=self.coarse_depth,
        )

    def _again(self, skill: str) -> float:
        share = row_of(skill).again if self.again == "auto" else self.again
        if isinstance(share, str) or not 0.0 <= share < 1.0:
            raise UserError(
                f"again={share} is 'auto' or a share from 0 to below 1; give e.g. 0.35."
            )
        return float(share)

    def _places(self, skill: str) -> dict[str, float]:
        """Return kind of place -> how often it is drawn; nothing where all will do."""
        if self.places == BALANCED:
            return SHARES if row_of(skill).placed else {}
        wanted = (self.places,) if isinstance(self.places, str) else tuple(self.places)
        for kind in wanted:
            if kind not in KINDS:
                raise UserError(f"places has no kind '{kind}'{nearest(kind, [*KINDS, BALANCED])}")
        if wanted and not row_of(skill).placed:
            known = " and ".join(placed())
            raise UserError(f"places= chooses starts of {known}, not of '{skill}'.")
        return dict.fromkeys(wanted, 1.0)

    def _episodes(self, scenario: str) -> tuple[Episode, ...]:
        files = self.episodes
        if files is None or isinstance(files, str | Path):
            return _load(Path(files) if files else find_episodes(scenario, self.split))
        return tuple(episode for file in files for episode in _load(Path(file)))

    def scenes(self, scenario: str) -> Scenes | None:
        """Return the scenes of a Habitat dataset that ``path`` names, ``None`` for tpsrl's own.

        Raises:
            UserError: several episode files with ``path``, or something is missing there.
        """
        path = None if self.path is None else Path(self.path)
        several = self.episodes is not None and not isinstance(self.episodes, str | Path)
        if several and path is None:
            return None
        if several:
            raise UserError("path= plays one episode file; give episodes= a single one.")
        file = None if self.episodes is None else Path(str(self.episodes))
        return choose_scenes(path, file, scenario, self.split, None)

    def _habitat(self) -> dict[str, Any]:
        known = ("python", "robot")
        for key in self.habitat:
            if key not in known:
                raise UserError(f"habitat has no key '{key}'{nearest(key, known)}")
        return {**self.habitat, "gpu": int(self.gpu)}

    def _starts(self, skill: str) -> tuple[list[HandoffStart], float]:
        if self.start == "generated":
            if self.handoff is not None:
                raise UserError("handoff= is used with start='handoff' only; give both.")
            return [], 0.0
        if self.handoff is None:
            raise UserError("start='handoff' needs handoff=FILE, a file of start states.")
        files = [self.handoff] if isinstance(self.handoff, str | Path) else [*self.handoff]
        starts, left_out = beginnings(files, skill)
        if not starts:
            where = " at which its object is in the hand" if left_out else ""
            names = ", ".join(map(str, files))
            raise UserError(f"{names}: no start state of the skill '{skill}'{where}.")
        return starts, float(self.handoff_fraction)


@lru_cache(maxsize=8)
def _load(path: Path) -> tuple[Episode, ...]:
    episodes = load_episodes(path).episodes
    if not episodes:
        raise UserError(f"{path}: the file holds no episode; generate some.")
    return episodes


def observation_space(
    task: Task, depth: int | None, coarse_depth: bool = False, colour: int = 64
) -> spaces.Dict:
    """Return the space of one world's observations.

    Args:
        task: its sensors.
        depth: pixels of the depth picture.
        coarse_depth: it is uint8.
        colour: pixels of the colour pictures.
    """
    found: dict[str, spaces.Space] = {}
    for name in task.sensors:
        if name in COLOUR:
            found[name] = spaces.Box(0, 255, (colour, colour, 3), np.uint8)
        elif name == DEPTH and coarse_depth:
            assert depth is not None
            found[name] = spaces.Box(0, 255, (depth, depth, 1), np.uint8)
        elif name == DEPTH:
            assert depth is not None
            found[name] = spaces.Box(0.0, 1.0, (depth, depth, 1), np.float32)
        elif name == "is_holding":
            found[name] = spaces.Box(0.0, 1.0, (1,), np.float32)
        else:
            found[name] = spaces.Box(-np.inf, np.inf, (SENSORS[name].size,), np.float32)
    return spaces.Dict(found)


def action_space(task: Task) -> spaces.Box:
    """Return the space of one world's flat action."""
    return spaces.Box(-1.0, 1.0, (task.layout.size,), np.float32)
