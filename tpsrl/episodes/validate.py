"""Whether an episode can be played in an apartment."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from tpsrl.episodes.types import Episode
from tpsrl.errors import UserError, nearest
from tpsrl.scenes.description import Apartment

CEILING = 3.0
_TOLERANCE = 0.02


def validate(episode: Episode, apartment: Apartment, object_types: Collection[str]) -> None:
    """Check layout, joints, markers, object types and positions of an episode.

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
        _check_inside(o.pos, apartment, f"{where}: field 'rigid_objs': object '{o.instance}'")
    check_start(episode, apartment)
    for t in episode.targets:
        instance = episode.objects[t.object_index].instance
        _check_inside(t.goal_pos, apartment, f"{where}: field 'targets': goal of '{instance}'")


def check_start(episode: Episode, apartment: Apartment) -> None:
    """Refuse a start of the robot that is not finite or lies outside the apartment.

    Raises:
        UserError: naming episode and field.
    """
    if episode.start is None:
        return
    where = f"episode '{episode.episode_id}': field 'start_position': the robot"
    _check_inside(np.append(episode.start[:2], 0.0), apartment, where)


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


def _check_inside(pos: np.ndarray, apartment: Apartment, what: str) -> None:
    low, high = apartment.bounds
    inside = (pos[:2] >= low).all() and (pos[:2] <= high).all() and 0.0 <= pos[2] <= CEILING
    if not inside:
        at = ", ".join(f"{v:.2f}" for v in pos)
        raise UserError(
            f"{what} lies at ({at}), outside apartment '{apartment.name}' (z up, metres);"
            " correct the file"
        )
