"""Scenarios: what their episodes consist of and what is to be done in them.

One YAML is one scenario: those that ship lie in ``configs/scenarios``, others anywhere.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

from omegaconf import MISSING, OmegaConf
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException

from tpsrl.episodes.habitat_json import MOST_OBJECTS
from tpsrl.errors import UserError, nearest
from tpsrl.rooms import CONFIGS
from tpsrl.scenes.apartment import load_apartment
from tpsrl.scenes.description import Apartment, Joint
from tpsrl.scenes.geometry import enclosing_joints
from tpsrl.scenes.objects import object_types
from ver_trainer.reading import read_yaml

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
"""Most objects of one type in an episode."""

OPENED = {"slide": 0.45 - 0.1, "hinge": 1.22 - 0.15}
"""A container is open beyond this joint position, m (drawer) or rad (door), as in habitat-lab."""

_FOLDER = CONFIGS / "scenarios"


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
class PlanRules:
    """What differs from the plain task, every target at its goal and nothing held.

    Attributes:
        goal: atoms of :mod:`planner` that shall be true at the end, instead of the plain task's.
        stages: name -> atoms; what evaluation reports, instead of one pick and one place a target.
    """

    goal: list[str] = field(default_factory=list)
    stages: dict[str, list[str]] = field(default_factory=dict)


@dataclass
class Scenario:
    """One kind of episode and what is to be done in it.

    Attributes:
        samplers: name -> objects; those that goals refer to are placed first.
        goals: label -> goals; the k-th target of the episode is called ``"label|k"``.
        joints: furniture joints that do not start closed, m or rad.
        open_if_used: furniture joints that start at this position if the container they open
            holds a target or a goal at reset.
        max_per_receptacle: receptacle -> most objects on it.
        max_steps: control steps after which an episode fails. Those of the benchmark's scenarios
            are habitat-lab's (v0.2.x, as VER used it).
        problem: where the task is another than the targets at their goals.
        name: the file's, without its ending; not in the file.
        file: absolute path, ``""`` for a scenario that ships; not in the file.
    """

    samplers: dict[str, ObjectSampler] = MISSING
    goals: dict[str, GoalSampler] = field(default_factory=dict)
    joints: dict[str, float] = field(default_factory=dict)
    open_if_used: dict[str, float] = field(default_factory=dict)
    max_per_receptacle: dict[str, int] = field(default_factory=dict)
    max_steps: int = 5000
    problem: PlanRules = field(default_factory=PlanRules)
    name: str = ""
    file: str = ""

    def targets(self) -> list[tuple[str, GoalSampler]]:
        """Return the label of each target with the rules of its goal, in order."""
        goals = [(label, goal) for label, goal in self.goals.items() for _ in range(goal.count)]
        return [(f"{label}|{k}", goal) for k, (label, goal) in enumerate(goals)]

    def clutter(self) -> int:
        """Return how many objects of an episode are no targets."""
        drawn = sum(sampler.count for sampler in self.samplers.values())
        return drawn - sum(goal.count for goal in self.goals.values())

    def to_solve(self) -> bool:
        """Return whether there is anything to do in an episode."""
        return bool(self.goals or self.problem.goal)

    def digest(self) -> str:
        """Return the first 16 hex digits of the file's SHA-256, ``""`` if the scenario ships."""
        return hashlib.sha256(Path(self.file).read_bytes()).hexdigest()[:16] if self.file else ""

    def origin(self) -> dict[str, str]:
        """Return what a result says of a user's file: path and digest; empty if it ships."""
        if not self.file:
            return {}
        return {"scenario_file": self.file, "scenario_digest": self.digest()}

    def stem(self) -> str:
        """Return the name of files made for it, which a file that changes gets anew."""
        return "_".join(filter(None, (self.name, self.digest())))


def scenario_names() -> list[str]:
    """Names of all scenarios that ship with tpsrl."""
    return sorted(p.stem for p in _FOLDER.glob("*.yaml"))


def find_scenario(name: str) -> Path:
    """Return the file of a scenario.

    Args:
        name: of a scenario that ships, or the path of a YAML file.

    Raises:
        UserError: it is neither.
    """
    if name in scenario_names():
        return _FOLDER / f"{name}.yaml"
    path = Path(name)
    if path.suffix in (".yaml", ".yml") and path.is_file():
        return path.resolve()
    hint = nearest(path.stem, scenario_names())
    raise UserError(f"unknown scenario '{name}', which is no YAML file either{hint}")


def load_scenario(name: str) -> Scenario:
    """Read and check a scenario.

    Args:
        name: of a scenario that ships, or the path of a YAML file.

    Raises:
        UserError: there is none, or one sentence that names its file and the key.
    """
    path = find_scenario(name)
    try:
        content = read_yaml(path)
        derived = [key for key in ("name", "file") if key in content]
        if derived:
            raise UserError(f"{path}: key '{derived[0]}' is not for the file, whose name names it")
        scenario: Any = OmegaConf.to_object(_merged(content, str(path)))
    except OmegaConfBaseException as error:
        raise UserError(f"{path}: {_reason(error)}") from None
    scenario.name, scenario.file = path.stem, "" if path.parent == _FOLDER else str(path)
    check_scenario(scenario)
    return scenario


def _merged(content: Mapping[str, Any], where: str) -> Any:
    """Return the content of a file in the form of a `Scenario`.

    Raises:
        UserError: one sentence that names ``where`` and the key.
    """
    merged: Any = OmegaConf.structured(Scenario)
    for key, value in content.items():
        try:
            merged = OmegaConf.merge(merged, {key: value})
        except OmegaConfBaseException as error:
            raise UserError(f"{where}: {_reason(error, key)}") from None
        except TypeError:
            what = "a list stands where names with values belong, or they where a list does"
            raise UserError(f"{where}: key '{key}': {what}") from None
    return merged


def _reason(error: OmegaConfBaseException, place: str = "") -> str:
    """Say what is wrong where; ``place`` is the key for errors that name none."""
    if error.key is None:
        return f"key '{error.full_key or place}': {str(error).splitlines()[0]}"
    known = [f.name for f in fields(error.object_type)] if is_dataclass(error.object_type) else []
    if known and error.key not in known:
        place = str(error.full_key).rpartition(".")[0]
        where = f" in '{place}'" if place else ""
        return f"unknown key '{error.key}'{where}{nearest(str(error.key), known)}"
    if isinstance(error, MissingMandatoryValue):
        return f"key '{error.full_key}' is missing"
    return f"key '{error.full_key}': {str(error).splitlines()[0]}"


def check_scenario(scenario: Scenario) -> None:
    """Check names, numbers, and that every target and goal can be reached.

    Raises:
        UserError: one sentence that names the scenario's file and the key.
    """
    where, apartment = scenario.file or f"scenario '{scenario.name}'", load_apartment()
    joints = {
        f"{piece.name}/{link.name}": link.joint
        for piece in apartment.furniture
        for link in piece.links
        if link.joint is not None
    }
    _check_kinds(scenario, where)
    for key, names, what, known in _names(scenario, apartment, joints):
        for name in names:
            if name not in known:
                raise UserError(f"{where}: {key}: unknown {what} '{name}'{nearest(name, known)}")
        if not names and key.endswith(("samplers", ".objects", ".receptacles")):
            raise UserError(f"{where}: {key} is empty; name at least one {what}")
    _check_numbers(scenario, joints, where)
    _check_containers(scenario, apartment, joints, where)


def _names(
    scenario: Scenario, apartment: Apartment, joints: Collection[str]
) -> Iterator[tuple[str, Collection[str], str, Collection[str]]]:
    """Yield each key with the names it holds, what they are names of, and all such names."""
    places = [r.name for piece in apartment.furniture for r in piece.receptacles]
    yield "samplers", scenario.samplers, "sampler", scenario.samplers
    for name, sampler in scenario.samplers.items():
        yield f"samplers.{name}.objects", sampler.objects, "object", object_types()
    for label, goal in scenario.goals.items():
        yield f"goals.{label}.sampler", [goal.sampler], "sampler", scenario.samplers
    for group in ("samplers", "goals"):
        for name, rules in getattr(scenario, group).items():
            yield f"{group}.{name}.receptacles", rules.receptacles, "receptacle", places
            yield f"region_ratio of {group}.{name}", rules.region_ratio, "receptacle", places
    yield "max_per_receptacle", scenario.max_per_receptacle, "receptacle", places
    yield "joints", scenario.joints, "joint", joints
    yield "open_if_used", scenario.open_if_used, "joint", joints


def _check_kinds(scenario: Scenario, where: str) -> None:
    """Refuse lists and mappings where a name or a number belongs, which OmegaConf lets pass."""
    numbers: dict[str, Mapping[str, float]] = {
        key: getattr(scenario, key) for key in ("joints", "open_if_used", "max_per_receptacle")
    }
    names = {"problem.goal": scenario.problem.goal}
    for group in ("samplers", "goals"):
        for name, rules in getattr(scenario, group).items():
            key = f"{group}.{name}"
            numbers[f"{key}.region_ratio"] = rules.region_ratio
            names[f"{key}.receptacles"] = rules.receptacles
            names[f"{key}.objects"] = getattr(rules, "objects", [])
    for key, values in numbers.items():
        for name, value in values.items():
            if type(value) not in (int, float):
                raise UserError(f"{where}: {key}.{name}={value} must be a number")
            if key.endswith(".region_ratio") and not 0.0 < value <= 1.0:
                raise UserError(f"{where}: {key}.{name}={value:g} must be above 0 and at most 1")
            if key == "max_per_receptacle" and value < 0:
                raise UserError(f"{where}: {key}.{name}={value} must be at least 0")
    for key, texts in names.items():
        for text in texts:
            if not isinstance(text, str):
                raise UserError(f"{where}: {key} holds {text}, which is no name")


def _check_numbers(scenario: Scenario, joints: Mapping[str, Joint], where: str) -> None:
    counts = [(f"samplers.{k}.count", s.count, 0) for k, s in scenario.samplers.items()]
    counts += [(f"goals.{k}.count", g.count, 1) for k, g in scenario.goals.items()]
    for key, count, low in [*counts, ("max_steps", scenario.max_steps, 1)]:
        if count < low:
            raise UserError(f"{where}: {key}={count} must be at least {low}")
    if (drawn := sum(sampler.count for sampler in scenario.samplers.values())) > MOST_OBJECTS:
        raise UserError(f"{where}: samplers: {drawn} objects in all, more than {MOST_OBJECTS}")
    wanted = _targets_of(scenario)
    for label, goal in scenario.goals.items():
        sampler = scenario.samplers[goal.sampler]
        if sampler.count < wanted[goal.sampler]:
            raise UserError(
                f"{where}: samplers.{goal.sampler}.count={sampler.count} is too few: goals.{label}"
                f" and others make {wanted[goal.sampler]} targets of its objects"
            )
    for key in ("joints", "open_if_used"):
        for name, value in getattr(scenario, key).items():
            joint = joints[name]
            if not joint.lower <= value <= joint.upper:
                raise UserError(
                    f"{where}: {key}.{name}={value:g} is outside the joint's range"
                    f" {joint.lower:g} to {joint.upper:g}"
                )


def _check_containers(
    scenario: Scenario, apartment: Apartment, joints: Mapping[str, Joint], where: str
) -> None:
    """Refuse targets and goals that are shut away for good.

    The fridge's shelf stands still, so a plan may open the door; a goal in a drawer is a place in
    the world, which the drawer would leave when a plan opens it.
    """
    handles = {f"{piece.name}/{m.link}" for piece in apartment.furniture for m in piece.markers}
    for place, joint in enclosing_joints(apartment).items():
        kind = joints[joint].kind
        start = {**scenario.joints, **scenario.open_if_used}.get(joint, 0.0)
        if start > OPENED[kind]:
            continue
        wide = {"slide": 0.5, "hinge": 1.5}[kind]
        advice = f"let it start open, e.g. open_if_used: {{{joint}: {wide}}}"
        for label, goal in scenario.goals.items():
            if place in goal.receptacles and kind == "slide":
                raise UserError(
                    f"{where}: goals.{label}.receptacles: '{place}' is in a drawer that starts"
                    " closed, and a step that opens it would leave the goal behind in the closed"
                    f" drawer's place; {advice}"
                )
            starts = scenario.samplers[goal.sampler].receptacles
            if place in (*starts, *goal.receptacles) and joint not in handles:
                raise UserError(
                    f"{where}: goals.{label}: '{place}' is closed and has no handle, so no step of"
                    f" a plan can open it; {advice}"
                )


def _targets_of(scenario: Scenario) -> Counter[str]:
    """Return how many objects of each sampler are targets."""
    wanted: Counter[str] = Counter()
    for goal in scenario.goals.values():
        wanted[goal.sampler] += goal.count
    return wanted


def with_clutter(scenario: Scenario, count: int) -> Scenario:
    """Return the scenario with ``count`` objects that are no targets.

    Of the samplers that draw such objects the last one changes first, then those before it.

    Raises:
        UserError: there is none, and ``count`` is not 0.
    """
    targets = _targets_of(scenario)
    samplers = dict(scenario.samplers)
    extras = {n: s.count - targets[n] for n, s in samplers.items() if s.count > targets[n]}
    if extras:
        missing = count - sum(extras.values())
        for name in reversed(extras):
            kept = max(extras[name] + missing, 0)
            missing -= kept - extras[name]
            samplers[name] = replace(samplers[name], count=targets[name] + kept)
        return replace(scenario, samplers=samplers)
    if count:
        raise UserError(
            f"clutter={count}: all objects of {scenario.file or scenario.name} are targets; give a"
            " sampler there a larger count, or leave clutter= out"
        )
    return scenario


def split_layouts(names: list[str], split: str) -> list[str]:
    """Layouts of a split, sorted.

    Raises:
        UserError: no such split.
    """
    if split not in SPLIT_LAYOUTS:
        raise UserError(f"unknown split '{split}'{nearest(split, SPLIT_LAYOUTS)}")
    return sorted(n for n in names if n.split("_")[0] in SPLIT_LAYOUTS[split])
