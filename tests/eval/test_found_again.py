"""What was measured is found from any folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from eval.again import skill_keys
from eval.skills import SkillEvalConfig, study_of
from tests.eval.test_as_trained import trained


def test_weights_that_were_named_from_where_they_lie(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained(tmp_path, "open_cab", "OpenCabinet")
    monkeypatch.chdir(tmp_path)
    ran = study_of(SkillEvalConfig(skill="open_cab", weights=Path("policy.safetensors"))).config
    whole = study_of(SkillEvalConfig(skill="open_cab", weights=tmp_path / "policy.safetensors"))
    assert whole.config == ran
    monkeypatch.chdir("/")
    again = study_of(skill_keys(ran))
    assert again.config == ran and again.config["weights_sha256"]
