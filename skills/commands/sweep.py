"""``tpsrl sweep``: trains with many settings and seeds, and compares them."""

from __future__ import annotations

import dataclasses
import sys

from rich.console import Console
from rich.table import Table

from skills.sweep import Record, SweepConfig, make_trials, sweep, table
from tpsrl.errors import UserError
from tpsrl.files import write_json
from tpsrl.jobs.folder import SUMMARY_FILE
from tpsrl.launch.start import as_one_job
from tpsrl.provenance import git_commit, machine, now, versions
from ver_trainer.options import load

CONFIG = SweepConfig

HELP = """Trains once for every combination of values, and prints one table at the end.

  tpsrl sweep over.seed=[1,2,3] over.optim.lr=[1e-4,3e-4] out=runs/rates env=CartPole-v1 ...
  tpsrl sweep launch=ray launch.address=auto scheduler=asha over.seed=[1,2,3,4] skill=pick ...

Each training is a run folder in out=. The same command again goes on where it stopped.
launch=ray runs them as trials of Ray Tune, launch=slurm as one job of one machine
(docs/cluster.md)."""

_OWN = frozenset(key.name for key in dataclasses.fields(SweepConfig))


def run(overrides: list[str]) -> int:
    """Run the missing trainings, write the summary and print the table."""
    own = [w for w in overrides if w.partition("=")[0].partition(".")[0].strip() in _OWN]
    words = [w for w in overrides if w not in own]
    config = load(SweepConfig, own)
    if config.scheduler != "none" and config.launch.engine != "ray":
        raise UserError(f"scheduler={config.scheduler} is Ray Tune's: give launch=ray with it")
    trials = make_trials(config, words)
    code = as_one_job(config.launch, "sweep", run, overrides, config.workers)
    if code is not None:
        return code
    records = sweep(config, words, trials)
    rows = table(records)
    facts = {"versions": versions(), "commit": git_commit(), "machine": machine(), "date": now()}
    summary = config.out / SUMMARY_FILE
    write_json(summary, {"metric": trials[0].metric, "rows": rows, **facts})
    _print(rows, trials[0].metric)
    print(summary)
    return 0


def _print(rows: list[Record], metric: str) -> None:
    shown = Table(*(rows[0]["setting"] or {"": None}), "trainings", metric, "best", "steps")
    for row in rows:
        setting = [str(value) for value in row["setting"].values()] or ["all"]
        spread = "" if row["deviation"] is None else f" ± {row['deviation']:.3g}"
        score = "-" if row["mean"] is None else f"{row['mean']:.4g}{spread}"
        best = "-" if row["best"] is None else f"{row['best']:.4g}"
        count = f"{row['trainings']}, {row['finished']} to the end"
        shown.add_row(*setting, count, score, best, f"{row['steps']:,.0f}")
    # Not the console's own opinion: FORCE_COLOR would have it write colour codes into files.
    Console(force_terminal=sys.stdout.isatty()).print(shown)
