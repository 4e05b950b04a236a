from __future__ import annotations

import enum
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest

from tpsrl.errors import UserError
from ver_trainer.options import describe, load, to_dict


class Mode(enum.Enum):
    FAST = 1
    SLOW = 2


@dataclass
class Inner:
    clip: float = field(default=0.2, metadata={"help": "clipping range", "min": 0.0})
    sizes: list[int] = field(default_factory=lambda: [1, 2])


@dataclass
class Config:
    scenario: str = field(
        default="tidy_house",
        metadata={"help": "which", "choices": ["tidy_house", "set_table"]},
    )
    split: Literal["train", "val"] = "val"
    mode: Mode = Mode.FAST
    workers: int = field(default=2, metadata={"help": "processes", "min": 1, "max": 8})
    out: Path | None = None
    data: str | None = None
    flag: bool = False
    inner: Inner = field(default_factory=Inner)
    options: dict[str, Any] = field(default_factory=dict)


@dataclass
class Needs:
    out: str
    n: int = 3


def test_defaults_overrides_and_types() -> None:
    config = load(
        Config,
        ["workers=3", "out=a/b", "data=007", "flag=true", "inner.clip=1e-3", "inner.sizes=[4,5]"]
        + ["mode=SLOW", "split=train", "options.width=64", "scenario=set_table"],
    )
    assert isinstance(config, Config)
    assert config.workers == 3 and config.out == Path("a/b") and config.data == "007"
    assert config.flag is True and config.inner == Inner(1e-3, [4, 5])
    assert config.mode is Mode.SLOW and config.split == "train"
    assert config.options == {"width": 64}
    assert load(Config, ["out=null", "data=none"]).data is None


@pytest.mark.parametrize(
    ("word", "parts"),
    [
        ("wrokers=3", ["unknown key 'wrokers'", "'workers'"]),
        ("inner.clpi=3", ["unknown key 'clpi'", "'inner'", "'clip'"]),
        ("scenario=tidyhouse", ["'tidyhouse'", "'scenario'", "'tidy_house'"]),
        ("split=vla", ["'vla'", "'split'", "'val'"]),
        ("workers=two", ["'two'", "'workers'", "whole number"]),
        ("workers=1.5", ["1.5", "'workers'", "whole number"]),
        ("workers=0", ["0", "'workers'", "at least 1"]),
        ("inner.clip=nan", ["'inner.clip'", "at least"]),
        ("inner.sizes=[a]", ["'inner.sizes'", "list"]),
        ("flag=perhaps", ["'perhaps'", "'flag'"]),
        ("mode=QUICK", ["'QUICK'", "FAST | SLOW"]),
        ("workers", ["'workers'", "key=value"]),
        ("workers.x=1", ["'workers'"]),
        ("inner=5", ["'inner'"]),
    ],
)
def test_bad_words_are_refused_in_one_sentence(word: str, parts: list[str]) -> None:
    with pytest.raises(UserError) as caught:
        load(Config, [word])
    message = str(caught.value)
    assert "\n" not in message
    for part in parts:
        assert part in message


def test_required_keys_are_named() -> None:
    with pytest.raises(UserError, match="'out' has no value; give out="):
        load(Needs, [])
    assert load(Needs, ["out=x"]).out == "x"


def test_yaml_comes_before_words_and_names_the_file(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("workers: 4\ninner:\n  clip: 0.5\n")
    config = load(Config, ["inner.clip=0.7"], yaml=file)
    assert config.workers == 4 and config.inner.clip == 0.7
    file.write_text("inner:\n  clop: 0.5\n")
    with pytest.raises(UserError, match=r"unknown key 'clop' of 'inner' in .*a\.yaml"):
        load(Config, [], yaml=file)
    file.write_text("a: [1\n")
    with pytest.raises(UserError, match="not valid YAML"):
        load(Config, [], yaml=file)
    with pytest.raises(UserError, match="cannot read"):
        load(Config, [], yaml=tmp_path / "none.yaml")


def test_describe_lists_every_key_with_default_type_and_meaning() -> None:
    text = describe(Config)
    for part in ["workers=2", "processes", "tidy_house | set_table", "inner.clip=0.2", "out=null"]:
        assert part in text
    assert "out=(required)" in describe(Needs)


def test_to_dict_is_plain() -> None:
    assert to_dict(load(Config, ["out=x"]))["out"] == "x"
    assert to_dict(load(Config, []))["mode"] == "FAST"
