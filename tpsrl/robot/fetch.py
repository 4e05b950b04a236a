"""Constants of the Fetch robot as the Home Assistant Benchmark uses it.

Frames: z up, x forward, y left; the base frame lies on the floor at the robot's centre.
Units: metres, radians, seconds.
"""

from __future__ import annotations

import numpy as np

ARM_JOINTS = (
    "shoulder_pan_joint",
    "shoulder_lift_joint",
    "upperarm_roll_joint",
    "elbow_flex_joint",
    "forearm_roll_joint",
    "wrist_flex_joint",
    "wrist_roll_joint",
)
ARM_DOF = 7

ARM_INIT = np.array([-0.45, -1.08, 0.1, 0.935, -0.001, 1.573, 0.005])
"""Arm joint positions at reset, before noise (habitat-lab ``FetchRobot.arm_init_params``)."""

ARM_INIT_NOISE = 0.1
"""Standard deviation of the Gaussian noise added to each arm joint at every reset, rad."""

ARM_LOWER = np.array([-1.6056, -1.221, -np.inf, -2.251, -np.inf, -2.16, -np.inf])
ARM_UPPER = np.array([1.6056, 1.518, np.inf, 2.251, np.inf, 2.16, np.inf])

RESTING_POSITION = np.array([0.5, 0.0, 1.0])
"""Where the end effector rests, in the base frame (``desired_resting_position``)."""

RESET_ARM_TARGET = np.array([-0.45, -1.08, 0.0995, 0.938, -0.00079, 1.57, 0.0046])
"""Target of TP-SRL's ``reset_arm`` skill."""

TORSO_HEIGHT = 0.15
BASE_RADIUS = 0.3
"""Radius of the disc that must stay in free space, as habitat-lab's navigation mesh has it."""

REACH, FARTHEST_REACH = 0.9, 1.6
"""The robot reaches from so near, and if it cannot come so near, from at most so far, m."""

NAVIGATION_HEIGHT = 1.5
"""Geometry above this height does not block the base."""

ARM_DELTA = 0.0125
"""Arm target change at action 1, rad a control step (0.375 rad/s at 30 Hz)."""

BASE_DELTA_LINEAR = 10.0 / 120.0
"""Base translation at action 1, m a control step."""

BASE_DELTA_ANGULAR = 10.0 / 120.0
"""Base rotation at action 1, rad a control step."""

HOLD_THRESHOLD = 0.15
"""A held thing farther than this from the end effector violates the hold, m."""

HEAD_CAMERA_POSITION = np.array([0.25, 0.0, 1.2])
HEAD_CAMERA_TARGET = np.array([0.75, 0.0, 1.0])
HEAD_CAMERA_HFOV = np.pi / 2
DEPTH_RANGE = (0.0, 10.0)

CONTROL_HZ = 30
PHYSICS_HZ = 120
