"""Loads habitat-lab, checks that its parts fit, and configures its rearrangement simulator.

Needs Python 3.9, NumPy and habitat-lab.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from typing import Any

OLDEST = (0, 2, 5)
"""The first release with the interfaces that are used here (articulated agents)."""
CONFIG = "benchmark/rearrange/skills/pick.yaml"
"""habitat-lab's own configuration that ours begins with: Fetch, suction, one depth camera."""
EDGE = 1e-3
"""The base stops this far before an edge of the navigation mesh, along its way, m."""
CONDA = (
    "conda create -n habitat python=3.9 cmake=3.14.0 && conda activate habitat && conda install"
    " habitat-sim withbullet headless -c conda-forge -c aihabitat && pip install habitat-lab"
)


class Refusal(Exception):  # noqa: N818 - a sentence for the user, not a fault
    """Something that the user has to put right; the message is one sentence."""


def load() -> dict[str, Any]:
    """Import habitat-lab and return the parts of it that are used, by name.

    Raises:
        Refusal: it is not installed, or its version does not fit.
    """
    import sys

    where = sys.executable
    for name in ("HABITAT_SIM_LOG", "MAGNUM_LOG"):
        os.environ.setdefault(name, "quiet")
    try:
        import habitat_sim
    except ImportError as error:
        raise Refusal(
            f"{where} has no habitat-sim ({error}); install Habitat with '{CONDA}' and give"
            " habitat.python=PATH of that environment"
        ) from None
    if not habitat_sim.built_with_bullet:
        raise Refusal(
            f"habitat-sim {habitat_sim.__version__} of {where} was built without physics; install"
            " it with 'withbullet'"
        )
    try:
        import habitat
        import habitat.tasks.rearrange
    except ImportError as error:
        raise Refusal(f"{where} has no working habitat-lab ({error}); 'pip install habitat-lab'"
                      f"=={habitat_sim.__version__}") from None  # fmt: skip
    check_versions(habitat.__version__, habitat_sim.__version__, where)
    return parts(habitat, habitat_sim)


def check_versions(lab: str, sim: str, where: str) -> None:
    """Compare versions.

    Raises:
        Refusal: one is too old, or they do not belong together.
    """
    numbers = {"habitat-lab": _numbers(lab), "habitat-sim": _numbers(sim)}
    for name, version in numbers.items():
        if version < OLDEST:
            wanted = ".".join(map(str, OLDEST))
            raise Refusal(
                f"{name} {'.'.join(map(str, version))} of {where} is too old; {wanted} or newer is"
                " needed"
            )
    if numbers["habitat-lab"][:2] != numbers["habitat-sim"][:2]:
        raise Refusal(
            f"habitat-lab {lab} and habitat-sim {sim} of {where} do not belong together; install"
            f" habitat-lab=={sim}"
        )


def parts(habitat: Any, habitat_sim: Any) -> dict[str, Any]:
    """Return classes and functions of habitat-lab by short names."""
    import magnum
    from habitat.config import read_write
    from habitat.config.default import get_config
    from habitat.datasets.rearrange.rearrange_dataset import RearrangeEpisode
    from habitat.tasks.rearrange.actions.actions import ArmRelPosAction, BaseVelAction
    from habitat.tasks.rearrange.actions.grip_actions import SuctionGraspAction
    from habitat.tasks.rearrange.rearrange_sim import RearrangeSim
    from omegaconf import OmegaConf

    class Sim(RearrangeSim):  # type: ignore[misc]
        """Loads colours although no camera of the robot sees them: pictures are asked for later."""

        @staticmethod
        def _sanitize_config(config: Any) -> None:
            RearrangeSim._sanitize_config(config)
            config.sim_cfg.requires_textures = True

        def step_filter(self, start_pos: Any, end_pos: Any) -> Any:
            """Return where a straight step of the base ends on the navigation mesh."""
            return stop_before_edge(self.pathfinder, start_pos, end_pos)

    return {
        "magnum": magnum, "habitat_sim": habitat_sim, "read_write": read_write,
        "get_config": get_config, "Episode": RearrangeEpisode, "Sim": Sim,
        "Arm": ArmRelPosAction, "Base": BaseVelAction, "Grip": SuctionGraspAction,
        "OmegaConf": OmegaConf,
        "versions": {"habitat-lab": habitat.__version__, "habitat-sim": habitat_sim.__version__},
    }  # fmt: skip


def stop_before_edge(finder: Any, start: Any, end: Any) -> Any:
    """Return where a straight step on the navigation mesh ends: just before its edge, if there.

    Habitat ends a blocked step on the edge itself, and a step that begins on an edge meets that
    edge at once, so that it leads nowhere, whatever its direction: the robot would stay for good.

    Args:
        finder: Habitat's ``PathFinder``.
        start: magnum's ``Vector3`` in Habitat's frame, m.
        end: where the step would lead, likewise.
    """
    way = end - start
    way.y = 0.0
    length = way.length()
    if length < EDGE:
        return finder.try_step_no_sliding(start, end)
    ahead = way * (EDGE / length)
    origin = start
    reached = finder.try_step_no_sliding(start, end)
    if (
        _apart(reached, start) < EDGE / 10
        and _apart(finder.snap_point(start + ahead), start + ahead) < EDGE / 10
    ):
        origin = start + ahead
        reached = finder.try_step_no_sliding(origin, end)
    if _apart(reached, end) < EDGE / 10:
        return reached
    if _apart(reached, origin) <= EDGE:
        return start
    return finder.try_step_no_sliding(origin, reached - ahead)


def _apart(a: Any, b: Any) -> float:
    """Return the horizontal distance, m; nan where there is no point."""
    return float(((a.x - b.x) ** 2 + (a.z - b.z) ** 2) ** 0.5)


def check_files(options: Mapping[str, Any]) -> None:
    """See that all files are there which Habitat would look for in the course of time.

    Raises:
        Refusal: the first that is missing, with its download command.
    """
    for key, uid in (("dataset", "replica_cad_dataset"), ("robot", "hab_fetch"), ("physics", "")):
        path = options[key]
        if not os.path.isfile(path):
            command = f"python -m habitat_sim.utils.datasets_download --uids {uid} --data-path data"
            hint = f"; download it with '{command}'" if uid else ""
            raise Refusal(f"Habitat needs {path}, which is not there{hint}")
    for folder in options["objects"]:
        if not os.path.isdir(folder):
            command = "python -m habitat_sim.utils.datasets_download --uids ycb --data-path data"
            raise Refusal(f"Habitat needs {folder}, which is not there; download it: '{command}'")


def configure(lab: Mapping[str, Any], options: Mapping[str, Any]) -> Any:
    """Return the configuration of the simulator.

    Args:
        lab: see :func:`load`.
        options: ``dataset``, ``objects``, ``robot``, ``physics``: paths; ``depth``: pixels or
            ``None``; ``gpu``: number, -1 for software.
    """
    config = lab["get_config"](CONFIG)
    simulator = config.habitat.simulator
    with lab["read_write"](config):
        simulator.scene_dataset = options["dataset"]
        simulator.additional_object_paths = list(options["objects"])
        simulator.debug_render_goal = False
        simulator.habitat_sim_v0.gpu_device_id = int(options["gpu"])
        simulator.habitat_sim_v0.physics_config_file = options["physics"]
        simulator.habitat_sim_v0.allow_sliding = False
        agent = simulator.agents.main_agent
        agent.articulated_agent_urdf = options["robot"]
        # The noise is drawn on our side of the door, from the episode's seed.
        agent.joint_start_noise = 0.0
        agent.ik_arm_urdf = None
        sensor = agent.sim_sensors.head_depth_sensor
        sensor.width = sensor.height = int(options["depth"] or 8)
    return simulator


def start(lab: Mapping[str, Any], config: Any) -> Any:
    """Return habitat-lab's simulator.

    Without a GPU it gets no light from pictures of surroundings: to prepare that takes a CPU a
    quarter of a minute. Habitat looks for such settings in the working directory alone.
    """
    if config.habitat_sim_v0.gpu_device_id >= 0:
        return lab["Sim"](config=config)
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(os.path.join(folder, "data"))
        with open(os.path.join(folder, "data", "default.pbr_config.json"), "w") as file:
            # A name that no picture has: an empty one would stand for Habitat's own picture.
            none = {"ibl_blut_filename": "none", "ibl_envmap_filename": "none"}
            json.dump({"enable_ibl": False, "enable_direct_lights": True, **none}, file)
        os.chdir(folder)
        try:
            return lab["Sim"](config=config)
        finally:
            os.chdir(before)


def actions(lab: Mapping[str, Any], sim: Any) -> dict[str, Any]:
    """Return habitat-lab's own actions for arm, suction cup and base."""
    create = lab["OmegaConf"].create
    arm = create({"delta_pos_limit": 0.0125, "arm_joint_dimensionality": 7, "should_clip": False})
    base = create({"lin_speed": 10.0, "ang_speed": 10.0, "allow_dyn_slide": True,
                   "allow_back": True})  # fmt: skip
    return {
        "arm": lab["Arm"](config=arm, sim=sim, name="arm_action"),
        "grip": lab["Grip"](
            config=create({"grasp_thresh_dist": 0.15}), sim=sim, name="grip_action"
        ),
        "base": lab["Base"](config=base, sim=sim, name="base_velocity"),
    }


def _numbers(version: str) -> tuple[int, ...]:
    """Return the three numbers of ``"0.3.320260507"`` (nightly builds append the date)."""
    out = []
    for part in version.split(".")[:3]:
        digits = "".join(c for c in part if c.isdigit())
        out.append(int(digits[:1]) if len(digits) > 4 else int(digits or 0))
    return tuple(out)
