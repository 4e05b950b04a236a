"""``benchmarks.unchanged``: what is compared, and what is refused before anything runs."""

from __future__ import annotations

import json

import pytest

from benchmarks.unchanged import compare, environment, main


def test_states_are_compared_where_both_trees_have_them():
    before = {"a 0": "1", "a 0 states": "2", "b 0": "3"}
    assert compare(before, {"a 0": "1", "a 0 states": "2", "b 0": "3"})[1] == []
    assert compare(before, {"a 0": "1", "a 0 states": "9", "b 0": "3"})[1] == ["a 0 states"]
    assert compare(before, {"a 0": "1", "b 0": "3"}) == (["a 0", "b 0"], [])
    assert compare(before, {"a 0": "1", "c 0": "3"}) == (["a 0"], ["b 0", "c 0"])


@pytest.mark.parametrize(
    "words", [[], ["aut=x.json"], ["out"], ["out="], ["against=/no/such.json"], ["against=FILE"]]
)
def test_words_that_cannot_be_meant_are_refused_at_once(words, tmp_path, capsys):
    file = tmp_path / "half.json"
    file.write_text(json.dumps({"a": "1"})[:-2])
    assert main([word.replace("FILE", str(file)) for word in words]) == 2
    told = capsys.readouterr()
    assert told.err.startswith("error: ") and told.err.count("\n") == 1 and not told.out


def test_an_environments_digests_are_those_of_another_run():
    once = environment("Pick")
    assert len(set(once.values())) == 3 and environment("Pick") == once
