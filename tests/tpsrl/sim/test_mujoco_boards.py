"""Flat things that come down on their edge stay in a drawer."""

from __future__ import annotations

import dataclasses

import numpy as np

from tests.tpsrl.sim import small
from tpsrl.episodes.types import Episode, RigidObject
from tpsrl.scenes.description import Layout
from tpsrl.scenes.geometry import OrientedBox, receptacle_box
from tpsrl.scenes.kitchen import kitchen_counter
from tpsrl.scenes.objects import object_types
from tpsrl.sim.mujoco.engine import MujocoSimulator

SPONGE = "026_sponge"
OPEN = 0.5


def dropped(bottoms: list[OrientedBox], joints: dict[str, float], rng) -> Episode:
    """A sponge 15 cm above the floor of each drawer, somewhere in it and however turned."""
    sponges = []
    for k, box in enumerate(bottoms):
        aside = rng.uniform(-1.0, 1.0, 2) * (box.half_size[:2] - 0.08)
        pos = box.center + box.rotation @ [*aside, 0.15 - box.half_size[2]]
        quat = rng.normal(size=4)
        sponges.append(RigidObject(SPONGE, f"{k}", pos, quat / np.linalg.norm(quat), "drawer"))
    return Episode("e", "", "a", tuple(sponges), (), joints=joints, start=np.array([-2.0, 0, 0]))


def test_a_sponge_does_not_fall_through_the_floor_of_a_drawer() -> None:
    counter = kitchen_counter()
    layout = Layout("a", "train", {counter.name: (1.0, 0.0, np.pi)})
    apartment = dataclasses.replace(small.apartment(), furniture=(counter,), layouts={"a": layout})
    drawers = [r for r in counter.receptacles if "drawer" in r.name]
    joints = {f"{counter.name}/{r.link}": OPEN for r in drawers}
    boxes = [receptacle_box(apartment, layout, r.name, OPEN) for r in drawers]
    floors = np.array([box.center[2] - box.half_size[2] for box in boxes])
    rng = np.random.default_rng(0)
    through = 0
    with MujocoSimulator(
        apartment=apartment, types={SPONGE: object_types()[SPONGE]}, pool={SPONGE: len(drawers)}
    ) as sim:
        for _ in range(60):
            sim.reset([dropped(boxes, joints, rng)], [0])
            small.run(sim, 30)
            through += int((sim.state().object_pos[0, :, 2] < floors).sum())
    assert through == 0
