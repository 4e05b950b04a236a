"""What counts as at rest, arrived, at its goal, open and shut: every threshold, once.

The numbers of success and of the plan's predicates are those of habitat-lab (``replica_cad.yaml``,
``pddl_defined_predicates.py`` and the tasks' own files).
"""

from __future__ import annotations

from tpsrl.generation import rules

AT_REST = 0.15
"""An end effector nearer than this to its resting position is at rest, m."""

ARRIVED, FACING = 1.5, 0.261799
"""Navigate has arrived nearer than this to its goal, m, which it faces within this angle, rad."""
ROBOT_AT = 2.0
"""A robot nearer than this in the plane is at an entity of a plan, and may stop there, m."""

RELEASED_AT = 0.15
"""Place may let go of an object nearer than this to its goal, m."""
OBJECT_AT = 0.3
"""An object nearer than this to its goal is at it in a plan, m."""

OPEN_DRAWER, OPEN_FRIDGE = 0.45, 1.2207963
"""Where Open brings the joint, m and rad."""
JOINT_AT = 0.05
"""Open and Close succeed this near to where they bring the joint, m or rad."""
OPENED = {"cab": rules.OPENED["slide"], "fridge": rules.OPENED["hinge"]}
"""A container of a plan is open beyond this joint position, m (drawer) or rad (fridge)."""
CLOSED = 0.15
"""A container of a plan is closed below this absolute joint position, m or rad."""
SURELY_OPEN, SURELY_CLOSED = {"drawer": 0.405, "door": 1.18}, 0.045
"""A program ends beyond, or below, this joint position, just within success, m or rad."""
TO_BE_OPENED = {"drawer": 0.15, "door": 0.35}
"""Who drives up to a container that is less open than this comes to open it, m or rad."""
STANDS_OUT = 0.08
"""A joint beyond this sticks out far enough to be in the base's way, m or rad."""
WIDE_OPEN = {"drawer": 0.5, "door": 1.5}
"""Containers that hold what Pick or Place is about stand this far open at the start, m and rad."""
