"""Results of Habitat are run again with the interpreter that the command line names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from eval.again import Chain, Single, read_evaluation
from tpsrl.cli import main
from tpsrl.habitat.scenes import HabitatConfig

HABITAT = HabitatConfig(python=Path("/opt/habitat/bin/python"))
MACHINE = {"python": "/opt/habitat/bin/python", "robot": None, "gpu": 3}


def test_a_chain_and_a_skill(tmp_path: Path) -> None:
    common = {"agent": "scripted", "seed": 0}
    chain = {**common, "scenario": "rearrange_easy", "executor": "hab", "engine": "habitat"}
    skill = {**common, "skill": "pick", "sim": "habitat", "weights_sha256": None}
    for name, config in (("chain", {**chain, "max_steps": 5, "policies": None}), ("skill", skill)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(json.dumps(config))
        record = {"index": 0, "success": False, "fingerprint": "", "end": "failed"}
        (tmp_path / name / "episodes.jsonl").write_text(json.dumps(record) + "\n")
    found = read_evaluation(tmp_path / "chain", habitat=HABITAT, gpu=3)
    assert isinstance(found, Chain) and found.spec.simulator.kwargs["habitat"] == MACHINE
    single = read_evaluation(tmp_path / "skill", habitat=HABITAT, gpu=3)
    assert isinstance(single, Single) and single.study.env_args["gpu"] == 3
    assert single.study.env_args["habitat"]["python"] == MACHINE["python"]


@pytest.mark.parametrize("mode", ["failures", "compare"])
def test_the_machine_may_be_named_beside_results(mode: str, tmp_path: Path, capsys) -> None:
    keys = ["habitat.python=/opt/habitat/bin/python", "gpu=0"]
    absent = str(tmp_path / "absent")
    folders = f"{absent},{absent}" if mode == "compare" else absent
    assert main(["record", f"{mode}={folders}", *keys]) == 2
    assert "absent" in capsys.readouterr().err
    assert main(["record", f"{mode}={folders}", *keys, "seed=1"]) == 2
    assert "leave out seed\n" in capsys.readouterr().err
