"""A world without physics behind the simulator door, and skills that change it at will.

For the executors' logic alone; tests/planner/chain/test_engine.py runs them on the real engine.
"""

from __future__ import annotations

import numpy as np

from planner.chain.predicates import HabTask
from planner.chain.tpsrl import TpsrlAgent
from skills.interface import Skill, SkillStatus
from tpsrl.episodes.types import Episode, RigidObject, Target
from tpsrl.sim.door import EngineInfo, SimState, Simulator
from tpsrl.sim.scene import ReceptacleInfo, SceneInfo

I4 = np.array([1.0, 0, 0, 0])
DRAWER, FRIDGE = "kitchen_counter/drawer3", "fridge/top_door"
HANDLES = {DRAWER: "cab_push_point_5", FRIDGE: "fridge_push_point"}
REST = {DRAWER: np.array([5.0, 0, 0.8]), FRIDGE: np.array([8.0, 0, 1.0])}
OPEN = {DRAWER: 0.45, FRIDGE: 1.5}


def make_episode(scenario, starts, goals, labels, joints=None, goal_receptacles=None):
    count = len(labels)
    objects = tuple(
        RigidObject("024_bowl", f"024_bowl_:{i:04d}", np.array(starts[i], float), I4)
        for i in range(count)
    )
    wanted = goal_receptacles or [""] * count
    targets = tuple(
        Target(i, np.array(goals[i], float), I4, labels[i], "", wanted[i]) for i in range(count)
    )
    return Episode("7", scenario, "toy", objects, targets, joints or {})


def set_table():
    starts = [[5.0, 0, 0.8], [8.0, 0, 1.0]]
    goals = [[0, 0, 0.8], [0, 0.5, 0.8]]
    return make_episode("set_table", starts, goals, ["bowl_target|0", "fruit_target|1"])


def tidy_house():
    starts = [[3.0 * i, 10, 0.8] for i in range(5)]
    goals = [[3.0 * i, 20, 0.8] for i in range(5)]
    return make_episode("tidy_house", starts, goals, [f"any_targets|{i}" for i in range(5)])


def groceries():
    starts = [[8.0, 0, 1.0], [8.0, 0.1, 1.0], [20.0, 0, 0.8]]
    goals = [[20, 1, 0.8], [20, 2, 0.8], [8.0, 0.2, 1.0]]
    labels = [f"obj{i}_target|{i}" for i in range(3)]
    return make_episode("prepare_groceries", starts, goals, labels, {FRIDGE: 1.5})


class ToySim(Simulator):
    """One world; things are where they were last put."""

    num_envs = 1
    info = EngineInfo("toy", "0", 30, 30)
    joint_names = (DRAWER, FRIDGE)
    joint_ranges = np.array([[0, 0.5], [0, 2.3]])
    marker_names = tuple(HANDLES.values())
    marker_joints = (0, 1)

    def __init__(self, episode):
        self._episode = episode
        self.joints = np.array([episode.joints.get(n, 0.0) for n in self.joint_names])
        self.objects = np.array([o.pos for o in episode.objects]).reshape(-1, 3)
        self.base = np.array([100.0, 100.0, 0.0])
        self.held, self.handle, self.steps = -1, -1, 0
        box = np.array([[-0.4, -0.4, -0.3], [0.4, 0.4, 0.3]])
        shelf = ReceptacleInfo(
            "drawer_right_top", "kitchen_counter", 0, REST[DRAWER], I4, np.zeros(3), box[1]
        )
        self._scene = SceneInfo(
            "toy",
            {},
            {"drawer_right_top": shelf},
            {DRAWER: box, FRIDGE: box},
            frozenset({FRIDGE}),
            {name: (pos, I4) for name, pos in REST.items()},
            navigation=None,
        )

    def state(self):
        links = np.array([REST[DRAWER] + [self.joints[0], 0, 0], REST[FRIDGE]])
        one = np.zeros(1)
        return SimState(
            base_pose=self.base[None].copy(),
            arm_qpos=np.zeros((1, 7)),
            arm_qvel=np.zeros((1, 7)),
            arm_target=np.zeros((1, 7)),
            ee_pos=np.zeros((1, 3)),
            ee_quat=I4[None],
            held_object=np.array([self.held]),
            held_marker=np.array([self.handle]),
            hold_violation=np.zeros(1, bool),
            object_pos=self.objects[None].copy(),
            object_quat=np.tile(I4, (1, len(self.objects), 1)),
            joint_pos=self.joints[None].copy(),
            link_pos=links[None],
            link_quat=np.tile(I4, (1, 2, 1)),
            marker_pos=links[None] + [0.3, 0, 0],
            force=one,
            force_sum=one,
            step_count=np.array([self.steps]),
            diverged=np.zeros(1, bool),
        )

    def move_joint(self, name, value):
        """Drawers take their contents along."""
        index = self.joint_names.index(name)
        if name == DRAWER:
            near = np.all(np.abs(self.objects - REST[name] - [self.joints[0], 0, 0]) < 0.4, axis=1)
            self.objects[near, 0] += value - self.joints[index]
        self.joints[index] = value

    def grasp(self, index):
        self.held = index
        self.objects[index] = [*self.base[:2], 1.0]

    def step(self, actions):
        assert actions.shape == (1, 10)
        if actions[0, 7] < 0:
            self.held = self.handle = -1
        self.steps += 1

    def scene(self, env_id=0):
        return self._scene

    def episode(self, env_id=0):
        return self._episode

    def _absent(self, *args, **kwargs):
        raise NotImplementedError

    reset = depth = render = capture = restore = set_base = set_arm = set_joint = _absent
    set_object = snap_object = release = robot_contacts = settle = close = _absent


class ToySkill(Skill):
    """Takes two steps and then has its effect, unless ``fate`` says otherwise.

    ``fate(name, call, uses)`` returns ``"ok"``, ``"miss"`` (done without effect), ``"fail"``
    (gives up), ``"hang"`` (never ends), or a function of the simulator to be run instead.
    """

    privileged = True

    def __init__(self, name, fate, log):
        self.name, self._fate, self._log = name, fate, log

    def reset(self, sim, env_id, call, seed):
        self._call, self._steps = call, 0
        uses = sum(c == call for c, _ in self._log)
        self._end = self._fate(self.name, call, uses)
        self._log.append((call, seed))

    def act(self, sim, env_id):
        self._steps += 1
        if self._steps == 2:
            if callable(self._end):
                self._end(sim)
            elif self._end == "ok":
                self._apply(sim)
        action = np.zeros(10)
        action[7] = 1.0
        return action

    def status(self, sim, env_id):
        over = self._steps >= (self._call.steps or 2)
        if self._end == "hang":
            return SkillStatus()
        failed = over and self._end == "fail"
        return SkillStatus(done=over and not failed, failed=failed, reason="stuck" * failed)

    def _apply(self, sim):
        call, target = self._call, None
        if call.target is not None:
            target = sim.episode().targets[call.target]
        if self.name == "navigate":
            if call.place == "front":
                return
            if call.place == "receptacle":
                point = REST[call.joint]
            else:
                held = sim.held == target.object_index
                home = sim.episode().objects[target.object_index].pos
                start = home if held else sim.objects[target.object_index]
                point = target.goal_pos if call.place == "goal" else start
            sim.base[:2] = point[:2] + [1.0, 0]
            if sim.held >= 0:
                sim.grasp(sim.held)
        elif self.name == "pick":
            sim.grasp(target.object_index)
        elif self.name == "place" and sim.held == target.object_index:
            home = sim.episode().objects[target.object_index].pos
            sim.objects[target.object_index] = home if call.place == "start" else target.goal_pos
            sim.held = -1
        elif self.name in ("open_cab", "open_fridge"):
            sim.move_joint(call.joint, OPEN[call.joint])
        elif self.name in ("close_cab", "close_fridge"):
            sim.move_joint(call.joint, 0.0)


def run(episode, executor, fate=None, limit=5000, options=None, each_step=None, problem=None):
    """Run an episode to the agent's stop; return simulator, report and skill log."""
    sim, log = ToySim(episode), []
    agent = TpsrlAgent(
        lambda name: ToySkill(name, fate or (lambda *_: "ok"), log),
        executor,
        problem,
        options=options,
    )
    agent.reset(sim, 0, episode, seed=3)
    for _ in range(limit):
        action = agent.act(sim, 0)
        if action is None:
            assert agent.act(sim, 0) is None  # and stays stopped
            return sim, agent.report(), log
        sim.step(action[None])
        if each_step:
            each_step(sim)
    raise AssertionError("the agent did not stop")


def once(skill, target, ending):
    return lambda name, call, uses: (
        ending if name == skill and call.target == target and uses == 0 else "ok"
    )


def names(report):
    return [r.skill for r in report.skills]


def solved(sim):
    return HabTask().success(sim, 0)
