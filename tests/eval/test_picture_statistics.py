"""Statistics of pictures are those of all pixels, and labels of curves are told apart."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from eval.curves import main
from eval.dataset.statistics import QUANTILES, of_pictures
from tests.eval.test_curves import _run


@pytest.mark.parametrize("count", [1, 3])
def test_they_are_those_of_all_pixels(count: int) -> None:
    rng = np.random.default_rng(count)
    pictures = [rng.integers(0, 200, (7, 9, 3), dtype=np.uint8) for _ in range(count)]
    found, pixels = of_pictures(pictures), np.stack(pictures).reshape(-1, 3) / 255.0
    for name, wanted in {
        **{name: getattr(pixels, name)(0) for name in ("min", "max", "mean", "std")},
        **{name: np.quantile(pixels, part, axis=0) for name, part in QUANTILES.items()},
    }.items():
        assert found[name].shape == (3, 1, 1)
        np.testing.assert_allclose(found[name].ravel(), wanted, atol=1e-12, err_msg=name)
    assert found["count"].tolist() == [count]


def test_runs_are_named_after_their_folders_and_not_taken_for_each_other(
    tmp_path: Path, capsys
) -> None:
    files = [_run(tmp_path / name) / "metrics.jsonl" for name in ("a.1", "a.2")]
    assert main([*map(str, files), f"out={tmp_path / 'curve.png'}"]) == 0
    (tmp_path / "b").mkdir()
    other = _run(tmp_path / "b" / "a.1")
    capsys.readouterr()
    assert main([str(files[0]), str(other), f"out={tmp_path / 'other.png'}"]) == 2
    assert "two runs are called 'a.1'; name them: first=" in capsys.readouterr().err
    assert not (tmp_path / "other.png").exists()
