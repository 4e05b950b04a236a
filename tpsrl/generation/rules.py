"""What an episode of each scenario consists of; one YAML each in ``configs/episodes``."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from omegaconf import MISSING, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from tpsrl.errors import UserError, nearest
from tpsrl.rooms import CONFIGS

SPLIT_LAYOUTS = {
    "train": ("sc0", "sc1", "sc2"),
    "val": ("sc3",),
    "test": ("sc4",),
    "wide": ("wide",),
    "widedev": ("widedev",),
}
"""First parts of the names of each split's layouts; train, val and test as habitat-lab's ReplicaCAD
datasets divide them, the others see :mod:`tpsrl.scenes.wide`."""

SPLITS = ("train", "val", "test")
"""The benchmark's own."""

MAX_PER_TYPE = 5
"""Most objects of one type in an episode: the engines keep that many bodies of each."""


@dataclass
class ObjectSampler:
    """Draws objects and the places where they start.

    Attributes:
        objects: object types, drawn uniformly.
        receptacles: where they may lie, drawn uniformly.
        count: how many.
        region_ratio: receptacle -> fraction of its length and width, about its centre, in which
            the point is drawn; 1 where not given.
    """

    objects: list[str] = MISSING
    receptacles: list[str] = MISSING
    count: int = 1
    region_ratio: dict[str, float] = field(default_factory=dict)


@dataclass
class GoalSampler:
    """Makes targets of the first objects of an `ObjectSampler` and draws their goals.

    Attributes:
        sampler: name of the object sampler.
        receptacles: where the goals may lie, drawn uniformly.
        count: how many of the sampler's objects are targets.
        region_ratio: as in `ObjectSampler`.
    """

    sampler: str = MISSING
    receptacles: list[str] = MISSING
    count: int = 1
    region_ratio: dict[str, float] = field(default_factory=dict)


@dataclass
class Scenario:
    """One kind of episode.

    Attributes:
        name: the scenario.
        samplers: name -> objects; those that goals refer to are placed first.
        goals: label -> goals; the k-th target of the episode is called ``"label|k"``.
        joints: furniture joints that do not start closed, m or rad.
        open_if_used: furniture joints that start at this position if the container they open
            holds a target or a goal at reset.
        max_per_receptacle: receptacle -> most objects on it.
        layouts: per split, prefixes of the layouts to draw from.
    """

    name: str = MISSING
    samplers: dict[str, ObjectSampler] = MISSING
    goals: dict[str, GoalSampler] = field(default_factory=dict)
    joints: dict[str, float] = field(default_factory=dict)
    open_if_used: dict[str, float] = field(default_factory=dict)
    max_per_receptacle: dict[str, int] = field(default_factory=dict)

    def target_count(self) -> int:
        """Number of objects to be moved."""
        return sum(g.count for g in self.goals.values())


def scenario_names() -> list[str]:
    """Names of all scenarios that ship with tpsrl."""
    return sorted(p.stem for p in _folder().glob("*.yaml"))


def load_scenario(name: str) -> Scenario:
    """Read the YAML file of a scenario.

    Raises:
        UserError: no such scenario, or its file has an unknown key or a wrong value.
    """
    names = scenario_names()
    if name not in names:
        raise UserError(f"unknown scenario '{name}'{nearest(name, names)}")
    path = _folder() / f"{name}.yaml"
    try:
        merged = OmegaConf.merge(OmegaConf.structured(Scenario), OmegaConf.load(path))
        scenario: Any = OmegaConf.to_object(merged)
    except OmegaConfBaseException as e:
        raise UserError(f"{path}: {str(e).splitlines()[0]}") from None
    for label, goal in scenario.goals.items():
        sampler = scenario.samplers.get(goal.sampler)
        if sampler is None or sampler.count < goal.count:
            raise UserError(
                f"{path}: goals.{label} wants {goal.count} objects of sampler '{goal.sampler}',"
                " which does not draw that many"
            )
    return scenario


def with_clutter(scenario: Scenario, count: int) -> Scenario:
    """Return the scenario with ``count`` objects that are no targets.

    The last sampler that draws more objects than it makes targets of is changed.
    """
    targets = {g.sampler: g.count for g in scenario.goals.values()}
    samplers = dict(scenario.samplers)
    for name, sampler in reversed(samplers.items()):
        if sampler.count > targets.get(name, 0):
            samplers[name] = replace(sampler, count=targets.get(name, 0) + count)
            return replace(scenario, samplers=samplers)
    return scenario


def split_layouts(names: list[str], split: str) -> list[str]:
    """Layouts of a split, sorted.

    Raises:
        UserError: no such split.
    """
    if split not in SPLIT_LAYOUTS:
        raise UserError(f"unknown split '{split}'{nearest(split, SPLIT_LAYOUTS)}")
    return sorted(n for n in names if n.split("_")[0] in SPLIT_LAYOUTS[split])


def _folder() -> Path:
    return CONFIGS / "episodes"
