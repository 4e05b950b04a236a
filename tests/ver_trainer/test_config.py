"""Bad configuration is refused by name, with the remedy."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest

from skills.commands import train as command
from tpsrl.errors import UserError
from ver_trainer.config import FREE_ON_RESUME, TrainConfig, load_config
from ver_trainer.errors import ConfigError
from ver_trainer.options import describe, keys

CONFIGS = sorted((Path(__file__).parents[2] / "configs" / "train").glob("*.yaml"))


@pytest.mark.parametrize(
    ("override", "sentence"),
    [
        ("schem=ver", "'scheme'"),
        ("ppo.epoch=3", "'ppo.epochs'"),
        ("epochs=3", "'ppo.epochs'"),
        ("scheme=verr", "did you mean 'ver'"),
        ("collector=worker", "did you mean 'workers'"),
        ("optim.lr=fast", "optim.lr"),
        ("optim.lr=0", "greater than 0"),
        ("optim.lr=nan", "finite number"),
        ("collect.num_envs=0", "at least 1"),
        ("seed", "key=value"),
        ("config=nowhere.yaml", "nowhere.yaml"),
        ("env_args=[1", "env_args"),
        ("ppo.gamma=1.5", "at most 1"),
        ("collect.max_batch=99", "collect.num_envs"),
        ("collect.preempt_fraction=0", "preempt_fraction"),
    ],
)
def test_refused_overrides(override: str, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        load_config([override])


@pytest.mark.parametrize(
    ("overrides", "remedy"),
    [
        (["scheme=async", "collector=inline"], "use collector=workers"),
        (["scheme=htsrl", "collector=inline"], "use collector=workers"),
        (["resume=exact"], "use collector=inline or resume=auto"),
        (["collect.num_envs=1", "collect.steps=2", "ppo.mini_batches=3"], "fewer mini-batches"),
    ],
)
def test_refused_combinations_name_the_remedy(overrides: list[str], remedy: str) -> None:
    with pytest.raises(ConfigError, match=remedy):
        load_config(overrides)


def test_files_overrides_and_keywords(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("scheme: nover\nppo:\n  epochs: 7\nenv_args:\n  gravity: 5.0\n")
    config = load_config([f"config={file}", "ppo.clip=0.3", "env_args.length=2"], seed=9)
    assert (config.scheme, config.ppo.epochs, config.ppo.clip, config.seed) == ("nover", 7, 0.3, 9)
    assert config.env_args == {"gravity": 5.0, "length": 2}
    file.write_text("ppo:\n  epoch: 7\n")
    with pytest.raises(ConfigError, match=r"'ppo.epoch' in .*mine.yaml.*'ppo.epochs'"):
        load_config([f"config={file}"])


@pytest.mark.parametrize("key", keys(TrainConfig))
def test_no_number_is_infinite(key: str) -> None:
    values = [".nan", ".inf", "-.inf", "nan", "1e999"]
    default = functools.reduce(getattr, key.split("."), TrainConfig())
    if isinstance(default, float):
        values.append("1" + "0" * 400)  # no float at all
    for value in values if isinstance(default, (int, float)) else []:
        with pytest.raises(ConfigError, match=rf"'{key}'"):
            load_config([f"{key}={value}"])


def test_numbers_of_the_environment_and_of_lists_are_finite_too() -> None:
    for text, name in (("env_args.a.b=[1,.nan]", "env_args.a.b.1"), ("net.mlp=[.inf]", "net.mlp")):
        with pytest.raises(ConfigError, match=rf"'{name}"):
            load_config([text])


@pytest.mark.parametrize("path", CONFIGS, ids=lambda p: p.stem)
def test_shipped_configurations_load(path: Path) -> None:
    load_config([f"config={path}"])


def test_paper_configuration_is_table_a1() -> None:
    config = load_config([f"config={CONFIGS[0].parent / 'paper.yaml'}"])
    assert (config.collect.num_envs, config.collect.steps) == (16, 128)
    assert (config.ppo.epochs, config.ppo.mini_batches) == (3, 2)
    assert config.optim.lr == 2.5e-4 and config.optim.schedule == "cosine"
    assert not config.ppo.normalize_advantage and not config.ppo.clip_value
    assert config.net.encoder == "resnet18"
    assert (config.net.core_size, config.net.core_layers) == (512, 2)


def test_every_key_says_what_it_means() -> None:
    assert set(FREE_ON_RESUME) <= set(keys(TrainConfig))
    for line in describe(TrainConfig).splitlines():
        assert len(line.split(": ", 1)[-1]) > 5 and ": " in line, line


def test_the_command_reports_bad_input_as_user_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="'scheme'"):
        command.run(["schem=ver"])
    with pytest.raises(UserError, match="did you mean 'skill'"):
        command.run(["skil=pick"])
    with pytest.raises(UserError, match="Nowhere"):
        command.run(["env=Nowhere-v3", f"out={tmp_path / 'never'}"])
