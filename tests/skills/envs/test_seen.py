"""The way on a map of what was seen follows from the contract's observations."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from skills.book import BOOK
from skills.envs.batch import BatchSkillEnv
from skills.envs.config import EnvConfig
from skills.envs.single import SkillEnv
from skills.learned.cards import Card
from skills.learned.skill import LearnedSkill
from skills.tasks.seen import PIXELS, SEEN, SeenWays
from tpsrl.errors import UserError
from tpsrl.geometry.rotations import to_base, wrap
from tpsrl.robot import fetch
from tpsrl.robot.kinematics import ArmKinematics
from tpsrl.robot.occupancy import CELL, SIDE, OccupancyGrid
from tpsrl.sim.door import ACTION_BASE


def reckoned(past: dict, seen: dict, told: np.ndarray, pose: np.ndarray) -> np.ndarray:
    """Where the base is, from a point that stands still as the hand sees it, before and after."""
    name = "obj_goal_sensor" if "obj_goal_sensor" in seen else "obj_start_sensor"
    points = []
    for senses in (past, seen):
        tip = ArmKinematics().forward(senses["joint"].astype(float))
        points.append((tip.pos + tip.rotation @ senses[name])[:2])
    before, after = points
    # A base drives along its x axis and turns: of the two motions that fit, the likelier.
    ahead = float(told[0]) * fetch.BASE_DELTA_LINEAR
    root = np.sqrt(max(after @ after - before[1] ** 2, 0.0))
    ahead = min((before[0] - root, before[0] + root), key=lambda d: abs(d - ahead))
    turn = wrap(np.arctan2(before[1], before[0] - ahead) - np.arctan2(after[1], after[0]))
    x, y, yaw = pose
    return np.array([x + ahead * np.cos(yaw), y + ahead * np.sin(yaw), wrap(yaw + turn)])


def test_what_was_seen_is_where_the_furniture_is():
    """Random motion of base and arm: the arm itself is not taken for furniture."""
    env = SkillEnv("pick", depth=64, split="val")
    kinematics, goal = ArmKinematics(), np.array([2.0, 0.0, 0.8])
    wrong = occupied = unknown = floor = 0
    for seed in range(3):
        env.reset(seed=seed)
        start, rng = env.sim.state().base_pose[0], np.random.default_rng(seed)
        grid = OccupancyGrid(goal)
        for _ in range(25):
            state = env.sim.state()
            place = to_base(start, np.append(state.base_pose[0, :2], 0.0))
            pose = np.append(place[:2], state.base_pose[0, 2] - start[2])
            arm = kinematics.points(state.arm_qpos[0])
            grid.look(env.sim.depth()[0, ..., 0], pose, arm, bool(state.held_object[0] >= 0))
            env.step(rng.uniform(-1, 1, env.action_space.shape))
        axes = (grid.low[k] + CELL * (np.arange(SIDE) + 0.5) for k in range(2))
        x, y = np.meshgrid(*axes, indexing="ij")
        cosine, sine = np.cos(start[2]), np.sin(start[2])
        places = np.stack([cosine * x - sine * y, sine * x + cosine * y], axis=-1) + start[:2]
        free = env.sim.scene(0).navigation.is_navigable(places)
        occupied += np.sum(grid.score > 0)
        wrong += np.sum((grid.score > 0) & free)
        floor += np.sum((grid.score < 0) & free)
        unknown += np.sum(grid.score == 0)
    env.close()
    assert occupied > 300 and floor > 600 and unknown > SIDE**2
    assert wrong < 0.06 * occupied  # open drawers and doors are not in the apartment's map


@pytest.mark.parametrize("skill", ["pick", "place"])
def test_it_follows_from_the_contract_s_observations(skill):
    """Nothing but depth, joints, what is held and the point goes in: a test reckons the rest."""
    env = SkillEnv(skill, depth=64, split="val", sensors=("contract", "seen"))
    rng, kinematics = np.random.default_rng(1), ArmKinematics()
    name = "obj_goal_sensor" if skill == "place" else "obj_start_sensor"
    for seed in range(2):
        seen, _ = env.reset(seed=seed)
        tip = kinematics.forward(seen["joint"].astype(float))
        ways, pose = SeenWays(1), np.zeros(3)
        ways.begin(0, pose, tip.pos + tip.rotation @ seen[name])
        for _ in range(25):
            state = SimpleNamespace(
                base_pose=pose[None], arm_qpos=seen["joint"][None].astype(float),
                held_object=np.where(seen["is_holding"] > 0, 0, -1),
            )  # fmt: skip
            ways.look(state, seen["head_depth"][None], [0])
            length, x, y = ways.read(pose[None])[0]
            assert length == pytest.approx(seen["seen_way"][0], abs=0.15)
            if seen["seen_way"][0] > 0.3:
                turn = np.arctan2(y, x) - pose[2]
                assert abs(wrap(turn - np.arctan2(*seen["seen_way"][:0:-1]))) < 0.3
            action = rng.uniform(-0.3, 0.3, env.action_space.shape)
            action[-2:] = 0.4, rng.uniform(-0.4, 0.4)
            past = seen
            seen, _, ended, *_ = env.step(action)
            if ended:
                break
            pose = reckoned(past, seen, action[-2:], pose)
    env.close()


def test_within_reach_no_way_is_left():
    env = SkillEnv("place", depth=64, split="val", sensors=("seen", "way", "way_gap"))
    near = far = 0
    for seed in range(12):
        seen, _ = env.reset(seed=seed)
        left = min(max(seen["seen_way"][0] / 0.3, 0.0), 1.0)
        np.testing.assert_allclose(
            seen["seen_way_gap"], left * np.array([1.0, *seen["seen_way"][1:]]), atol=1e-5
        )
        assert seen["seen_way"].shape == (3,) and 0.0 <= seen["seen_way"][0] <= 10.0
        assert np.hypot(*seen["seen_way"][1:]) == pytest.approx(1.0, abs=1e-5)
        agree = abs(seen["seen_way_gap"][0] - seen["way_gap"][0]) < 0.5
        near, far = near + agree, far + (seen["way_gap"][0] == 1.0)
    env.close()
    assert near >= 10 and far >= 3


@pytest.mark.parametrize("skill", ["place", "navigate"])
def test_the_chain_sees_what_the_environment_sees(skill):
    made = SkillEnv(skill, depth=64, split="val", sensors=SEEN)
    seen, _ = made.reset(seed=2)
    size = made.action_space.shape[0]
    drive = ACTION_BASE if skill == "place" else slice(0, 2)
    action, felt = np.full(size, -0.5, np.float32), []
    action[drive] = 0.5, 0.3

    def step(senses, *drawn, **how):
        felt.append({name: senses[name] for name in SEEN})
        return action

    policy = SimpleNamespace(observations=dict.fromkeys(SEEN, (3,)), size=size, reset=lambda: None)
    policy.step = step
    learned = LearnedSkill(Card(skill, 64), policy)
    learned.reset(made.sim, 0, made.worlds.origins[0].call, 0)
    for _ in range(15):
        learned.act(made.sim, 0)
        for name in SEEN:
            np.testing.assert_array_equal(felt[-1][name], seen[name])
        seen, *_ = made.step(action)
    made.close()


def test_a_state_put_back_goes_on_with_its_map():
    env = BatchSkillEnv("pick", 2, depth=None, split="val", sensors=("contract", "seen"))
    env.reset(seed=3)
    actions = np.random.default_rng(0).uniform(-1, 1, (30, 2, env.single_action_space.shape[0]))

    def future():
        return np.concatenate([env.step(a)[0]["seen_way"] for a in actions[10:]])

    for action in actions[:10]:
        env.step(action)
    kept = env.get_state()
    first = future()
    env.set_state(kept)
    np.testing.assert_array_equal(future(), first)
    env.close()


def test_who_keeps_a_map_and_who_needs_none():
    keep = {"navigate", "pick", "place", "rearrange_easy"}
    assert {name for name, row in BOOK.items() if row.seen} == keep
    with pytest.raises(UserError, match="'open_cab' would sense nothing"):
        EnvConfig(depth=64, sensors="seen").task("open_cab")
    assert EnvConfig(depth=64, sensors=("contract", "seen")).task("open_cab").sensors


def test_a_map_has_pictures_of_one_size():
    """Those that the policy was trained with, also where it does not look at them itself."""
    with SkillEnv("place", depth=128, split="val", sensors=SEEN) as made:
        made.reset(seed=2)
        policy = SimpleNamespace(
            observations=dict.fromkeys(SEEN, (3,)), size=10, reset=lambda: None
        )
        learned = LearnedSkill(Card("place", PIXELS), policy)
        with pytest.raises(UserError, match=r"needs a depth picture of 64 pixels.*renders 128"):
            learned.reset(made.sim, 0, made.worlds.origins[0].call, 0)
    for depth, pixels in ((None, PIXELS), (32, 32)):
        with SkillEnv("place", depth=depth, split="val", sensors=SEEN) as made:
            seen, _ = made.reset(seed=2)
            assert made.sim.depth().shape[1] == pixels and set(seen) == set(SEEN)


def test_the_open_front_of_a_fridge_is_seen_as_an_end_of_the_way():
    """Boards above the shelf that is reached into hide it from nowhere in front."""
    env = SkillEnv("pick", depth=64, split="val", places=("cabinet",))
    found, seeds = 0, range(5)
    for seed in seeds:
        env.reset(seed=seed)
        row = env.worlds._rows[0]
        point, facing = row.object_start, row.start_place[:2]
        heading = np.arctan2(-facing[1], -facing[0])
        ways = SeenWays(1)
        for gap in (1.7, 1.5, 1.3):
            pose = np.array([*(point[:2] + gap * facing), heading])
            env.sim.set_base(pose[None], [0])
            if gap == 1.7:
                ways.begin(0, pose, point)
            for _ in range(7):
                env.sim.step(np.zeros((1, 10)))
                ways.look(env.sim.state(), env.sim.depth(), [0])
        aside = np.array([-facing[1], facing[0]])
        ahead = [point[:2] + 0.75 * facing + shift * aside for shift in (-0.2, -0.1, 0.0, 0.1, 0.2)]
        found += min(ways.read(np.array([[*place, heading]]))[0, 0] for place in ahead) < 0.1
    assert found == len(seeds)
    env.close()


def test_navigate_s_map_follows_from_distance_and_bearing():
    """Neither how high its goal lies nor what is held goes in: its contract tells neither."""
    env, held = SkillEnv("navigate", depth=64, split="val", sensors=("contract", "seen")), 0
    for seed in (6, 25, 30):  # one holds something; in two something stands above the goal
        seen, _ = env.reset(seed=seed)
        distance, bearing = seen["goal_to_agent_gps_compass"]
        point = distance * np.array([np.cos(bearing), -np.sin(bearing)])
        ways, start = SeenWays(1), env.sim.state().base_pose[0]
        ways.begin(0, np.zeros(3), np.append(point, np.inf))
        for _ in range(40):
            state = env.sim.state()
            held += int(state.held_object[0] >= 0)
            pose = to_base(start, np.append(state.base_pose[0, :2], 0.0))
            pose[2] = wrap(state.base_pose[0, 2] - start[2])
            empty = SimpleNamespace(
                base_pose=pose[None], arm_qpos=seen["joint"][None].astype(float),
                held_object=np.array([-1]),
            )  # fmt: skip
            ways.look(empty, seen["head_depth"][None], [0])
            length, x, y = ways.read(pose[None])[0]
            assert length == pytest.approx(seen["seen_way"][0], abs=0.1)
            side = np.arctan2(seen["seen_way"][2], seen["seen_way"][1])
            if length > 0.3:
                assert abs(wrap(np.arctan2(y, x) - pose[2] - side)) < 0.2
            seen, _, ended, *_ = env.step(np.array([0.6, np.clip(2.4 * side, -1, 1), -1.0]))
            if ended:
                break
    env.close()
    assert held > 0
