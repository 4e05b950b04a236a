"""What is asked for and what is being done, in words."""

from __future__ import annotations

import re

from eval.words import goes_inside, plain_name
from skills.interface import SkillCall
from tpsrl.episodes.types import Episode, Target
from tpsrl.sim.door import Simulator

_ARM, _WAIT = "fold the arm", "wait"
MOTION_WORDS = {"release": "let go", "spin": "turn around"}
"""Name of a motion of recovery (``planner.chain.motions``) -> what is being done."""
_VERBS = {"open": "open", "close": "close"}


def object_words(type_name: str) -> str:
    """Return the words for a type of object, e.g. ``"bowl"`` for ``"024_bowl"``."""
    return re.sub(r"^\d+[_-]", "", type_name).replace("_", " ").strip()


def container_words(sim: Simulator, env_id: int, joint: str) -> str:
    """Return the words for what a furniture joint opens."""
    index = sim.joint_names.index(joint)
    for place in sim.scene(env_id).receptacles.values():
        if place.joint == index:
            return plain_name(place.name)
    return plain_name(joint.partition("/")[0])


def task_words(episode: Episode) -> str:
    """Return the whole task, e.g. ``"Bring the bowl from the right top drawer to the sofa."``."""
    parts = [_move_words(episode, target) for target in episode.targets]
    text = ", then ".join(parts)
    return f"{text[:1].upper()}{text[1:]}."


def _move_words(episode: Episode, target: Target) -> str:
    thing = object_words(episode.objects[target.object_index].type)
    ends = [
        f" {word} {_the(plain_name(name))}"
        for word, name in (("from", target.start_receptacle), ("to", target.goal_receptacle))
        if name
    ]
    return f"bring the {thing}" + "".join(ends)


def call_words(sim: Simulator, env_id: int, call: SkillCall) -> str:
    """Return what a skill is doing, e.g. ``"pick up the bowl"``."""
    if call.skill in ("reset_arm", "wait"):
        return _ARM if call.skill == "reset_arm" else _WAIT
    episode = sim.episode(env_id)
    target = None if call.target is None else episode.targets[call.target]
    thing = "" if target is None else object_words(episode.objects[target.object_index].type)
    kind = call.skill.partition("_")[0]
    if kind in _VERBS and call.joint is not None:
        return f"{_VERBS[kind]} {_the(container_words(sim, env_id, call.joint))}"
    if kind == "navigate":
        return f"drive to {_goal_words(sim, env_id, call, target, thing)}"
    if kind == "pick":
        return f"pick up the {thing}"
    if kind == "place" and target is not None:
        back = call.place == "start"
        where = target.start_receptacle if back else target.goal_receptacle
        return f"put the {thing}" + (f" {_into(where)}" if where else " down")
    return f"{call.skill.replace('_', ' ')} {thing}".strip()


def _goal_words(
    sim: Simulator, env_id: int, call: SkillCall, target: Target | None, thing: str
) -> str:
    if call.place in ("receptacle", "front") and call.joint is not None:
        front = "the front of " if call.place == "front" else ""
        return front + _the(container_words(sim, env_id, call.joint))
    if target is None:
        return "its goal"
    if call.place == "goal":
        named = target.goal_receptacle
        return _the(plain_name(named)) if named else f"where the {thing} belongs"
    return f"the {thing}"


def _into(receptacle: str) -> str:
    words = plain_name(receptacle)
    return f"{'in' if goes_inside(words) else 'on'} {_the(words)}"


def _the(words: str) -> str:
    return words if words[-1:].isdigit() else f"the {words}"
