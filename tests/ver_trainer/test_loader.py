"""Options: words and YAML files fill a dataclass; mistakes are one sentence."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest

from ver_trainer.errors import UserError
from ver_trainer.options import (
    describe,
    keys,
    load,
    named,
    option,
    parse_or_help,
    to_dict,
)


class Mode(enum.Enum):
    FAST = 1
    SLOW = 2


@dataclass
class Inner:
    clip: float = field(default=0.2, metadata={"help": "clipping range", "min": 0.0})
    sizes: list[int] = option([1, 2], "of the layers", min=1)
    share: float = option(0.5, "of the whole", above=0, below=1)
    norm: float = option(1.0, "clipping", above=0)


@dataclass
class Config:
    """Keys of a test."""

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
        ("inner.clpi=3", ["unknown key 'inner.clpi'", "'inner.clip'"]),
        ("clpi=3", ["unknown key 'clpi'", "'inner.clip'"]),
        ("inner.foo=3", ["unknown key 'inner.foo'", "inner.clip, inner.sizes, inner.share"]),
        ("inner.share=0", ["0.0", "greater than 0 and less than 1"]),
        ("inner.share=inf", ["inf", "'inner.share'", "a finite number"]),
        ("inner.norm=inf", ["inf", "'inner.norm'", "a finite number"]),
        ("inner.norm=nan", ["nan", "'inner.norm'", "a finite number"]),
        ("inner.sizes=[2,0]", ["0", "'inner.sizes.1'", "at least 1"]),
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
        ("inner=5", ["'inner'", "keys of its own: clip"]),
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


def test_defaults_files_words_and_values_in_this_order(tmp_path: Path) -> None:
    file, other = tmp_path / "a.yaml", tmp_path / "b.yaml"
    file.write_text("workers: 4\ninner:\n  clip: 0.5\noptions: {a: {b: 1}}\n")
    other.write_text("workers: 5\n")
    words = ["inner.clip=0.7", "options.a.c=2", f"config={file}", f"config={other}"]
    config = load(Config, words, defaults={"workers": 6, "flag": True}, values={"data": "x"})
    assert (config.workers, config.inner.clip, config.flag, config.data) == (5, 0.7, True, "x")
    assert config.options == {"a": {"b": 1, "c": 2}}


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("inner:\n  clop: 0.5\n", r"unknown key 'inner.clop' in .*a\.yaml"),
        ("a: [1\n", "not valid YAML"),
        ("[1]\n", "must hold a mapping"),
        ("base: absent\n", r"a\.yaml: base: absent: no such file"),
        ("base: a.yaml\n", r"base: a\.yaml leads back to itself"),
        ("base: b\n", r"b\.yaml: base: a\.yaml leads back to itself"),
    ],
)
def test_bad_files_are_named(content: str, text: str, tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(content)
    (tmp_path / "b.yaml").write_text("base: a.yaml\n")
    with pytest.raises(UserError, match=text) as caught:
        load(Config, [f"config={file}"])
    assert "\n" not in str(caught.value)


def test_a_file_changes_its_base(tmp_path: Path) -> None:
    shipped, own = tmp_path / "shipped", tmp_path / "own"
    for folder in (shipped, own):
        folder.mkdir()
    (shipped / "big.yaml").write_text("workers: 8\ninner: {clip: 0.9, sizes: [3]}\n")
    (own / "middle.yaml").write_text("base: big\ninner: {clip: 0.8}\n")
    file = own / "mine.yaml"
    file.write_text("base: middle.yaml\ninner: {share: 0.1}\n")
    config = load(Config, [f"config={file}"], folders=[shipped])
    assert config.workers == 8 and config.inner == Inner(0.8, [3], 0.1)
    assert load(Config, ["config=big"], folders=[shipped]).inner.clip == 0.9
    with pytest.raises(UserError, match="no such file; did you mean 'big'"):
        load(Config, ["config=elsewhere/big.yaml"], folders=[shipped])


def test_describe_lists_every_key_with_default_type_and_meaning() -> None:
    text = describe(Config)
    limits = ["at least 1 and at most 8", "greater than 0"]
    parts = ["workers=2", "processes", "tidy_house | set_table", "inner.clip=0.2", "out=null"]
    for part in limits + parts:
        assert part in text
    assert "out=(required)" in describe(Needs)


def test_to_dict_is_plain() -> None:
    assert to_dict(load(Config, ["out=x"]))["out"] == "x"
    assert to_dict(load(Config, []))["mode"] == "FAST"


def test_a_program_prints_help_or_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert parse_or_help(Config, ["workers=3"], "About.").workers == 3
    for words, code in ((["--help"], 0), (["wrokers=3"], 2)):
        with pytest.raises(SystemExit) as caught:
            parse_or_help(Config, words, "About.")
        assert caught.value.code == code
    printed = capsys.readouterr()
    assert printed.out.startswith("About.\n\nKeys of a test (with their defaults):\n  scenario=")
    assert printed.err == "error: unknown key 'wrokers'; did you mean 'workers'?\n"


def test_keys_hold_the_sections_too() -> None:
    assert keys(Config)[7:9] == ["inner", "inner.clip"]


def test_the_limits_of_a_tuple_are_those_of_its_numbers() -> None:
    @dataclass
    class Sizes:
        pixels: tuple[int, ...] = option((64, 128), "of a side", min=1)

    assert load(Sizes, ["pixels=[32]"]).pixels == (32,)
    with pytest.raises(UserError, match=r"0 is not a value of 'pixels\.1'.*at least 1"):
        load(Sizes, ["pixels=[32,0]"])


def test_one_key_is_read_before_the_schema_is_known(tmp_path: Path) -> None:
    (tmp_path / "low.yaml").write_text("mode: slow\nother: {part: 1}\n")
    (tmp_path / "high.yaml").write_text("base: low\nmore: 2\n")
    (tmp_path / "off.yaml").write_text("base: low\nmode: null\n")
    files = [f"config={tmp_path / name}.yaml" for name in ("low", "high", "off")]
    assert [named([file], "mode") for file in files] == ["slow", "slow", None]
    assert named(files[:2], "more") == "2" and named(["mode.x=1", "modes=2"], "mode") is None
    assert named(["mode=fast", files[0]], "mode") == "fast", "words win"
    assert named(["config=high"], "mode", folders=[tmp_path]) == "slow"
    with pytest.raises(UserError, match="no such file"):
        named(["config=none"], "mode")
