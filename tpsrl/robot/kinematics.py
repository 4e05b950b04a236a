"""Kinematics of Fetch's arm in the base frame: forward, a step to a pose, a planar closed form.

The arm's geometry is read from the same model that the physics uses. Position and approach
direction of the suction cup are aimed at; its roll about the approach direction is free.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import mujoco
import numpy as np

from tpsrl.geometry.rotations import wrap
from tpsrl.robot import fetch
from tpsrl.robot.mjcf import add_fetch

_DAMPING = 1e-3
_FINITE_LOWER = np.where(np.isfinite(fetch.ARM_LOWER), fetch.ARM_LOWER, -2 * np.pi)
_FINITE_UPPER = np.where(np.isfinite(fetch.ARM_UPPER), fetch.ARM_UPPER, 2 * np.pi)


@dataclass(frozen=True)
class TipPose:
    """Where the suction cup is, in the base frame.

    Attributes:
        pos: (3,) float64, m.
        rotation: (3, 3) float64, columns are the cup's axes; the first points out of the cup.
    """

    pos: np.ndarray
    rotation: np.ndarray

    @property
    def approach(self) -> np.ndarray:
        """(3,) direction out of the cup."""
        return self.rotation[:, 0]


class ArmKinematics:
    """Kinematics of the arm, torso and head held as the benchmark does.

    Deterministic. Not thread-safe: it works in one ``MjData``.
    """

    def __init__(self) -> None:
        self.model = _arm_model()
        self.data = mujoco.MjData(self.model)
        self._site = self.model.site("ee").id
        address = [self.model.joint(name).qposadr[0] for name in fetch.ARM_JOINTS]
        if address != list(range(fetch.ARM_DOF)):
            raise ValueError(f"The arm model's joints are not in the expected order: {address}.")
        names = ("shoulder_lift_joint", "elbow_flex_joint", "wrist_flex_joint")
        self._joints = [self.model.joint(name).id for name in names]
        self._jacobian = np.zeros((3, self.model.nv)), np.zeros((3, self.model.nv))
        self._planar = self._measure_planar()

    def forward(self, qpos: np.ndarray) -> TipPose:
        """Return the cup's pose in the base frame for (7,) joint positions."""
        self._place(qpos)
        rotation = self.data.site_xmat[self._site].reshape(3, 3).copy()
        return TipPose(self.data.site_xpos[self._site].copy(), rotation)

    def points(self, qpos: np.ndarray) -> np.ndarray:
        """Return shoulder, elbow, wrist and cup, (4, 3) in the base frame, m."""
        self._place(qpos)
        return np.concatenate(
            [self.data.xanchor[self._joints], self.data.site_xpos[self._site][None]]
        )

    def jacobian(self, qpos: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the cup's (3, 7) linear and (3, 7) angular Jacobian in the base frame."""
        self._place(qpos)
        mujoco.mj_comPos(self.model, self.data)
        linear, angular = self._jacobian
        mujoco.mj_jacSite(self.model, self.data, linear, angular, self._site)
        return linear.copy(), angular.copy()

    def step(
        self,
        qpos: np.ndarray,
        position: np.ndarray,
        approach: np.ndarray | None = None,
        max_delta: float = fetch.ARM_DELTA,
    ) -> np.ndarray:
        """Take one damped least-squares step towards a cup position (and approach direction).

        Args:
            qpos: (7,) present joint positions (or motor targets), rad.
            position: (3,) wanted cup position in the base frame, m.
            approach: (3,) wanted unit approach direction, ``None`` if any will do.
            max_delta: largest change of a joint, rad.

        Returns:
            (7,) joint positions within the limits; the whole step is shortened to ``max_delta``.
        """
        linear, angular = self.jacobian(qpos)
        tip = self.forward(qpos)
        rows, error = [linear], [position - tip.pos]
        if approach is not None:
            rows.append(0.3 * angular)
            error.append(0.3 * np.cross(tip.approach, approach))
        jac, err = np.concatenate(rows), np.concatenate(error)
        delta = jac.T @ np.linalg.solve(jac @ jac.T + _DAMPING * np.eye(len(jac)), err)
        delta *= min(1.0, max_delta / max(float(np.abs(delta).max()), 1e-12))
        return np.clip(qpos + delta, _FINITE_LOWER, _FINITE_UPPER)

    def planar(self, pan: float, radius: float, height: float, pitch: float) -> np.ndarray | None:
        """Closed form for postures without roll: the arm lies in a vertical plane.

        Args:
            pan: shoulder pan, rad.
            radius: horizontal distance of the cup from the pan axis, m.
            height: of the cup above the floor, m.
            pitch: of the approach direction below the horizon, rad (pi/2 points down).

        Returns:
            (7,) joint positions, elbow up, or ``None`` if out of reach or limits.
        """
        shoulder_x, shoulder_z, upper, fore, wrist = self._planar
        x = radius - wrist * np.cos(pitch) - shoulder_x
        z = height + wrist * np.sin(pitch) - shoulder_z
        reach2 = x * x + z * z
        cosine = (reach2 - upper**2 - fore**2) / (2 * upper * fore)
        if abs(cosine) > 1.0:
            return None
        elbow = float(np.arccos(cosine))
        lift = -np.arctan2(z, x) - np.arctan2(fore * np.sin(elbow), upper + fore * cosine)
        flex = wrap(pitch - lift - elbow)
        qpos = np.array([pan, lift, 0.0, elbow, 0.0, flex, 0.0])
        inside = np.all((qpos >= fetch.ARM_LOWER) & (qpos <= fetch.ARM_UPPER))
        return qpos if inside else None

    @property
    def pan_axis(self) -> np.ndarray:
        """(2,) where the shoulder pan axis crosses the base frame's floor, m."""
        return self._pan_axis.copy()

    def _place(self, qpos: np.ndarray) -> None:
        self.data.qpos[:] = qpos
        mujoco.mj_kinematics(self.model, self.data)

    def _measure_planar(self) -> tuple[float, float, float, float, float]:
        """Read the planar arm's link lengths from the model, arm stretched forward."""
        self._place(np.zeros(fetch.ARM_DOF))
        anchors = {name: self.data.joint(name).xanchor.copy() for name in fetch.ARM_JOINTS}
        tip = self.data.site_xpos[self._site]
        pan, lift = anchors["shoulder_pan_joint"], anchors["shoulder_lift_joint"]
        elbow, wrist = anchors["elbow_flex_joint"], anchors["wrist_flex_joint"]
        self._pan_axis = pan[:2].copy()
        return (
            float(lift[0] - pan[0]),
            float(lift[2]),
            float(elbow[0] - lift[0]),
            float(wrist[0] - elbow[0]),
            float(tip[0] - wrist[0]),
        )


@lru_cache(maxsize=1)
def arm_kinematics() -> ArmKinematics:
    """Return this process's arm kinematics, made on first use."""
    return ArmKinematics()


def _arm_model() -> mujoco.MjModel:
    """Compile the robot alone, without shapes: joints and frames are all that is needed."""
    spec = mujoco.MjSpec()
    add_fetch(spec)
    for geom in list(spec.geoms):
        spec.delete(geom)
    for mesh in list(spec.meshes):
        spec.delete(mesh)
    return spec.compile()
