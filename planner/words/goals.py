"""From clauses to atoms: which objects and places of an episode are meant."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np

from planner import Atom
from planner.chain.errand import Errand
from planner.chain.grounding import rename
from planner.chain.problems import GOAL_PREFIX, containers, hab_domain, hab_problem
from planner.words.clauses import HOME, Clause, NamedPlace, Things
from planner.words.lexicon import Lexicon
from tpsrl.episodes.types import Episode, RigidObject, Target
from tpsrl.errors import UserError
from tpsrl.generation.goals import draw_goal, within_reach
from tpsrl.generation.rules import OPENED
from tpsrl.scenes.apartment import load_apartment
from tpsrl.scenes.geometry import find_link, receptacle_box

NOT_HOLDING = Atom("not_holding")


@dataclass(frozen=True)
class Wish:
    """What a clause comes to.

    Attributes:
        text: the clause.
        atoms: what shall hold.
        then: only after what came before it.
    """

    text: str
    atoms: tuple[Atom, ...]
    then: bool = False


@dataclass
class Meaning:
    """Finds what clauses mean in one episode, and gathers the targets that they need.

    Args:
        episode: of tpsrl's own apartment.
        scenario: the episode's, as a name or file.
        lexicon: names of things and places.
    """

    episode: Episode
    scenario: str
    lexicon: Lexicon
    notes: list[str] = field(default_factory=list)
    _targets: dict[int, Target] = field(default_factory=dict)
    _spots: list[Target] = field(default_factory=list)
    _chosen: dict[int, tuple[Things, list[int]]] = field(default_factory=dict)
    _goes_to: dict[int, str] = field(default_factory=dict)

    def wishes(self, clauses: Sequence[Clause]) -> list[Wish]:
        """Return what the clauses come to, in order.

        Raises:
            UserError: there is no such thing or place in the episode, or it cannot be done.
        """
        return [Wish(c.text, tuple(self._atoms(c)), c.then) for c in clauses]

    def errand(
        self,
        words: str,
        goals: Sequence[tuple[Atom, ...]],
        wishes: Sequence[Wish],
        prune: bool = True,
    ) -> Errand:
        """Return the episode with these goals.

        Args:
            words: what was asked for.
            goals: to be reached one after the other.
            wishes: what evaluation reports as stages.
            prune: leave out targets that the goals do not name.
        """
        named = {arg.removeprefix(GOAL_PREFIX) for goal in goals for a in goal for arg in a.args}
        named |= {arg.removeprefix(GOAL_PREFIX) for w in wishes for a in w.atoms for arg in a.args}
        targets = (*self._targets.values(), *self._spots)
        return Errand.of(
            self.episode,
            targets=tuple(t for t in targets if t.label in named or not prune),
            goals=tuple(goals),
            stages=_stages(wishes),
            words=words,
            notes=tuple(dict.fromkeys(self.notes)),
        )

    def shut(self) -> set[str]:
        """Return the labels of objects that lie in containers."""
        around, _ = containers()
        objects = self.episode.objects
        return {t.label for k, t in self._targets.items() if objects[k].receptacle in around}

    def _atoms(self, clause: Clause) -> list[Atom]:
        if clause.verb in ("open", "close"):
            return [self._moved(clause.verb, m) for p in clause.places for m in self._markers(p)]
        if clause.verb == "go":
            return [self._at(clause)]
        if clause.verb == "tidy":
            return self._scenario_goal(clause)
        found = [k for things in clause.things for k in self._objects(things)]
        if clause.verb == "take":
            if len(found) > 1:
                raise UserError(
                    f"'{clause.text}' means {len(found)} objects in episode"
                    f" {self.episode.episode_id}, and the robot has one hand; say where to bring"
                    " them"
                )
            return [Atom("holding", (self._label(k),)) for k in found]
        self._send(found, clause)
        return [self._delivered(k) for k in found]

    def _objects(self, things: Things) -> list[int]:
        """Return the indices of the objects that are meant, the same for the same words."""
        known = self._chosen.get(id(things))
        if known is not None and known[0] is things:
            return known[1]
        own = [target.object_index for target in self.episode.targets]
        pool = [k for k, o in enumerate(self.episode.objects) if self._fits(k, things)]
        if things.types is None and not things.where:
            pool = own
        if not pool:
            raise self._absent(things)
        used = {k for _, chosen in self._chosen.values() for k in chosen}
        count = len(pool) if things.count is None else things.count
        if count > len(pool) or ("both" in things.text.split() and len(pool) != 2):
            raise UserError(
                f"'{things.text}' does not fit episode {self.episode.episode_id}, which has"
                f" {self._list(pool)}"
            )
        if count < len(pool):
            fresh = things.fresh or things.count != 1
            pool = sorted(pool, key=lambda k: (fresh and k in used, not self._takes(k, own), k))
            self._say(things, pool, count)
        found = pool[:count]
        self._chosen[id(things)] = (things, found)
        return found

    def _fits(self, index: int, things: Things) -> bool:
        o = self.episode.objects[index]
        kind = things.types is None or o.type in things.types
        return kind and (not things.where or o.receptacle in things.where)

    def _takes(self, index: int, own: Sequence[int]) -> bool:
        """Whether the scenario moves this object, or the robot can at least reach it."""
        return index in own or within_reach(self.episode, index)

    def _label(self, index: int) -> str:
        if index not in self._targets:
            self._add(index)
        return self._targets[index].label

    def _add(self, index: int) -> None:
        """Make a target of an object; its goal is the scenario's, else where it lies."""
        o = self.episode.objects[index]
        name = self.lexicon.object_name(o.type).replace(" ", "_")
        label = f"{name}|{len(self._targets)}"
        for target in self.episode.targets:
            if target.object_index == index:
                self._targets[index] = replace(target, label=label)
                return
        self._targets[index] = Target(index, o.pos, o.quat, label, o.receptacle, o.receptacle)

    def _delivered(self, index: int) -> Atom:
        label = self._label(index)
        return Atom("object_at", (label, GOAL_PREFIX + label))

    def _send(self, found: Sequence[int], clause: Clause) -> None:
        """Give objects their goals."""
        place = clause.places[0] if clause.places else NamedPlace("its place", HOME)
        own = {t.object_index: t for t in self.episode.targets}
        meant: dict[str, list[int]] = {}
        for k in found:
            self._label(k)
            if place.names == HOME:
                if k not in own:
                    raise UserError(
                        f"'{clause.text}': '{self._name(k)}' has no place of its own in"
                        f" {self.episode.scenario}; say where to bring it"
                    )
                wanted = own[k].goal_receptacle
            else:
                wanted = self._choose(k, place, own.get(k))
            meant.setdefault(wanted, []).append(k)
            self._settle(k, wanted, clause)
        if any(k not in own or own[k].goal_receptacle not in place.names for k in found):
            self._say_which(place, meant)  # not the scenario's own choice

    def _settle(self, index: int, place: str, clause: Clause) -> None:
        """Note where an object goes."""
        before = self._goes_to.setdefault(index, place)
        if before != place:
            raise UserError(
                f"'{clause.text}': '{self._name(index)}' is to go to two places, '{before}' and"
                f" '{place}'; say one"
            )

    def _choose(self, index: int, place: NamedPlace, own: Target | None) -> str:
        """Set the goal of an object on one of the places that may be meant, and return that."""
        before = self._goes_to.get(index)
        if before in place.names:
            return str(before)
        if own is not None and own.goal_receptacle in place.names:
            return own.goal_receptacle
        o = self.episode.objects[index]
        if o.receptacle in place.names:
            self._set_goal(index, o.pos, o.quat, o.receptacle)
            return o.receptacle
        free = [name for name in place.names if not self._shut(name)]
        if not free:
            raise UserError(
                f"'{place.text}' is a drawer that is closed in episode {self.episode.episode_id}:"
                " a place in it moves when it is opened, so it can be no goal; choose another"
            )
        if before is None:
            return self._draw(index, free)
        return free[0]

    def _draw(self, index: int, places: Sequence[str]) -> str:
        """Draw the goal of an object on the first of some places that has room for it."""
        others = [(k, self._targets[k]) for k in self._goes_to]
        others += [(t.object_index, t) for t in self.episode.targets]
        taken = [(k, np.asarray(t.goal_pos), t.goal_receptacle) for k, t in others]
        for number, place in enumerate(places):
            try:
                pose = draw_goal(self.episode, index, place, taken)
            except UserError:
                if number == len(places) - 1:
                    raise
                continue
            self._set_goal(index, pose.pos, pose.quat, place)
            return place
        raise AssertionError("there is at least one place")

    def _set_goal(self, index: int, pos: np.ndarray, quat: np.ndarray, place: str) -> None:
        self._targets[index] = replace(
            self._targets[index], goal_pos=np.round(pos, 5), goal_quat=quat, goal_receptacle=place
        )

    def _shut(self, receptacle: str) -> bool:
        joint = containers()[0].get(receptacle, "")
        return "drawer" in joint and self.episode.joints.get(joint, 0.0) <= OPENED["slide"]

    def _markers(self, place: NamedPlace) -> list[str]:
        """Return the handles of what is opened or closed."""
        around, joints = containers()
        handles = {joint: marker for marker, joint in joints.items()}
        wanted = [around.get(name, "") for name in place.names]
        found = list(dict.fromkeys(handles[j] for j in wanted if j in handles))
        if not found:
            raise UserError(
                f"'{place.text}' has no handle to open or close it by; the fridge has one"
            )
        if place.all:  # the lower ones first: an open drawer is in the way of those below it
            return sorted(found, key=_height)
        holds = {around.get(o.receptacle) for o in self._own_objects()}
        found = sorted(found, key=lambda m: joints[m] not in holds)
        if len(found) > 1:
            names = [n for n in place.names if handles.get(around.get(n, "")) == found[0]]
            self._say_which(place, {names[0]: []})
        return found[:1]

    def _own_objects(self) -> list[RigidObject]:
        return [self.episode.objects[t.object_index] for t in self.episode.targets]

    def _moved(self, verb: str, marker: str) -> Atom:
        kind = "fridge" if hab_domain().constants[marker] == "fridge_type" else "cab"
        return Atom(f"{'opened' if verb == 'open' else 'closed'}_{kind}", (marker,))

    def _at(self, clause: Clause) -> Atom:
        if clause.things:
            (index,) = self._objects(clause.things[0])
            return Atom("robot_at", (self._label(index),))
        name = self._likeliest(clause.places[0])
        around, joints = containers()
        for marker, joint in joints.items():
            if around.get(name) == joint:
                return Atom("robot_at", (marker,))
        return Atom("robot_at", (GOAL_PREFIX + self._spot(name),))

    def _likeliest(self, place: NamedPlace) -> str:
        """Return where things go in this errand, else in the scenario, else where they lie."""
        own = self.episode.targets
        known = [*self._goes_to.values(), *(t.goal_receptacle for t in own)]
        known += [t.start_receptacle for t in own]
        name = next((name for name in known if name in place.names), place.names[0])
        self._say_which(place, {name: []})
        return name

    def _say_which(self, place: NamedPlace, meant: Mapping[str, Sequence[int]]) -> None:
        """Note which place is meant, or which for what objects."""
        if len(place.names) < 2:
            return
        parts = [f"the {self.lexicon.place_name(name)}" for name in meant]
        if len(parts) > 1:
            for number, found in enumerate(meant.values()):
                parts[number] += f" for {self._list(found)}"
        self.notes.append(f"'{place.text}' is {'; '.join(parts)}")

    def _spot(self, receptacle: str) -> str:
        """Return the label of a target whose goal is the middle of a place; it is not moved."""
        label = f"{self.lexicon.place_name(receptacle).replace(' ', '_')}|spot"
        if all(spot.label != label for spot in self._spots):
            apartment = load_apartment()
            box = receptacle_box(apartment, apartment.layouts[self.episode.layout], receptacle)
            lying = [k for k, o in enumerate(self.episode.objects) if o.receptacle == receptacle]
            index = lying[0] if lying else 0
            o = self.episode.objects[index]
            pos = np.append(box.center[:2], box.support_height)
            self._spots.append(Target(index, pos, o.quat, label, o.receptacle, receptacle))
        return label

    def _scenario_goal(self, clause: Clause) -> list[Atom]:
        """Return the scenario's own goal in this errand's labels."""
        problem = rename(hab_problem(self.scenario or self.episode.scenario), self.episode)
        names: dict[str, str] = {}
        for target in self.episode.targets:
            label = self._label(target.object_index)
            self._settle(target.object_index, target.goal_receptacle, clause)
            names |= {target.label: label, GOAL_PREFIX + target.label: GOAL_PREFIX + label}
        return [a.bind(names) for a in problem.goal if a != NOT_HOLDING]

    def _say(self, things: Things, pool: Sequence[int], count: int) -> None:
        first = ", ".join(f"{self._name(k)} on '{self._lies(k)}'" for k in pool[:count])
        self.notes.append(f"'{things.text}': {first}, of {self._list(pool)}")

    def _absent(self, things: Things) -> UserError:
        here = list(range(len(self.episode.objects)))
        return UserError(
            f"episode {self.episode.episode_id} has no '{things.text}'; it has {self._list(here)}"
        )

    def _name(self, index: int) -> str:
        return self.lexicon.object_name(self.episode.objects[index].type)

    def _lies(self, index: int) -> str:
        return self.lexicon.place_name(self.episode.objects[index].receptacle)

    def _list(self, indices: Sequence[int]) -> str:
        counts = Counter(self._name(k) for k in indices)
        return ", ".join(f"{n} x {name}" if n > 1 else name for name, n in sorted(counts.items()))


def _stages(wishes: Sequence[Wish]) -> dict[str, tuple[Atom, ...]]:
    """Return what each clause comes to by its words; of two alike the second is "... (2)"."""
    stages: dict[str, tuple[Atom, ...]] = {}
    for wish in wishes:
        name, number = wish.text, 1
        while name in stages:
            number += 1
            name = f"{wish.text} ({number})"
        stages[name] = wish.atoms
    return stages


@cache
def _height(marker: str) -> float:
    """Return the height of a handle in its piece of furniture, m."""
    for piece in load_apartment().furniture:
        for handle in piece.markers:
            if handle.name == marker:
                return find_link(piece, handle.link).pos[2] + handle.offset[2]
    raise KeyError(marker)
