"""Makes episodes by habitat-lab's rules and checks every one of them in the engine.

Draw (`tpsrl.generation.draw`), settle in the physics engine, draw the goals among the settled
objects, settle the goals too, load the finished episode and check it. Whatever fails is drawn
again; the random numbers depend on seed and episode number only, never on who computes it.
"""

from __future__ import annotations

import zlib
from collections import Counter
from dataclasses import dataclass, field, replace

import numpy as np

from tpsrl.episodes.types import Episode
from tpsrl.episodes.validate import validate
from tpsrl.errors import UserError
from tpsrl.generation.assemble import assemble, probe
from tpsrl.generation.draw import Draft, Drawer, Item, Rejected
from tpsrl.generation.placement import Placement, Placer
from tpsrl.generation.prisms import Solids
from tpsrl.generation.room import Pose, Room
from tpsrl.generation.rules import MAX_PER_TYPE, Scenario, check_scenario, split_layouts
from tpsrl.scenes.apartment import load_apartment
from tpsrl.scenes.objects import object_types
from tpsrl.sim.mujoco.engine import MujocoSimulator

GENERATOR_FORMAT = 2
"""Raise when a constant or rule of this package changes, or how things come to rest in the
simulator: sets on a machine are then made anew."""
SETTLE_SECONDS = 5.0
MAX_TARGET_SHIFT = 0.1
"""An episode is rejected if settling moves a target farther, m."""
GOAL_SETTLE_SECONDS = 1.0
MAX_GOAL_SHIFT = 0.02
CHECK_SECONDS = 0.5
MAX_CHECK_SHIFT = 0.005
"""A finished episode's objects move at most this far in `CHECK_SECONDS` after loading, m."""
MAX_OVERLAP = 0.003
"""Deepest contact of an object in a finished episode, m (soft contacts sink in a little)."""
DRAWS_PER_LAYOUT = 8
LAYOUTS_PER_EPISODE = 6


@dataclass
class Made:
    """A finished episode.

    Attributes:
        index: its number in the set.
        episode: the episode.
        rejections: why earlier draws were not used -> how often.
    """

    index: int
    episode: Episode
    rejections: Counter[str] = field(default_factory=Counter)


class Generator:
    """Makes the episodes of one set.

    Args:
        scenario: what to draw.
        split: ``"train"``, ``"val"`` or ``"test"``.
        seed: of the whole set.

    Raises:
        UserError: no such split, or the scenario asks for what is not there.
    """

    def __init__(self, scenario: Scenario, split: str, seed: int) -> None:
        self.scenario = scenario
        self.split = split
        self.seed = seed
        self.apartment = load_apartment()
        self.kinds = dict(object_types())
        self.layouts = split_layouts(list(self.apartment.layouts), split)
        check_scenario(scenario)
        used = {t for s in scenario.samplers.values() for t in s.objects}
        self._sim = MujocoSimulator(1, depth=None, pool=dict.fromkeys(sorted(used), MAX_PER_TYPE))
        self._drawers: dict[str, Drawer] = {}

    def make(self, index: int) -> Made:
        """Make the episode with a number.

        Raises:
            UserError: no draw of it was usable.
        """
        entropy = [self.seed, zlib.crc32(f"{self.scenario.name}/{self.split}".encode())]
        order = np.random.default_rng([*entropy, index // len(self.layouts)]).permutation(
            len(self.layouts)
        )
        rejections: Counter[str] = Counter()
        for k in range(LAYOUTS_PER_EPISODE):
            layout = self.layouts[order[(index + k) % len(self.layouts)]]
            for draw in range(DRAWS_PER_LAYOUT):
                rng = np.random.default_rng([*entropy, index, k, draw, 1])
                try:
                    return Made(index, self._attempt(rng, layout, index), rejections)
                except Rejected as reason:
                    rejections[f"{layout}: {reason}"] += 1
        why = "; ".join(f"{r} ({n}x)" for r, n in rejections.most_common(3))
        raise UserError(
            f"scenario '{self.scenario.name}', split '{self.split}', episode {index}: none of"
            f" {LAYOUTS_PER_EPISODE * DRAWS_PER_LAYOUT} draws was usable, most often because: {why}"
        )

    def close(self) -> None:
        """Free the engine."""
        self._sim.close()

    def _attempt(self, rng: np.random.Generator, layout: str, index: int) -> Episode:
        drawer = self._drawer(layout)
        draft = drawer.draft(rng)
        draft, poses = self._settle(drawer, draft, layout)
        for item in draft.items:
            if item.label:
                rest = Solids(i.placement.prism for i in draft.items if i is not item)
                drawer.check_reach(item.placement, draft, rest)
        goals = drawer.goals(rng, draft)
        goal_poses = self._settle_goals(drawer, draft, goals)
        episode = assemble(
            self.scenario.name,
            f"{self.split}_{index:05d}",
            layout,
            draft,
            poses,
            goal_poses,
            drawer.room,
        )
        self._check(episode, int(rng.integers(2**31)))
        return episode

    def _settle(self, drawer: Drawer, draft: Draft, layout: str) -> tuple[Draft, list[Pose]]:
        """Let everything come to rest; drop clutter that fell, reject if a target moved."""
        for _ in range(4):
            before = [drawer.start_pose(i, draft.joints) for i in draft.items]
            self._sim.reset([probe(layout, draft, before)], [0])
            self._sim.settle(SETTLE_SECONDS)
            after = self._poses(len(draft.items))
            stayed = []
            for item, old, new in zip(draft.items, before, after, strict=True):
                shift = float(np.linalg.norm(new.pos - old.pos))
                if item.label and shift > MAX_TARGET_SHIFT:
                    raise Rejected("a target moved while settling")
                stayed.append(bool(item.label) or self._on_receptacle(drawer, item, new, draft))
            if all(stayed):
                items = tuple(
                    drawer.closed(i, p, draft.joints)
                    for i, p in zip(draft.items, after, strict=True)
                )
                return replace(draft, items=items), after
            kept = tuple(i for i, ok in zip(draft.items, stayed, strict=True) if ok)
            draft = replace(draft, items=kept)
        raise Rejected("clutter kept falling")

    def _on_receptacle(self, drawer: Drawer, item: Item, pose: Pose, draft: Draft) -> bool:
        place = drawer.closed(item, pose, draft.joints).placement
        box = drawer.room.boxes[place.receptacle]
        sunk = item.placement.pose.pos[2] - place.pose.pos[2]
        tilted = place.prism.top - place.prism.bottom > 1.3 * (
            item.placement.prism.top - item.placement.prism.bottom
        )
        return bool(box.contains(place.pose.pos, 0.1)) and abs(sunk) < 0.05 and not tilted

    def _settle_goals(self, drawer: Drawer, draft: Draft, goals: list[Placement]) -> list[Pose]:
        """Put the targets at their goals, let them come to rest, and take what results."""
        if not goals:
            return []
        wanted = [drawer.start_pose(Item(g), draft.joints) for g in goals]
        others = self._poses(len(draft.items))
        for i, pose in enumerate(wanted):
            self._sim.set_object(i, pose.pos, pose.quat)
        self._sim.settle(GOAL_SETTLE_SECONDS)
        after = self._poses(len(draft.items))
        for old, new in zip(wanted + others[len(wanted) :], after, strict=True):
            if np.linalg.norm(new.pos - old.pos) > MAX_GOAL_SHIFT:
                raise Rejected("a goal is not stable")
        return after[: len(goals)]

    def _check(self, episode: Episode, seed: int) -> None:
        """Load the episode as a user would and look whether it stays as it is."""
        validate(episode, self.apartment, self.kinds)
        self._sim.reset([episode], [seed])
        if self._sim.robot_contacts():
            raise Rejected("no start pose without contact")
        self._sim.settle(CHECK_SECONDS)
        for item, pose in zip(episode.objects, self._poses(len(episode.objects)), strict=True):
            if np.linalg.norm(pose.pos - item.pos) > MAX_CHECK_SHIFT:
                raise Rejected("objects still move in the finished episode")
        if self._sim.deepest_overlap() > MAX_OVERLAP:
            raise Rejected("objects interpenetrate in the finished episode")

    def _poses(self, count: int) -> list[Pose]:
        state = self._sim.state()
        if bool(state.diverged[0]):
            raise Rejected("the physics diverged")
        return [
            Pose(p.copy(), q.copy())
            for p, q in zip(state.object_pos[0, :count], state.object_quat[0, :count], strict=True)
        ]

    def _drawer(self, layout: str) -> Drawer:
        if layout not in self._drawers:
            self._sim.reset([Episode("empty", "", layout, (), ())], [0])
            room = Room(self.apartment, self._sim.scene())
            self._drawers[layout] = Drawer(self.scenario, room, Placer(room, self.kinds))
        return self._drawers[layout]
