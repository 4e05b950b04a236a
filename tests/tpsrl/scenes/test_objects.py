import mujoco
import numpy as np
import pytest

from tpsrl.generation.rules import load_scenario
from tpsrl.scenes.geometry import shape_points
from tpsrl.scenes.objects import object_types


def test_all_of_habs_objects_are_there() -> None:
    named = {
        name: {
            kind for sampler in load_scenario(name).samplers.values() for kind in sampler.objects
        }
        for name in ("rearrange_easy", "tidy_house")
    }
    assert len(named["rearrange_easy"]) == 20 and len(named["tidy_house"]) == 9
    assert set(object_types()) >= named["rearrange_easy"] > named["tidy_house"]


@pytest.mark.parametrize("name", object_types())
def test_half_size_is_that_of_the_shapes(name: str) -> None:
    kind = object_types()[name]
    points = np.concatenate([shape_points(s) for s in kind.shapes])
    assert np.allclose(points.max(axis=0), kind.half_size, atol=1e-4)
    assert np.allclose(points.min(axis=0), -np.array(kind.half_size), atol=1e-4)


def test_published_sizes_and_masses() -> None:
    kinds = object_types()
    assert kinds["003_cracker_box"].mass == pytest.approx(0.411)
    assert sorted(2 * np.array(kinds["004_sugar_box"].half_size)) == pytest.approx(
        [0.038, 0.089, 0.175]
    )
    assert 2 * np.array(kinds["024_bowl"].half_size) == pytest.approx([0.159, 0.159, 0.053])
    assert kinds["021_bleach_cleanser"].mass == pytest.approx(1.131)


@pytest.mark.parametrize("name", object_types())
def test_few_colliding_shapes(name: str) -> None:
    shapes = [s for s in object_types()[name].shapes if s.collide]
    limit = {"024_bowl": 9, "025_mug": 10, "011_banana": 4}.get(name, 2)
    assert len(shapes) <= limit


@pytest.mark.parametrize("name", ["024_bowl", "025_mug"])
def test_a_vessel_is_hollow(name: str) -> None:
    kind = object_types()[name]
    solids = [s for s in kind.shapes if s.collide]
    center = np.mean([s.pos for s in solids if s.kind == "cylinder"], axis=0)
    probe = np.array([center[0], center[1], 0.0])
    for shape in solids:
        points = shape_points(shape)
        inside = np.all(probe > points.min(axis=0)) and np.all(probe < points.max(axis=0))
        assert not inside


@pytest.mark.parametrize("name", object_types())
def test_meshes_are_closed_and_face_outwards(name: str) -> None:
    for shape in object_types()[name].shapes:
        if shape.vertices is None or shape.faces is None:
            continue
        edges = np.concatenate([shape.faces[:, [a, b]] for a, b in ((0, 1), (1, 2), (2, 0))])
        directed = {(int(a), int(b)) for a, b in edges}
        assert len(directed) == len(edges)
        assert all((b, a) in directed for a, b in directed)
        a, b, c = (shape.vertices[shape.faces[:, k]] for k in range(3))
        assert np.einsum("ij,ij->i", a, np.cross(b, c)).sum() > 0
        assert len(shape.faces) < 200


KINDS = {
    "box": mujoco.mjtGeom.mjGEOM_BOX,
    "cylinder": mujoco.mjtGeom.mjGEOM_CYLINDER,
    "sphere": mujoco.mjtGeom.mjGEOM_SPHERE,
    "mesh": mujoco.mjtGeom.mjGEOM_MESH,
}


@pytest.mark.parametrize("name", object_types())
def test_an_object_stays_as_it_is_put(name: str) -> None:
    kind = object_types()[name]
    spec = mujoco.MjSpec()
    spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_PLANE, size=[1, 1, 0.1])
    body = spec.worldbody.add_body(pos=[0, 0, kind.half_size[2] + 0.002])
    body.add_freejoint()
    solids = [s for s in kind.shapes if s.collide]
    for k, shape in enumerate(solids):
        options = {"pos": shape.pos, "quat": shape.quat, "mass": kind.mass / len(solids)}
        if shape.kind == "mesh":
            assert shape.vertices is not None and shape.faces is not None
            mesh = spec.add_mesh(name=f"m{k}")
            mesh.uservert, mesh.userface = shape.vertices.ravel(), shape.faces.ravel()
            options["meshname"] = mesh.name
        body.add_geom(type=KINDS[shape.kind], size=shape.size, **options)
    model = spec.compile()
    data = mujoco.MjData(model)
    mujoco.mj_step(model, data, nstep=int(2.0 / model.opt.timestep))
    assert data.qpos[:2] == pytest.approx([0.0, 0.0], abs=0.005)
    assert data.qpos[2] == pytest.approx(kind.half_size[2], abs=0.003)
    assert abs(data.qpos[3]) > np.cos(np.radians(4) / 2)
