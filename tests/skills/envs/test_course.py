"""The comfortable way: how far, which way, and that the reward of Navigate follows it."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from skills.book import make_task
from skills.envs.single import SkillEnv
from skills.tasks.course import FAN, Course, approach, fan_of
from skills.tasks.places import detour, round_door
from skills.tasks.scan import FAR_REACH, REACH
from skills.tasks.state import View, stack_goals
from skills.tasks.travel import Pace, SpeedMap
from tests.skills.envs.states import goals, state
from tests.skills.envs.test_environments import shipped
from tpsrl.errors import UserError
from tpsrl.geometry.arrays import to_base
from tpsrl.robot import fetch
from tpsrl.sim.navigation import GridNavigation
from tpsrl.sim.scene import SceneInfo

WALL = np.array([[-0.1, -1.0], [0.1, -1.0], [0.1, 1.0], [-0.1, 1.0]])
GOAL = np.array([2.5, 0.0])


def scene(*polygons: np.ndarray) -> SceneInfo:
    """A room of 6 m by 5 m with furniture."""
    navigation = GridNavigation(polygons, np.array([[-3.0, -2.5], [3.0, 2.5]]))
    corners = {"a": np.array([-3.0, -2.5, 0.0]), "b": np.array([3.0, 2.5, 0.0])}
    return SceneInfo("room", corners, {}, {}, frozenset(), {}, navigation)


def test_course_in_the_open_is_the_straight_line():
    far = Course(scene(), GOAL).look(np.array([-1.5, 0.0]))
    assert far[0] == pytest.approx(4.0 - 1.1, abs=0.05)
    assert np.arctan2(far[2], far[1]) == pytest.approx(0.0, abs=0.05)


def test_course_leads_around_furniture_and_keeps_clear():
    course = Course(scene(WALL), GOAL)
    start = np.array([-1.5, 0.1])
    assert course.look(start)[0] > 3.5
    place, trail = start, []
    while course.look(place)[0] > 0.05 and len(trail) < 200:
        way = course.look(place)[1:]
        place = place + 0.05 * way / np.linalg.norm(way)
        trail.append(place)
    assert np.linalg.norm(place - GOAL) < 1.3
    gaps = [np.linalg.norm(np.maximum(np.abs(p) - [0.1, 1.0], 0.0)) for p in trail]
    assert min(gaps) > fetch.BASE_RADIUS + 0.1


def test_a_way_along_an_edge_leads_a_little_away_from_it():
    """Whoever follows it does not stand still where a base that does not slide would."""
    long = np.array([[-2.0, -0.1], [2.0, -0.1], [2.0, 0.1], [-2.0, 0.1]])
    place, edge = scene(long), 0.1 + fetch.BASE_RADIUS
    course = Course(place, np.array([1.5, edge]), np.full(FAN, np.inf))
    for x in (-1.2, 0.3, 0.5):  # the last is where the way is short, and led into the wall
        at = np.array([x, edge + 0.005])
        left, *way = course.look(at)
        lean = np.arctan2(way[1], way[0])
        assert left > 0.2 and 0.1 < lean < 1.3
        ahead = at + 0.083 * np.array(way) / np.linalg.norm(way)
        assert np.allclose(place.navigation.clamp_motion(at, ahead), ahead)
    away = course.look(np.array([0.0, edge + 0.4]))[1:]
    assert abs(np.arctan2(away[1], away[0])) < 0.35


def test_a_point_behind_a_wall_is_reached_from_where_it_is_seen():
    point, behind = np.array([0.6, 0.0]), np.array([-0.6, 0.0])
    fan = np.full(FAN, np.inf)
    fan[FAN // 2 - 1 : FAN // 2 + 2] = 0.5  # the wall, which ends at 1 m on either side
    far = Course(scene(WALL), point, fan).look(behind)[0]
    assert Course(scene(WALL), point).look(behind)[0] < 0.3  # 1.2 m off, through the wall
    assert far > 2.0
    assert Course(scene(WALL), point, fan).look(np.array([1.3, 0.0]))[0] == 0.0


def test_a_door_that_stands_open_is_led_around():
    fan = np.full(FAN, np.inf)
    goal, start = np.array([1.0, 0.0]), np.array([-1.5, 0.3])
    straight = Course(scene(), goal, fan).look(start)
    around = Course(scene(), goal, fan, [WALL]).look(start)
    assert straight[0] == pytest.approx(1.6, abs=0.15)  # 0.9 m before the goal
    assert around[0] > straight[0] + 0.5
    assert around[2] > 0.3 > abs(straight[2])  # to the left of it


def place_view(left: float, bearing: float) -> View:
    """The base faces y of the world; its way leads ``bearing`` to the left, over ``left`` m."""
    at = np.pi / 2.0 + bearing
    course = np.array([[left, 0.5 * np.cos(at), 0.5 * np.sin(at)]])
    robot = state(base_pose=[0.0, 0.0, np.pi / 2.0])
    return View(robot, stack_goals(goals(1), robot.base_pose), course=course)


def test_a_hand_counts_where_the_base_stands_within_reach():
    for hand in (0.2, 1.4):
        hands = np.full(1, hand)
        assert approach(place_view(0.0, 1.0), hands, 0.5)[0] == hand
        half = approach(place_view(0.15, 0.0), hands, 0.5)[0]
        assert half == pytest.approx((hand + 0.8 + 0.5 * 0.15) / 2.0)
        for left, bearing in ((0.3, 0.0), (2.0, 0.5), (2.0, -0.5), (2.0, np.pi)):
            far = approach(place_view(left, bearing), hands, 0.5)[0]
            assert far == pytest.approx(0.8 + 0.5 * left + 0.3 * abs(bearing))


@pytest.mark.parametrize("skill", ["pick", "place"])
def test_a_teacher_is_paid_for_turning_towards_its_way_and_going_it(skill):
    settings = {"episodes": shipped("rearrange_easy"), "sensors": ("joint", "way")}
    options = {"slack_reward": 0.0, "force_penalty": 0.0, "detour": 0.0, "haste": 0.0}
    env = SkillEnv(skill, depth=None, reward="teaching", options=options, **settings)
    turned = gone = 0
    for seed in range(12):
        before = env.reset(seed=seed)[0]["way"].astype(float)
        error = float(np.arctan2(before[2], before[1]))
        action = np.zeros(10)
        action[7] = -1.0 if skill == "pick" else 1.0
        aligned = abs(error) < 0.3
        action[8 if aligned else 9] = 1.0 if aligned else np.sign(error)
        after, reward, *_, info = env.step(action)
        if min(before[0], after["way"][0]) < 0.3 or info["cause"]:
            continue
        left = abs(float(np.arctan2(after["way"][2], after["way"][1])))
        wanted = 1.5 * (before[0] - after["way"][0]) + 0.9 * (abs(error) - left)
        assert reward == pytest.approx(wanted, abs=0.005)  # in whole mm
        # On the way itself it may have to turn more than it did.
        assert (before[0] - after["way"][0] if aligned else reward) > 0.01
        turned, gone = turned + (not aligned), gone + aligned
    assert turned and gone
    env.close()


def test_no_way_leads_out_of_a_yard_that_is_all_end():
    """The goal can be reached from everywhere in it, and from nowhere else."""
    low, high = np.array([-3.0, -2.5]), np.array([3.0, 2.5])
    across = np.array([[-0.1, -2.5], [0.1, -2.5], [0.1, 2.5], [-0.1, 2.5]])
    navigation = GridNavigation((across,), np.array([low, high]))
    speeds = SpeedMap(navigation, low, high, Pace(comfort=0.3, slowest=0.3))
    window = slice(0, None), slice(0, None)
    yard = speeds.free & (speeds.nodes[..., 0] > 0.0)
    for ends, reached in ((yard, yard), (speeds.free, speeds.free)):
        time = speeds.time_to(ends, window)
        assert yard.any() and np.array_equal(np.isfinite(time), reached)
        assert (time[reached] == 0.0).all()
    start = yard & (speeds.nodes[..., 1] > 1.5)
    time = speeds.time_to(start, window)
    assert np.isfinite(time[yard]).all() and time[yard].max() > 2.0
    assert np.isinf(time[speeds.free & ~yard]).all()


def test_navigate_is_rewarded_along_the_course():
    """A robot that follows the course gains what there is to go and to turn, and then succeeds."""
    options = {"needs_geodesic": "course", "turn_distance": 100.0, "slack_reward": 0.0}
    env = SkillEnv("navigate", depth=None, episodes=shipped("rearrange_easy"), options=options)
    for seed in range(3):
        env.reset(seed=seed)
        begun, total, over = dataclasses.replace(env.worlds.progress), 0.0, False
        while not over:
            bearing = _bearing(env)
            distance = float(env.worlds.view.heading[0][0])
            there = distance < 1.4 and abs(bearing) < 0.2
            forward = 0.0 if abs(bearing) > 0.4 or there else 1.0
            turn = np.clip(bearing / fetch.BASE_DELTA_ANGULAR, -1.0, 1.0)
            _, reward, ended, cut, info = env.step(
                np.array([forward, turn, 1.0 if there else -1.0])
            )
            total, over = total + reward, ended or cut
        assert info["success"]
        last = env.worlds.progress
        gained = begun.distance - last.distance + begun.angle - last.angle
        assert total == pytest.approx(10.0 + float(gained[0]), abs=0.05)
    env.close()


def test_unknown_distance_is_named():
    options = {"needs_geodesic": "corse"}
    with pytest.raises(UserError, match=r"needs_geodesic has no value 'corse'; did you mean"):
        SkillEnv("navigate", depth=None, episodes=shipped("rearrange_easy"), options=options)


def _bearing(env: SkillEnv) -> float:
    view = env.worlds.view
    if view.course[0, 0] < env.worlds.task.facing_distance:
        return float(view.heading[1][0])
    turn = np.arctan2(view.course[0, 2], view.course[0, 1]) - view.state.base_pose[0, 2]
    return float((turn + np.pi) % (2 * np.pi) - np.pi)


def test_gap_tells_where_navigate_succeeds():
    """Both values are negative exactly where a stop would succeed."""
    options = {"failed_stop_ends": False}
    names = ("goal_gap", "goal_to_agent_gps_compass")
    episodes = shipped("rearrange_easy")
    env = SkillEnv("navigate", depth=None, episodes=episodes, sensors=names, options=options)
    inside, outside, stopped = 0, 0, 0
    for seed in range(6):
        seen, there = env.reset(seed=seed)[0], False
        for _ in range(100):
            distance, right = seen["goal_to_agent_gps_compass"]
            there = bool((seen["goal_gap"] < 0.0).all())
            assert there == (distance < 1.5 and abs(right) < 0.261799)
            inside, outside = inside + there, outside + (not there)
            turn = np.clip(-right / fetch.BASE_DELTA_ANGULAR, -1.0, 1.0)
            forward = 1.0 if distance > 1.0 and abs(right) < 0.5 else 0.0
            seen = env.step(np.array([forward, turn, -1.0]))[0]
        if there:
            assert env.step(np.array([0.0, 0.0, 1.0]))[4]["success"]
            stopped += 1
    assert inside > 50 and outside > 50 and stopped > 0
    env.close()


@pytest.mark.parametrize("skill", ["pick", "place"])
def test_gaps_show_the_last_centimetres(skill: str):
    """Where they are not at their ends they give the way back; below 0 Place may let go."""
    name = {"pick": "obj_start_gap", "place": "obj_goal_gap"}[skill]
    env = SkillEnv(skill, depth=None, episodes=shipped("rearrange_easy"), sensors=(name,))
    fine = 0
    for seed in range(4):
        env.reset(seed=seed)
        for _ in range(30):
            action = env.action_space.sample()
            action[7] = 1.0  # what is held stays held
            seen, _, terminated, _, info = env.step(action)
            gap, view = seen[name], env.worlds.view
            ends = (view.object_pos, view.goal.position)
            ends = (view.state.ee_pos, view.object_pos) if skill == "pick" else ends
            here, there = (to_base(np, view.state.base_pose, end)[0] for end in ends)
            inner = np.abs(gap[:3]) < 0.99
            assert 0.1 * np.arctanh(gap[:3][inner]) == pytest.approx(
                (there - here)[inner], abs=1e-3
            )
            assert (gap[3] < 0) == (np.linalg.norm(there - here) < 0.15)
            if skill == "place":
                assert (gap[3] < 0) == (info["goal_distance"] < 0.15)
            fine += int(inner.sum())
            if terminated:
                break
    assert fine > 10
    env.close()


def test_far_scan_shows_the_same_outlines_from_farther_away():
    names = ("base_scan", "base_scan_far")
    episodes = shipped("rearrange_easy")
    env = SkillEnv("navigate", depth=None, episodes=episodes, sensors=names)
    alone = SkillEnv("navigate", depth=None, episodes=episodes, sensors=names[:1])
    farther = 0
    for seed in range(4):
        seen = env.reset(seed=seed)[0]
        assert np.allclose(seen["base_scan"], alone.reset(seed=seed)[0]["base_scan"], atol=1e-6)
        ranges = FAR_REACH * (1.0 - seen["base_scan_far"])
        assert np.allclose(np.minimum(ranges, REACH), REACH * (1.0 - seen["base_scan"]), atol=1e-5)
        farther += int((ranges > REACH).sum())
    assert farther > 10


def test_the_way_round_ends_before_a_shelf_and_above_a_table():
    env = SkillEnv("place", depth=None, episodes=shipped("rearrange_easy"))
    env.reset(seed=0)
    view = env.worlds.view
    base, point = view.state.base_pose[:, :2], np.array([[0.0, 0.0, 0.9]])
    shelf, table = np.array([[0.0, 1.0, 1.0, 0.0]]), np.array([[0.0, 1.0, 0.0, 0.0]])

    def left(place: np.ndarray, out: float, aside: float, height: float) -> float:
        """The base is so far out of the furniture, which faces along y, and so far to its side."""
        point[:, :2] = base - [aside, out]
        return float(detour(view, np.array([[0.0, 0.0, height]]), point, place)[0])

    assert left(shelf, 0.7, 0.1, 0.95) == left(table, -0.7, 1.0, 0.95) == 0.0
    assert left(shelf, 0.7, -1.0, 0.95) == pytest.approx(0.85)
    assert left(shelf, -0.5, 0.0, 0.95) == pytest.approx(1.0)
    assert left(table, 0.7, 0.0, 0.6) == pytest.approx(0.3)
    env.close()


def test_a_teacher_pays_for_driving_where_the_base_cannot_go():
    settings = {"depth": None, "reward": "teaching", "episodes": shipped("rearrange_easy")}
    ahead = np.array([0.0] * 7 + [-1.0, 1.0, 0.0])
    paid = []
    for options in ({}, {"blocked_penalty": 0.0}):
        env = SkillEnv("pick", options=options, **settings)
        env.reset(seed=1)
        paid.append([env.step(ahead)[1] for _ in range(40)])
        env.close()
    lost = np.subtract(paid[1], paid[0])
    assert lost[0] == pytest.approx(0.0, abs=1e-6)  # it moves
    assert lost[-1] == pytest.approx(0.05, abs=1e-3)  # and is stopped by the furniture


def test_the_walls_of_a_drawer_hide_nothing():
    settings = {"episodes": shipped("set_table"), "places": "drawer", "depth": None}
    env = SkillEnv("pick", sensors=("joint", "obj_start_place"), **settings)
    open_sides = []
    for seed in range(6):
        env.reset(seed=seed)
        assert env.worlds.view is not None
        open_sides.append((fan_of(env.sim, 0, env.worlds.view.goal.object_start[0]) > 0.7).sum())
    env.close()
    assert min(open_sides) >= FAN // 2, "only the counter behind it stands in the way"


def test_a_hand_goes_round_the_edge_of_a_door():
    door = np.tile([0.0, 0.0, 1.0, 0.0], (5, 1))
    start = np.array([[0.2, -0.3], [-0.5, -0.3], [1.2, -0.1], [2.0, -0.3], [0.5, 0.4]])
    end = np.array([0.2, 0.3, 0.0])
    longer = round_door(np, np.pad(start, ((0, 0), (0, 1))), np.tile(end, (5, 1)), door)
    round_edge = np.linalg.norm(start - [1.0, 0.0], axis=1) + np.hypot(0.8, 0.3)
    wanted = round_edge - np.linalg.norm(start - end[:2], axis=1)
    np.testing.assert_allclose(longer[:2], wanted[:2])  # nothing leads past the hinge
    assert longer[2] == pytest.approx(wanted[2]) and longer[2] < 0.05
    assert not longer[3:].any()
    assert not round_door(np, np.zeros((5, 3)), np.tile(end, (5, 1)), np.zeros((5, 4))).any()


def test_the_fridge_door_stands_between_a_hand_behind_it_and_what_lies_inside():
    settings = {"episodes": shipped("set_table"), "places": "cabinet", "depth": None}
    env = SkillEnv("pick", sensors=("joint",), reward="teaching", **settings)
    env.reset(seed=0)
    assert env.worlds.view is not None
    goal = env.worlds.view.goal
    hinge, edge = goal.door[0, :2], goal.door[0, 2:4]
    point, facing = goal.object_start, goal.start_place[0, :2]
    env.close()
    assert 0.4 < np.linalg.norm(edge - hinge) < 1.0
    out = (edge - hinge) @ facing
    assert out > 0.3, "it stands open, out into the room"
    middle = 0.5 * (hinge + edge)
    aside = np.array([-facing[1], facing[0]]) * np.sign(
        (middle - point[0, :2]) @ [-facing[1], facing[0]]
    )
    behind, before = np.zeros((1, 3)), np.zeros((1, 3))
    behind[0, :2], before[0, :2] = middle + 0.2 * aside, point[0, :2] + 0.6 * facing
    assert round_door(np, behind, point, goal.door)[0] > 0.2
    assert round_door(np, before, point, goal.door)[0] == 0.0


def test_a_world_that_goes_on_keeps_its_way_though_the_drawer_has_moved():
    settings = {"depth": None, "sensors": ("way_gap",), "places": ["drawer"]}
    with SkillEnv("pick", episodes=shipped("rearrange_easy"), **settings) as env:
        env.reset(seed=2)
        name = "kitchen_counter/drawer3"
        j = env.sim.joint_names.index(name)
        open_now = float(np.asarray(env.sim.state().joint_pos)[0, j])
        before = env.worlds._distances.measure(env.sim.state().base_pose)
        env.sim.set_joint(name, open_now - 0.1, [0])
        env.worlds.set_state(env.worlds.get_state())
        after = env.worlds._distances.measure(env.sim.state().base_pose)
        assert np.array_equal(before.course, after.course)
        env.reset(seed=2)
        assert np.array_equal(before.course, env.worlds.view.course)


@pytest.mark.parametrize("goal", [[9.0, 0.0], [-9.0, 0.5], [0.0, 40.0], [-40.0, -40.0]])
def test_the_way_to_a_point_outside_leads_to_the_edge_before_it(goal):
    point = np.array(goal)
    course = Course(scene(), point, np.full(FAN, np.inf))
    left, *way = course.look(np.zeros(2))
    assert left > 1.0
    assert np.dot(way, point) > 0.9 * np.linalg.norm(way) * np.linalg.norm(point)
    edge = np.clip(point, [-2.6, -2.1], [2.6, 2.1])
    assert course.look(edge)[0] < 0.5


@pytest.mark.parametrize(("skill", "own"), [("pointnav", "goal"), ("flee", "start")])
def test_success_of_driving_is_not_measured_otherwise(skill, own):
    for kind in ("course", ""):
        with pytest.raises(UserError, match=f"would change what success of '{skill}' is; .*'{own}"):
            make_task(skill, options={"needs_geodesic": kind})
    assert make_task(skill, options={"needs_geodesic": own}).needs_geodesic == own
