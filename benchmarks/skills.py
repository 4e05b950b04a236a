"""Success rate and failure causes of one scripted skill over generated episodes.

``python -m benchmarks.skills skill=pick scenario=tidy_house split=train episodes=50 seed=0``
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterator
from typing import Literal

import numpy as np
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from skills.interface import SkillCall, SkillName
from skills.programs import make_skill
from tpsrl.episodes.types import Episode
from tpsrl.errors import UserError
from tpsrl.generation.generator import Generator
from tpsrl.generation.rules import load_scenario
from tpsrl.sim.mujoco.engine import MujocoSimulator

_DEFAULTS = {
    "skill": "pick",
    "scenario": "",
    "split": "train",
    "episodes": "20",
    "seed": "0",
}
_SCENARIOS = {
    "open_cab": "set_table",
    "close_cab": "in_drawer",
    "open_fridge": "set_table",
    "close_fridge": "in_fridge",
}
_LIMITS = {"navigate": 300, "reset_arm": 50}
_GOALS = {"open_cab": (0.4, np.inf), "close_cab": (-1, 0.05)}
_GOALS |= {"open_fridge": (1.17, np.inf), "close_fridge": (-1, 0.05)}
_JOINTS = {"cab": "kitchen_counter/drawer3", "fridge": "fridge/top_door"}


def options(words: list[str]) -> dict[str, str]:
    """Read ``key=value`` words.

    Raises:
        UserError: an unknown key.
    """
    found = dict(_DEFAULTS)
    for word in words:
        key, _, value = word.partition("=")
        if key not in found:
            raise UserError(f"unknown option '{key}'; the options are {', '.join(found)}")
        found[key] = value
    return found


def calls(skill: SkillName, episode: Episode) -> Iterator[SkillCall]:
    """Yield the uses of a skill that an episode offers."""
    joint = _JOINTS.get(skill.partition("_")[2])
    if joint is not None:
        yield SkillCall(skill, joint=joint)
        return
    for index in range(len(episode.targets)):
        yield SkillCall(skill, target=index, place="start" if skill == "navigate" else None)


def run(sim: MujocoSimulator, episode: Episode, call: SkillCall, seed: int) -> tuple[str, int]:
    """Run a skill from a start as in a plan, arm reset and driven there by Navigate.

    Returns:
        (cause of failure, "" for success; control steps).
    """
    sim.reset([episode], [seed])
    joint = call.joint
    if joint is not None and call.skill.startswith("close"):
        sim.set_joint(joint, 0.45 if joint == _JOINTS["cab"] else 1.3)
    if call.skill == "place":
        assert call.target is not None
        sim.snap_object(episode.targets[call.target].object_index)
    if call.skill != "navigate":
        place: Literal["start", "goal"] = "goal" if call.skill == "place" else "start"
        near = SkillCall("navigate", call.target, "receptacle" if joint else place, joint)
        if _carry_out(sim, near, seed)[0]:
            return "not reached", 0
        _carry_out(sim, SkillCall("reset_arm"), seed)
    cause, steps = _carry_out(sim, call, seed)
    return cause or _missing(sim, episode, call), steps


def _carry_out(sim: MujocoSimulator, call: SkillCall, seed: int) -> tuple[str, int]:
    skill = make_skill(call.skill)
    skill.reset(sim, 0, call, seed)
    limit = _LIMITS.get(call.skill, 200)
    for step in range(limit + 1):
        status = skill.status(sim, 0)
        if status.done:
            return "", step
        if status.failed:
            return status.reason, step
        sim.step(skill.act(sim, 0)[None])
    return ("" if call.skill == "reset_arm" else "timeout"), limit


def _missing(sim: MujocoSimulator, episode: Episode, call: SkillCall) -> str:
    """Judge the world itself, by the benchmark's thresholds."""
    state = sim.state()
    if call.joint is not None:
        value = state.joint_pos[0][sim.joint_names.index(call.joint)]
        low, high = _GOALS[call.skill]
        return "" if low < value < high else f"joint at {value:.2f}"
    assert call.target is not None
    target = episode.targets[call.target]
    if call.skill == "pick":
        return "" if state.held_object[0] == target.object_index else "not held"
    if call.skill == "place":
        off = np.linalg.norm(state.object_pos[0][target.object_index] - target.goal_pos)
        return "" if off < 0.15 else "more than 0.15 m off"
    return ""


def main(words: list[str]) -> None:
    """Print a skill's success rate, steps and causes of failure."""
    chosen = options(words)
    skill: SkillName = chosen["skill"]  # type: ignore[assignment]
    make_skill(skill)
    scenario = chosen["scenario"] or _SCENARIOS.get(skill, "tidy_house")
    generator = Generator(load_scenario(scenario), chosen["split"], int(chosen["seed"]))
    sim = MujocoSimulator(depth=None)
    causes: Counter[str] = Counter()
    steps: list[int] = []
    start = time.perf_counter()
    columns = (TextColumn(f"{skill}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, TextColumn("{task.fields[rate]}")) as progress:
        count = int(chosen["episodes"])
        task = progress.add_task("", total=count, rate="")
        for index in range(count):
            episode = generator.make(index).episode
            for call in calls(skill, episode):
                cause, used = run(sim, episode, call, index)
                causes[cause] += 1
                steps.append(used)
            progress.update(task, advance=1, rate=f"{causes['']}/{len(steps)} succeeded")
    print(f"{skill} on {scenario} {chosen['split']}: {causes['']}/{len(steps)} succeeded")
    print(f"steps: mean {np.mean(steps):.0f}, 95% below {np.percentile(steps, 95):.0f}")
    print(f"{time.perf_counter() - start:.0f} s with generating the episodes")
    for cause, number in causes.most_common():
        if cause:
            print(f"  {number:4d}  {cause}")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except (UserError, ValueError) as error:
        sys.exit(f"error: {error}")
