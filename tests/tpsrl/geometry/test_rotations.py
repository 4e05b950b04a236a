import numpy as np
import pytest

from tpsrl.geometry import rotations


@pytest.mark.parametrize("seed", range(5))
def test_quaternions_and_matrices_agree(seed: int) -> None:
    quat = np.random.default_rng(seed).normal(size=4)
    quat = quat / np.linalg.norm(quat) * np.sign(quat[0])
    matrix = rotations.quat_to_matrix(quat)
    assert np.allclose(matrix @ matrix.T, np.eye(3))
    assert np.linalg.det(matrix) == pytest.approx(1.0)
    assert np.allclose(rotations.matrix_to_quat(matrix), quat)


def test_half_turns() -> None:
    for axis in np.eye(3):
        quat = rotations.matrix_to_quat(rotations.quat_to_matrix((0.0, *axis)))
        assert np.allclose(np.abs(quat), [0.0, *axis], atol=1e-9)


def test_a_quarter_turn_about_z_brings_x_to_y() -> None:
    matrix = rotations.quat_to_matrix((np.sqrt(0.5), 0.0, 0.0, np.sqrt(0.5)))
    assert np.allclose(matrix @ [1.0, 0.0, 0.0], [0.0, 1.0, 0.0])


@pytest.mark.parametrize("angle", [-7.0, -np.pi, -1.0, 0.0, 3.0, np.pi, 9.0])
def test_wrapped_angles_are_the_same_direction(angle: float) -> None:
    for found in (rotations.wrap(angle), rotations.principal(angle)):
        assert -np.pi <= found <= np.pi
        assert np.allclose([np.cos(found), np.sin(found)], [np.cos(angle), np.sin(angle)])


def test_frames_and_rotations_agree() -> None:
    rng = np.random.default_rng(0)
    for yaw in rng.uniform(-3.0, 3.0, 5):
        planar = rotations.planar_frame((1.0, 2.0, yaw))
        assert np.allclose(planar, rotations.frame((1.0, 2.0, 0.0), rotations.yaw_quat(yaw)))
        point = rng.normal(size=3)
        expected = planar[:3, :3].T @ point
        assert np.allclose(rotations.rotate_inverse(rotations.yaw_quat(yaw), point), expected)
