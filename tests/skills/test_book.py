"""One task class and one row make a skill: its environment, program, policy and planner call."""

from __future__ import annotations

from dataclasses import dataclass

import gymnasium
import numpy as np
import pytest

import skills.envs
from eval.trials import Trial, scripted_agent
from planner import Action
from planner.chain.calls import TpsrlOptions, plan_step, skill_call
from planner.chain.grounding import ground_episode
from skills.book import BOOK, chained, enter, make_skill, make_task, skill_for
from skills.interface import SkillCall
from skills.learned.cards import Card, policies_in, write_card
from skills.learned.skill import LearnedSkill
from skills.motion.moves import move
from skills.programs.program import ScriptedSkill
from skills.row import SkillRow, ask_target
from skills.tasks.base import Advance, Progress, Task
from skills.tasks.layout import ARM_GRIP_BASE
from skills.tasks.sensors import SENSORS, sensor
from skills.tasks.starts import NoStartError, Start, draw_target, free_poses
from tests.skills.nets import STATE, saved_policy
from tpsrl.errors import UserError
from tpsrl.robot.fetch import RESET_ARM_TARGET

HIGH = 1.1


@sensor(1)
def height_to_go(view):
    """How far the end effector is below where it is wanted, m."""
    return (HIGH - view.state.ee_pos[:, 2])[:, None]


@dataclass(frozen=True)
class RaiseTask(Task[Progress]):
    """Raise the end effector."""

    height_reward: float = 1.0

    def start_state(self, sim, env_id, rng, spawn):
        call = SkillCall(self.name, target=draw_target(sim, env_id, rng, self.name))
        for _ in free_poses(sim, env_id, rng):
            return Start(self.goal_for(sim, env_id, call), call)
        raise NoStartError("no free start")

    def begin(self, view):
        return Progress(**self.start_fields(view))

    def advance(self, view, progress, stop):
        height = view.state.ee_pos[:, 2]
        return Advance({}, self.height_reward * height, height > HIGH)

    def at_end(self, view):
        return view.state.ee_pos[:, 2] > HIGH


class Raise(ScriptedSkill):
    name = "raise"

    def run(self, sim, env_id):
        up = np.array([0.0, 0.0, 0.0, -1.0, 0.0, 0.0, 0.0])
        yield from move(sim, env_id, arm=RESET_ARM_TARGET + 0.5 * up)


ROW = SkillRow(
    RaiseTask("raise", ("head_depth", "joint", "height_to_go"), ARM_GRIP_BASE, horizon=60),
    "Raise",
    f"{__name__}:Raise",
    plan={"raise": ask_target},
    parity={"horizon": 70},
)


@pytest.fixture(autouse=True)
def raised():
    enter(ROW)
    skills.envs.register()
    yield
    del BOOK["raise"], gymnasium.registry["tpsrl/Raise-v0"]


def test_its_environment_and_its_program():
    env = gymnasium.make("tpsrl/Raise-v0", depth=None, split="val").unwrapped
    observation, _ = env.reset(seed=0)
    assert env.observation_space.contains(observation) and set(observation) == {
        "joint",
        "height_to_go",
    }
    records = [Trial(env, scripted_agent(env), seed).play() for seed in range(2)]
    env.close()
    assert all(record["success"] for record in records), records
    assert make_task("raise", contract="parity").horizon == 70
    assert make_task("raise", actions="restricted").layout.size == 8
    assert isinstance(make_skill("raise"), Raise)


def test_its_policy_ends_as_the_task_says(tmp_path):
    saved_policy(tmp_path / "raise.safetensors", "raise")
    write_card(tmp_path / "raise.json", Card("raise", None))
    skill = LearnedSkill.load(policies_in(tmp_path)["raise"])
    env = gymnasium.make("tpsrl/Raise-v0", **STATE).unwrapped
    env.reset(seed=0)
    call = env.worlds.origins[0].call
    skill.reset(env.sim, 0, call, 0)
    assert skill.act(env.sim, 0).shape == (10,) and not skill.status(env.sim, 0).done
    program = make_skill("raise")
    program.reset(env.sim, 0, call, 0)
    while not program.status(env.sim, 0).done:
        env.sim.step(program.act(env.sim, 0)[None])
    assert skill.status(env.sim, 0).done
    env.close()


def test_the_planner_calls_it():
    with gymnasium.make("tpsrl/Raise-v0", depth=None, split="val").unwrapped as env:
        env.reset(seed=0)
        grounding = ground_episode(env.sim, 0)
    args = (grounding.label(0),)
    action = Action("raise_it", "raise", args, args, frozenset(), frozenset(), ())
    wanted = SkillCall("raise", target=0)
    assert skill_call(action, grounding) == wanted
    assert plan_step(action, 0, grounding, TpsrlOptions()).call == wanted
    assert "raise" in chained() and skill_for("raise_by_name") == "raise"


def test_what_is_taken_is_refused():
    for change, word in (
        ({"name": "raise"}, "raise"),
        ({"name": "wait"}, "wait"),
        ({"name": "lift"}, "Raise"),
    ):
        task = RaiseTask(**change, sensors=(), layout=ARM_GRIP_BASE, horizon=1)
        with pytest.raises(UserError, match=word):
            enter(SkillRow(task, "Raise"))
    with pytest.raises(UserError, match="nav"):
        enter(SkillRow(RaiseTask("lift", (), ARM_GRIP_BASE, 1), "Lift", plan={"nav": ask_target}))
    with pytest.raises(UserError, match="no skill carries out the action 'pikc'"):
        skill_for("pikc")
    assert "lift" not in BOOK


def test_the_book_agrees_with_itself():
    for name, row in BOOK.items():
        assert name == row.task.name
        if row.program:
            assert make_skill(name).name == name
        assert set(row.task.sensors) - {"head_depth"} <= set(SENSORS)
