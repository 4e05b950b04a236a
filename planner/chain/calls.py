"""From actions of a plan to skill calls."""

from __future__ import annotations

from dataclasses import dataclass, replace

from planner import Action
from planner.chain.grounding import Grounding
from planner.chain.predicates import SymbolicWorld
from skills.book import call_for
from skills.interface import SkillCall
from skills.row import Entity
from skills.tasks.tolerances import ROBOT_AT


@dataclass(frozen=True)
class TpsrlOptions:
    """How a plan is carried out.

    Attributes:
        skill_steps: steps after which pick, place, open and close time out.
        navigation_steps: the same for navigation.
        reset_arm_steps: the same for the arm reset, whose timeout is no failure. Habitat-baselines
            has 50, in which a joint turns 0.62 rad: after learned skills, which end with the hand
            at rest and the elbow anywhere, a third of the resets stopped halfway.
        arm_rest: reset the arm between actions.
        navigate_after_open_cab: drive to the object again after opening a drawer, as VER does
            because a mobile open skill drifts away from the cabinet (VER, appendix B).
        front_first: drive to a point before a container's front before driving up to the container,
            or to what lies in a fridge or belongs into it.
            A navigation that is told one point ends anywhere around it, also beside the front, and
            learned Open skills have only seen starts before the front. Navigation's goal is then a
            drawer's handle, and in a fridge, whose handle is at its side, still the object, or the
            place where it belongs.
        detour: ``replan``: after a failure drive to another place before coming back to the same
            target, from another side, and turn by chance after a navigation that ran out of time.
            A learned policy acts alike from where it has just failed, and navigation to where it
            stands ends at once.
        final_wait: ``hab``: steps to wait after the last action, before stop is called.
        settle_steps: ``replan``: the same, before the goal is verified.
        rotate_after: ``replan``: failures of a target after which other targets come first.
        max_failures: ``replan``: failures of a target after which it is given up.
        max_plans: ``replan``: plans made in an episode after which the agent stops.
    """

    skill_steps: int = 200
    navigation_steps: int = 300
    reset_arm_steps: int = 250
    arm_rest: bool = True
    navigate_after_open_cab: bool = True
    front_first: bool = False
    detour: bool = False
    final_wait: int = 30
    settle_steps: int = 15
    rotate_after: int = 2
    max_failures: int = 8
    max_plans: int = 100


MOTION_STEPS = 60
"""No motion of recovery takes longer."""


@dataclass(frozen=True)
class Step:
    """One skill run that an executor wants.

    Attributes:
        call: the skill and its arguments.
        text: for reports, e.g. ``"pick(any_targets|0)"``.
        limit: control steps after which it times out.
        index: position in the plan, ``None`` for skills that the executor puts in.
        target: index of the target concerned, ``None`` if none is.
        motion: of :data:`planner.chain.motions.MOTIONS`, instead of ``call``.
        optional: whether it succeeds does not matter.
    """

    call: SkillCall
    text: str
    limit: int
    index: int | None = None
    target: int | None = None
    motion: str = ""
    optional: bool = False


def skill_call(action: Action, grounding: Grounding) -> SkillCall:
    """Return the skill call that carries out an action of the plan.

    Raises:
        UserError: no skill carries it out.
    """
    return call_for(action.label, [_entity(name, grounding) for name in action.args])


def _entity(name: str, grounding: Grounding) -> Entity:
    if name in grounding.roles:
        return Entity(*grounding.roles[name])
    return Entity("handle", joint=grounding.markers[name].joint_name)


def plan_step(action: Action, index: int, grounding: Grounding, options: TpsrlOptions) -> Step:
    """Return the step for action ``index`` of a plan."""
    call = skill_call(action, grounding)
    target = call.target
    if options.front_first and call.place == "receptacle":
        if grounding.markers[action.args[0]].kind == "cab":
            # The handle is the drawer's middle; what lies in it may be anywhere behind.
            call = replace(call, target=None)
        elif _entity(action.args[-1], grounding).role == "goal":
            call = replace(call, place="goal")  # what belongs into the fridge lies elsewhere
    limit = options.navigation_steps if call.skill == "navigate" else options.skill_steps
    return Step(call, str(action), limit, index, target)


def reset_arm_step(options: TpsrlOptions) -> Step:
    """Return the step that brings the arm to its resting posture."""
    return Step(SkillCall("reset_arm"), "reset_arm()", options.reset_arm_steps, optional=True)


def wait_step(steps: int) -> Step:
    """Return the step that waits for a number of control steps."""
    return Step(SkillCall("wait", steps=steps), f"wait({steps})", steps + 1, optional=True)


def front_step(action: Action, world: SymbolicWorld, options: TpsrlOptions) -> Step | None:
    """Return the step that comes before the front of what an action drives to.

    That is a container, or a fridge that an object lies in or belongs into.

    Returns:
        ``None`` before other actions.
    """
    if not options.front_first:
        return None
    call, markers = skill_call(action, world.grounding), world.grounding.markers
    if call.skill != "navigate":
        return None
    marker = action.args[0] if call.place == "receptacle" else world.container(action.args[0])
    if marker is None or (call.place != "receptacle" and markers[marker].kind != "fridge"):
        return None
    call = SkillCall("navigate", place="front", joint=markers[marker].joint_name)
    text = f"nav(front of {marker})"
    return Step(call, text, options.navigation_steps, optional=True)


def detour_step(tried: int, world: SymbolicWorld, options: TpsrlOptions) -> Step | None:
    """Return the step that drives elsewhere, so that the next try comes from another side.

    Objects and goals outside containers and out of reach are visited by turns, the nearest first.

    Args:
        tried: failures of the target so far.
        world: the present.
        options: see :class:`TpsrlOptions`.

    Returns:
        ``None`` where there is no other place.
    """
    held, places = world.held_target(), []
    for entity, (role, target) in world.grounding.roles.items():
        lies = role == "goal" or (role == "object" and target != held)
        if lies and world.distance(entity) > ROBOT_AT and world.container(entity) is None:
            places.append((world.distance(entity), entity))
    if not places:
        return None
    entity = sorted(places)[(tried - 1) % len(places)][1]
    role, target = world.grounding.roles[entity]
    call = SkillCall("navigate", target=target, place="goal" if role == "goal" else "start")
    return Step(call, f"nav({entity}) first", options.navigation_steps, optional=True)


def return_step(target: int, grounding: Grounding, options: TpsrlOptions) -> Step:
    """Return VER's extra navigation to an object (or goal) in a drawer just opened."""
    call = SkillCall("navigate", target=target, place="start")
    return Step(call, f"nav({grounding.label(target)})", options.navigation_steps, target=target)


def motion_step(motion: str) -> Step:
    """Return the step that makes a motion of :data:`planner.chain.motions.MOTIONS`."""
    return Step(SkillCall("wait"), f"{motion}()", MOTION_STEPS, motion=motion, optional=True)
