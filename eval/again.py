"""What a result folder was made of, to run its episodes once more: for videos of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from eval.episode import NOT_PLAYED
from eval.skills import SkillEvalConfig, study_of
from eval.spec import EvaluationSpec, evaluation_spec
from eval.trials import SkillStudy
from planner.words.options import PlannerConfig
from tpsrl.episodes.types import Episode
from tpsrl.errors import UserError
from tpsrl.habitat.scenes import HabitatConfig, choose_scenes, habitat_options
from tpsrl.jobs.folder import read_folder
from tpsrl.provide import load_scenario_episodes
from ver_trainer.options import load

DEPTH = 128
"""Pixels of the head depth picture in videos of agents that need none."""


@dataclasses.dataclass(frozen=True)
class Chain:
    """An evaluation of an agent over episodes.

    Attributes:
        spec: as it ran, with a depth picture.
        episodes: of its set, as many as were run.
        records: index -> line of ``episodes.jsonl``.
    """

    spec: EvaluationSpec
    episodes: tuple[Episode, ...]
    records: Mapping[int, dict[str, Any]]

    def episode(self, index: int, folder: Path) -> Episode:
        """Return an episode of the folder.

        Raises:
            UserError: it was not run, or the episodes are not those that were.
        """
        if index not in self.records:
            raise UserError(f"{folder} has no episode {index}; it has {len(self.records)}.")
        episode = self.episodes[index]
        if self.spec.job(index, episode).fingerprint != self.records[index]["fingerprint"]:
            raise UserError(
                f"{folder}: episode {index} is not the one that was run, the episodes have changed;"
                " run 'tpsrl eval' with another out="
            )
        return episode


@dataclasses.dataclass(frozen=True)
class Single:
    """An evaluation of one skill.

    Attributes:
        study: as it ran, with a depth picture.
        records: index -> line of ``episodes.jsonl``.
    """

    study: SkillStudy
    records: Mapping[int, dict[str, Any]]


def read_evaluation(
    folder: Path,
    planner: PlannerConfig | None = None,
    habitat: HabitatConfig | None = None,
    gpu: int = -1,
) -> Chain | Single:
    """Return what a result folder was made of.

    Args:
        folder: of it.
        planner: who proposes goals in words; ``None`` for who did.
        habitat: for results of Habitat what they do not keep: its interpreter and the robot.
        gpu: likewise.

    Raises:
        UserError: it holds no evaluation, or its weights or episodes are not there any more.
    """
    config, records = read_folder(folder)
    if not records:
        raise UserError(f"{folder} holds no finished episode yet")
    try:
        machine = habitat or HabitatConfig()
        if "skill" in config:
            keys = dataclasses.replace(skill_keys(config), gpu=gpu, habitat=machine)
            return _single(config, records, keys)
        return _chain(config, records, planner, habitat_options(machine, gpu))
    except KeyError as error:
        raise UserError(f"{folder}: its config.json has no {error}; give another folder") from None


def failed(records: Mapping[int, Mapping[str, Any]]) -> list[int]:
    """Return the indices of the episodes that came to an end without success."""
    return [
        index
        for index, record in sorted(records.items())
        if not record["success"] and (record.get("end") or record.get("cause")) not in NOT_PLAYED
    ]


def _chain(
    config: Mapping[str, Any],
    records: Mapping[int, dict[str, Any]],
    planner: PlannerConfig | None,
    habitat: Mapping[str, Any],
) -> Chain:
    scenario = config.get("scenario_file") or config["scenario"]
    data = Path(config["data"]) if config.get("data") else None
    path = Path(config["scenes"]) if config.get("scenes") else None
    split = config.get("split") or "val"
    scenes = choose_scenes(path, data, scenario, split, None)
    count = max(records) + 1
    weights = Path(config["weights"]) if config.get("weights") else None
    spec = evaluation_spec(
        scenario=scenario,
        agent=config["agent"],
        executor=config["executor"] or "hab",
        engine=config["engine"],
        max_steps=config["max_steps"],
        seed=config["seed"],
        depth=DEPTH,
        weights=weights,
        scenes=scenes,
        habitat=habitat,
        goal=config.get("goal"),
        planner=planner or proposer_of(config),
    )
    if spec.config.get("policies") != config.get("policies"):
        raise UserError(
            f"weights={weights or 'those shipped'} are not those of the results any more; give a"
            " folder of newer results."
        )
    episodes = load_scenario_episodes(
        scenario, split, data, None if data else count, scenes=scenes, least=count
    )
    return Chain(spec, episodes, records)


def proposer_of(config: Mapping[str, Any]) -> PlannerConfig | None:
    """Return who proposed goals in a result folder's config, ``None`` if nobody did."""
    if not config.get("llm"):
        return None
    return PlannerConfig(llm=config["llm"], model=config.get("llm_model", "default"))


def skill_keys(config: Mapping[str, Any]) -> SkillEvalConfig:
    """Return the keys of ``tpsrl eval skill=...`` that a result folder's config was made with."""
    known = {field.name for field in dataclasses.fields(SkillEvalConfig)}
    values = {key: value for key, value in config.items() if key in known and value is not None}
    return load(SkillEvalConfig, values=values)


def _single(
    config: Mapping[str, Any], records: Mapping[int, dict[str, Any]], keys: SkillEvalConfig
) -> Single:
    study = study_of(keys)
    if study.config.get("weights_sha256") != config.get("weights_sha256"):
        raise UserError(
            f"weights={config.get('weights') or 'those shipped'} are not those of the results any"
            " more; give a folder of newer results."
        )
    return Single(study, records)
