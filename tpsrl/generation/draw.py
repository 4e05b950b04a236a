"""Draws the objects of an episode and their places: the geometric half of the generator."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

import numpy as np

from tpsrl.generation.placement import Placement, Placer
from tpsrl.generation.prisms import Prism, Solids
from tpsrl.generation.reach import approach
from tpsrl.generation.room import Pose, Room
from tpsrl.generation.rules import MAX_PER_TYPE, GoalSampler, ObjectSampler, Scenario

PAIRING_TRIES = 100
MIN_GOAL_DISTANCE = 0.5
"""Smallest distance from an object's start to its goal, m."""


class Rejected(Exception):  # noqa: N818 - no error, the next draw may do
    """This draw of an episode cannot be used."""


@dataclass(frozen=True)
class Item:
    """An object drawn for an episode.

    Attributes:
        placement: where it lies, containers closed.
        label: name in the planning domain if it is a target, else ``""``.
        goals: where its goal may lie; empty if it is no target.
        goal_ratio: receptacle -> part of it in which the goal is drawn.
    """

    placement: Placement
    label: str = ""
    goals: tuple[str, ...] = ()
    goal_ratio: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True)
class Draft:
    """What was drawn.

    Attributes:
        items: targets first, in the order of their labels.
        goal_receptacles: one for each target.
        joints: furniture joints that do not start closed.
    """

    items: tuple[Item, ...]
    goal_receptacles: tuple[str, ...]
    joints: dict[str, float]


class Drawer:
    """Draws episodes of one scenario in one layout.

    Args:
        scenario: what to draw.
        room: the layout.
        placer: finds places in it.
    """

    def __init__(self, scenario: Scenario, room: Room, placer: Placer) -> None:
        self.scenario = scenario
        self.room = room
        self.placer = placer

    def draft(self, rng: np.random.Generator) -> Draft:
        """Draw objects, their places and the receptacles of the goals.

        Raises:
            Rejected: something found no place.
        """
        items: list[Item] = []
        # targets first: they have the fewest places, and clutter must not hide them
        for label, goal in self.scenario.targets():
            sampler = self.scenario.samplers[goal.sampler]
            items.append(_target(self._pair(rng, goal.sampler, sampler, items), label, goal))
        chosen = self._goal_receptacles(rng, items)
        joints = self._joints([i.placement.receptacle for i in items], chosen)
        for name, sampler in self.scenario.samplers.items():
            made = sum(goal.sampler == name for _, goal in self.scenario.targets())
            for _ in range(sampler.count - made):
                items.append(Item(self._pair(rng, name, sampler, items)))
        return Draft(tuple(items), chosen, joints)

    def start_pose(self, item: Item, joints: dict[str, float]) -> Pose:
        """Pose of an object when the furniture joints are where the episode starts."""
        place = item.placement
        joint = self.room.joint_of(place.receptacle)
        q = joints.get(joint, 0.0) if joint else 0.0
        return self.room.moved(place.pose, place.receptacle, 0.0, q)

    def closed(self, item: Item, pose: Pose, joints: dict[str, float]) -> Item:
        """Item with the place that follows from a pose at the start, containers closed."""
        place = item.placement
        joint = self.room.joint_of(place.receptacle)
        q = joints.get(joint, 0.0) if joint else 0.0
        shut = self.room.moved(pose, place.receptacle, q, 0.0)
        outline = self.placer.outline(place.type, shut, place.type)
        return replace(item, placement=replace(place, pose=shut, prism=outline))

    def goals(self, rng: np.random.Generator, draft: Draft) -> list[Placement]:
        """Draw the goals of all targets among the objects as they lie (containers closed).

        Raises:
            Rejected: a goal found no free place from which it can be reached.
        """
        taken = Solids(i.placement.prism for i in draft.items)
        found: list[Placement] = []
        targets = [i for i in draft.items if i.label]
        for item, receptacle in zip(targets, draft.goal_receptacles, strict=True):
            goal = self._goal(rng, item, receptacle, taken, draft)
            taken.add(goal.prism)
            found.append(goal)
        return found

    def check_reach(self, placement: Placement, draft: Draft, objects: Solids) -> None:
        """Check that the robot can handle what lies at a place, its container open.

        Args:
            placement: an object or goal, containers closed.
            draft: the episode.
            objects: all other objects, containers closed.

        Raises:
            Rejected: it cannot.
        """
        joints = dict(draft.joints)
        container = self.room.container_of(placement.receptacle)
        if container is not None:  # which a plan opens unless it stands so already
            joints[container] = max(joints.get(container, 0.0), self.room.open_position(container))
        furniture, navigation = self.room.opened(joints)
        thing = self.opened_outline(placement, joints)
        if approach(thing, navigation, furniture, objects) is None:
            raise Rejected(f"out of reach on {placement.receptacle}")

    def opened_outline(self, placement: Placement, joints: dict[str, float]) -> Prism:
        """Outline of an object with furniture joints at the given positions."""
        joint = self.room.joint_of(placement.receptacle)
        q = joints.get(joint, 0.0) if joint else 0.0
        pose = self.room.moved(placement.pose, placement.receptacle, 0.0, q)
        return self.placer.outline(placement.type, pose, placement.type)

    def _pair(
        self, rng: np.random.Generator, name: str, sampler: ObjectSampler, items: list[Item]
    ) -> Placement:
        types = Counter(i.placement.type for i in items)
        used = Counter(i.placement.receptacle for i in items)
        taken = Solids(i.placement.prism for i in items)
        kinds = [k for k in sampler.objects if types[k] < MAX_PER_TYPE]
        places = [r for r in sampler.receptacles if used[r] < self._capacity(r)]
        if not kinds or not places:
            raise Rejected(f"no {'object type' if places else 'receptacle'} left for {name}")
        for _ in range(PAIRING_TRIES):
            receptacle = places[rng.integers(len(places))]
            kind = kinds[rng.integers(len(kinds))]
            ratio = sampler.region_ratio.get(receptacle, 1.0)
            placement = self.placer.sample(rng, kind, receptacle, taken, ratio)
            if placement is not None and not self._hides_target(placement, items):
                return placement
        raise Rejected(f"no place for {name}")

    def _hides_target(self, placement: Placement, items: list[Item]) -> bool:
        """Whether a new object makes a target on the same receptacle unreachable."""
        targets = [i for i in items if i.label and i.placement.receptacle == placement.receptacle]
        if not targets or self.room.container_of(placement.receptacle) is None:
            return False
        draft = Draft((), (), {})
        others = Solids([i.placement.prism for i in items] + [placement.prism])
        try:
            for target in targets:
                rest = Solids(p for p in others.prisms if p is not target.placement.prism)
                self.check_reach(target.placement, draft, rest)
        except Rejected:
            return True
        return False

    def _goal(
        self,
        rng: np.random.Generator,
        item: Item,
        receptacle: str,
        taken: Solids,
        draft: Draft,
    ) -> Placement:
        start = item.placement
        ratio = dict(item.goal_ratio).get(receptacle, 1.0)
        others = Solids(p for p in taken.prisms if p is not start.prism)
        for _ in range(PAIRING_TRIES):
            goal = self.placer.sample(rng, start.type, receptacle, taken, ratio)
            if goal is None:
                break
            if np.linalg.norm(goal.pose.pos - start.pose.pos) < MIN_GOAL_DISTANCE:
                continue
            try:
                self.check_reach(goal, draft, others)
            except Rejected:
                continue
            return goal
        raise Rejected(f"no goal for {item.label} on {receptacle}")

    def _goal_receptacles(self, rng: np.random.Generator, items: list[Item]) -> tuple[str, ...]:
        used: Counter[str] = Counter()
        chosen = []
        for item in items:
            free = [r for r in item.goals if used[r] < self._capacity(r)]
            if not free:
                raise Rejected(f"no receptacle left for the goal of {item.label}")
            chosen.append(free[rng.integers(len(free))])
            used[chosen[-1]] += 1
        return tuple(chosen)

    def _joints(self, starts: list[str], goals: tuple[str, ...]) -> dict[str, float]:
        joints = dict(self.scenario.joints)
        for receptacle in (*starts, *goals):
            container = self.room.container_of(receptacle)
            if container in self.scenario.open_if_used:
                joints[container] = self.scenario.open_if_used[container]
        return joints

    def _capacity(self, receptacle: str) -> float:
        limits = (
            self.scenario.max_per_receptacle.get(receptacle),
            self.room.capacity.get(receptacle),
        )
        return min((x for x in limits if x is not None), default=np.inf)


def _target(placement: Placement, label: str, goal: GoalSampler) -> Item:
    return Item(placement, label, tuple(goal.receptacles), tuple(goal.region_ratio.items()))
