"""Whether an episode can be played in an apartment."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import numpy as np

from tpsrl.episodes.types import Episode
from tpsrl.errors import UserError, nearest
from tpsrl.scenes.description import Apartment

CEILING = 3.0
_TOLERANCE = 0.02


def validate(episode: Episode, apartment: Apartment, object_types: Collection[str]) -> None:
    """Check layout, joints, markers, object types and positions of an episode and its start.

    Args:
        episode: what to check.
        apartment: where it is to be played.
        object_types: names of the movable objects that exist.

    Raises:
        UserError: one sentence that names the episode and the field.
    """
    where = f"episode '{episode.episode_id}'"
    if episode.layout not in apartment.layouts:
        raise UserError(
            f"{where}: field 'scene_id' names layout '{episode.layout}', which apartment"
            f" '{apartment.name}' does not have{nearest(episode.layout, apartment.layouts)}"
        )
    _check_joints(episode, apartment, where)
    for o in episode.objects:
        if o.type not in object_types:
            raise UserError(
                f"{where}: field 'rigid_objs' names the unknown object '{o.type}'"
                + nearest(o.type, object_types)
            )
    _check_inside(
        [o.pos for o in episode.objects],
        apartment,
        lambda k: f"{where}: field 'rigid_objs': object '{episode.objects[k].instance}'",
    )
    wanted = [episode.objects[t.object_index].instance for t in episode.targets]
    goals = [t.goal_pos for t in episode.targets]
    _check_inside(goals, apartment, lambda k: f"{where}: field 'targets': goal of '{wanted[k]}'")
    if episode.start is not None:
        start = [np.append(episode.start[:2], 0.0)]
        _check_inside(start, apartment, lambda k: f"{where}: field 'start_position': the robot")


def _check_joints(episode: Episode, apartment: Apartment, where: str) -> None:
    limits = {
        f"{f.name}/{link.name}": (link.joint.lower, link.joint.upper)
        for f in apartment.furniture
        for link in f.links
        if link.joint is not None
    }
    for joint, value in episode.joints.items():
        if joint not in limits:
            raise UserError(
                f"{where}: field 'ao_states' names the unknown joint '{joint}'"
                + nearest(joint, limits)
            )
        low, high = limits[joint]
        if not low - _TOLERANCE <= value <= high + _TOLERANCE:
            raise UserError(
                f"{where}: field 'ao_states' puts joint '{joint}' at {value:g}, outside"
                f" its range {low:g} to {high:g}"
            )
    for name, (joint, offset) in episode.markers.items():
        if np.abs(offset).max() > CEILING:
            raise UserError(f"{where}: field 'markers' puts '{name}' far away from '{joint}'")
        if joint not in limits:
            raise UserError(
                f"{where}: field 'markers' puts '{name}' on the unknown joint '{joint}'"
                + nearest(joint, limits)
            )


def _check_inside(
    positions: Sequence[np.ndarray], apartment: Apartment, name: Callable[[int], str]
) -> None:
    """Refuse the first of (3,) positions outside the apartment; ``name(k)`` says whose it is."""
    if not positions:
        return
    points = np.stack(positions)
    low, high = np.append(apartment.bounds, [[0.0], [CEILING]], axis=1)
    outside = ~((points >= low) & (points <= high)).all(axis=1)
    if outside.any():
        k = int(np.argmax(outside))
        at = ", ".join(f"{v:.2f}" for v in points[k])
        raise UserError(
            f"{name(k)} lies at ({at}), outside apartment '{apartment.name}' (z up, metres);"
            " correct the file"
        )
