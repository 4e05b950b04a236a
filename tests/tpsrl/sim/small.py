"""A small apartment made by hand, so that engine tests do not depend on the real scenes."""

from __future__ import annotations

import mujoco
import numpy as np

from tpsrl.episodes.types import Episode, RigidObject, Target
from tpsrl.scenes.description import (
    Apartment,
    Container,
    Furniture,
    Joint,
    Layout,
    Link,
    Marker,
    ObjectType,
    Receptacle,
    Shape,
)
from tpsrl.sim.mujoco import native
from tpsrl.sim.mujoco.engine import MujocoSimulator
from tpsrl.sim.mujoco.steps import begin, finish

UPRIGHT = np.array([1.0, 0.0, 0.0, 0.0])
TABLE_TOP = 0.75


def _table() -> Furniture:
    top = Shape("box", (0.5, 0.4, 0.02), (0, 0, TABLE_TOP - 0.02))
    legs = tuple(
        Shape("box", (0.03, 0.03, 0.35), (sx * 0.45, sy * 0.35, 0.35))
        for sx in (-1, 1)
        for sy in (-1, 1)
    )
    surface = Receptacle("top", "table", (0, 0, TABLE_TOP + 0.1), (0.45, 0.35, 0.1))
    return Furniture("table", "table", (Link("table", (top, *legs)),), (surface,))


def _cabinet() -> Furniture:
    frame = (
        Shape("box", (0.3, 0.3, 0.01), (0, 0, 0.9)),
        Shape("box", (0.3, 0.01, 0.45), (0, 0.3, 0.45)),
        Shape("box", (0.3, 0.01, 0.45), (0, -0.3, 0.45)),
        Shape("box", (0.01, 0.3, 0.45), (-0.3, 0, 0.45)),
    )
    drawer = (
        Shape("box", (0.25, 0.25, 0.005)),
        Shape("box", (0.01, 0.27, 0.1), (0.27, 0, 0.09)),
        Shape("box", (0.01, 0.08, 0.02), (0.30, 0, 0.1), rgba=(0.2, 0.2, 0.2, 1)),
        Shape("box", (0.25, 0.005, 0.08), (0, 0.25, 0.08)),
        Shape("box", (0.25, 0.005, 0.08), (0, -0.25, 0.08)),
        Shape("box", (0.005, 0.25, 0.08), (-0.25, 0, 0.08)),
    )
    door = (
        Shape("box", (0.01, 0.25, 0.2), (0, -0.25, 0)),
        Shape("box", (0.01, 0.02, 0.1), (0.03, -0.45, 0)),
    )
    links = (
        Link("cabinet", frame),
        Link("drawer", drawer, (0, 0, 0.65), joint=Joint("slide", (1, 0, 0), 0.5), mass=2.0),
        Link("door", door, (0.3, 0.27, 0.3), joint=Joint("hinge", (0, 0, 1), 2.0), mass=2.0),
    )
    return Furniture(
        "cabinet",
        "cabinet",
        links,
        (Receptacle("inside", "drawer", (0, 0, 0.08), (0.2, 0.2, 0.075)),),
        (Marker("pull", "drawer", (0.31, 0, 0.1)), Marker("swing", "door", (0.04, -0.45, 0))),
        (
            Container("drawer", True, (0, 0, 0.1), (0.25, 0.25, 0.1)),
            Container("door", False, (0, 0, 0.3), (0.3, 0.3, 0.3)),
        ),
    )


def apartment() -> Apartment:
    """A 6 x 6 m room with a table to the east and a cabinet to the west, facing east."""
    walls = [Shape("box", (3.1, 0.05, 1.2), (0, s * 3.05, 1.2)) for s in (-1, 1)]
    walls += [Shape("box", (0.05, 3.1, 1.2), (s * 3.05, 0, 1.2)) for s in (-1, 1)]
    poses = {"table": (1.2, 0.0, 0.0), "cabinet": (-2.0, 0.0, 0.0)}
    turned = {"table": (1.2, 1.0, 0.5), "cabinet": (-2.0, 1.0, 0.3)}
    return Apartment(
        "small",
        np.array([[-3.0, -3.0], [3.0, 3.0]]),
        tuple(walls),
        (_table(), _cabinet()),
        {"a": Layout("a", "train", poses), "b": Layout("b", "train", turned)},
    )


def types() -> dict[str, ObjectType]:
    """A box, a can, a ball and a bowl."""
    ring = tuple(
        Shape(
            "box",
            (0.005, 0.035, 0.02),
            (0.07 * np.cos(a), 0.07 * np.sin(a), 0.0),
            (np.cos(a / 2), 0, 0, np.sin(a / 2)),
        )
        for a in np.arange(8) * np.pi / 4
    )
    bottom = Shape("cylinder", (0.07, 0.004, 0), (0, 0, -0.018))
    return {
        "box": ObjectType("box", (Shape("box", (0.03, 0.04, 0.06)),), 0.4, (0.03, 0.04, 0.06)),
        "can": ObjectType(
            "can", (Shape("cylinder", (0.035, 0.05, 0)),), 0.35, (0.035, 0.035, 0.05)
        ),
        "ball": ObjectType("ball", (Shape("sphere", (0.037, 0, 0)),), 0.07, (0.037, 0.037, 0.037)),
        "bowl": ObjectType("bowl", (*ring, bottom), 0.15, (0.08, 0.08, 0.022)),
    }


def episode(
    layout: str = "a", start: tuple[float, float, float] | None = (0.0, 0.0, 0.0)
) -> Episode:
    """One of each object on the table of layout a."""
    kinds = types()
    spots = {"box": (0.95, -0.2), "can": (1.1, 0.1), "ball": (1.3, -0.1), "bowl": (1.4, 0.2)}
    objects = tuple(
        RigidObject(
            name,
            f"{name}_:0000",
            np.array([x, y, TABLE_TOP + kinds[name].half_size[2] + 0.001]),
            UPRIGHT,
            "top",
        )
        for name, (x, y) in spots.items()
    )
    target = Target(0, np.array([1.5, -0.2, 0.81]), UPRIGHT, "any_targets|0", "top", "top")
    return Episode(
        "e0", "", layout, objects, (target,), start=None if start is None else np.array(start)
    )


def simulator(num_envs: int = 1, depth: int | None = None) -> MujocoSimulator:
    """The engine on the small apartment."""
    pool = dict.fromkeys(types(), 1)
    return MujocoSimulator(num_envs, depth=depth, pool=pool, apartment=apartment(), types=types())


def run(engine: MujocoSimulator, steps: int, **parts: float) -> None:
    """Repeat one action: arm (all joints), grip, forward, turn."""
    action = np.zeros((engine.num_envs, 10))
    action[:, :7] = parts.get("arm", 0.0)
    action[:, 7] = parts.get("grip", -1.0)
    action[:, 8], action[:, 9] = parts.get("forward", 0.0), parts.get("turn", 0.0)
    for _ in range(steps):
        engine.step(action)


def step_beside_dense(engine: MujocoSimulator, dense: mujoco.MjData, action: np.ndarray) -> None:
    """Carry out (10,) ``action`` in the first world, and in ``dense`` by dense rows alone."""
    world = engine._worlds[0]
    table, near = (tables[0] for tables in engine._tables())
    begin(table, near, action)
    mujoco.mj_copyData(dense, world.model, world.data)
    world.model.opt.jacobian = native.DENSE
    mujoco.mj_step1(world.model, dense)
    mujoco.mj_step2(world.model, dense)
    mujoco.mj_step(world.model, dense, nstep=3)
    world.model.opt.jacobian = native.AUTO
    finish(table, near)
