"""People's words for what plans and skills are about: ``pick tomato soup can (to sofa)``."""

from __future__ import annotations

import re
from collections import Counter

from planner.chain.grounding import START_PREFIX
from planner.chain.interface import AgentReport
from planner.chain.problems import GOAL_PREFIX
from planner.words.lexicon import lexicon
from tpsrl.episodes.types import Episode

_CALL = re.compile(r"([a-z_]+)\(([^()]*)\)")
_WORDS = {
    "nav": "go to {0}",
    "navigate": "go to {0}",
    "nav_to_receptacle": "go to {0}",
    "nav_to_receptacle_by_name": "go to {0}",
    "pick": "pick {0}",
    "open_cab": "open {0}",
    "close_cab": "close {0}",
    "open_fridge": "open {0}",
    "close_fridge": "close {0}",
    "reset_arm": "fold the arm",
    "wait": "wait",
    "release": "let go",
    "spin": "turn around",
    # What a plan relies on, which may hold no more:
    "holding": "{0} in the hand",
    "not_holding": "the empty hand",
    "robot_at": "robot at {0}",
    "object_at": "{0} at {1}",
    "in": "{0} in {1}",
    "outside": "{0} outside",
    "opened_cab": "{0} open",
    "closed_cab": "{0} shut",
    "opened_fridge": "{0} open",
    "closed_fridge": "{0} shut",
}
_INSIDE = {"drawer", "fridge", "sink"}


def goes_inside(place: str) -> bool:
    """Return whether things go into a place of this name, not onto it."""
    return not _INSIDE.isdisjoint(place.split())


def plain_name(name: str) -> str:
    """Return the words for a type of object or a place, e.g. ``"tomato soup can"``.

    Those of tpsrl's own apartments are called as goals in words call them.
    """
    known = lexicon().place_name(name)
    if known != name:
        return known
    plain = re.sub(r"^\d+_", "", name.rpartition("/")[2])
    return re.sub(r"_0*(\d)", r" \1", plain).replace("_", " ")


def spoken(text: str, episode: Episode) -> str:
    """Return an action of a plan, or a text with actions in it, in people's words."""
    names = _names(episode)

    def say(match: re.Match[str]) -> str:
        words = [part.strip() for part in match[2].split(",")]
        said = [names.get(word) or _handle(word) for word in words]
        if match[1] == "place" and len(said) > 1:
            side = "in" if goes_inside(said[1]) else "on"
            return f"place {said[0].partition(' (')[0]} {side} {said[1]}"
        pattern = _WORDS.get(match[1], f"{match[1].replace('_', ' ')} {{0}}")
        return pattern.format(*said)

    return _CALL.sub(say, text)


def reason(report: AgentReport, episode: Episode) -> str:
    """Return why the present plan is not the first one, ``""`` if it is."""
    return spoken(report.why, episode)


def _names(episode: Episode) -> dict[str, str]:
    """Return label -> words; two things of one kind are told apart by where they belong."""
    things = [plain_name(episode.objects[t.object_index].type) for t in episode.targets]
    number = Counter(things)
    names = {}
    for thing, target in zip(things, episode.targets, strict=True):
        place = plain_name(target.goal_receptacle) or "its place"
        names[target.label] = f"{thing} (to {place})" if number[thing] > 1 else thing
        names[GOAL_PREFIX + target.label] = place
        names[START_PREFIX + target.label] = "where it was"
    return names


def _handle(name: str) -> str:
    if "fridge" in name:
        return "fridge"
    return "drawer" if name.startswith("cab") else plain_name(name)
