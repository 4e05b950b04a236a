"""Goals that a person sends: objects of the episode to places of the apartment."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from eval.words import plain_name
from tpsrl.episodes.types import Target
from tpsrl.errors import UserError
from tpsrl.generation.placement import Placer
from tpsrl.generation.prisms import Solids
from tpsrl.generation.room import Pose, Room
from tpsrl.geometry.rotations import yaw_quat
from tpsrl.scenes.description import Apartment, ObjectType
from tpsrl.sim.door import Simulator


class Places:
    """Where objects can be sent in one layout.

    Args:
        sim: whose episode it is.
        apartment: all furniture.
        types: object types.
    """

    def __init__(self, sim: Simulator, apartment: Apartment, types: dict[str, ObjectType]) -> None:
        self._sim, self._room = sim, Room(apartment, sim.scene(0))
        self._placer = Placer(self._room, types)

    def targets(self, wanted: Sequence[tuple[int, str]]) -> list[Target]:
        """Return targets with free goal positions.

        Args:
            wanted: index of the object, name of the place.

        Raises:
            UserError: an object is asked for twice, or there is no room for it.
        """
        episode, state = self._sim.episode(0), self._sim.state()
        moved = [index for index, _ in wanted]
        if len(set(moved)) < len(moved):
            raise UserError("an object can go to one place only; clear the goal and choose again")
        others = Solids()
        for index, item in enumerate(episode.objects):
            if index not in moved:
                pose = Pose(state.object_pos[0, index], state.object_quat[0, index])
                others.add(self._placer.outline(item.type, pose, item.type))
        rng, found = np.random.default_rng(0), []
        for index, place in wanted:
            item = episode.objects[index]
            spot = self._placer.sample(rng, item.type, place, others)
            if spot is None:
                raise UserError(
                    f"there is no room for the {plain_name(item.type)} on {plain_name(place)};"
                    " choose another place"
                )
            others.add(spot.prism)
            label = f"{plain_name(item.type).replace(' ', '_')}|{index}"
            found.append(Target(index, spot.pose.pos, yaw_quat(0.0), label, item.receptacle, place))
        return found
