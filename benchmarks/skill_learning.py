"""How fast are skills learned? Learning curves of VER beside Stable-Baselines3's PPO.

``python -m benchmarks.skill_learning out=DIR [skills=pick,place,open_cab schemes=ver,sb3 seeds=3
steps=10000000 until=0]`` trains every skill with every scheme from as many seeds, one after the
other, and prints what share of the training episodes succeeded on the way, mean and range over
seeds. The same command goes on where it was broken off. ``until`` stops every run there, with noise
and discount as far on their way as in a run of ``steps``; a later command with more goes on.
``DIR/curves.png`` has the curves, ``DIR/report.json`` the numbers.

Both sides have the environment of a teacher (``configs/skills/teacher.yaml``: whole state, teaching
reward, less what of it grows with mastery, which each process follows by itself; starts are the
task's own and none comes again), its network, rows an update, epochs,
mini-batches, discount and learning rate, which stays as it is. Actor and critic of both observe
what a teacher's actor does, ``state`` and ``seen``; the ``course`` that its critic has as well is
left out, since both of SB3's observe the same. Both step the same batches of worlds in a process
for every core. What one of them does not have is left out of it: SB3 has fixed discount and
independent noise; ours has grip and stop as choices and correlated noise that falls. Both learn on
the processor.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.names import chosen, run_main
from benchmarks.trainer import ROOT, describe_machine, end_session
from benchmarks.trainer_setup import python_of
from eval.curves import read_curve
from tpsrl.drawing import save_figure
from tpsrl.files import lines_of, write_json
from ver_trainer.options import option, parse_or_help
from ver_trainer.reading import read_json

SCHEMES = {"ver": "VER", "sb3": "Stable-Baselines3's PPO"}
SKILLS = ("pick", "place", "open_cab", "open_fridge", "close_cab", "close_fridge", "navigate")
PATIENCE = 120.0
"""Seconds that a run has for its last checkpoint after Ctrl-C."""
PARTS = 4
"""So many times on the way success is told."""


@dataclass
class Config:
    """Options of the benchmark."""

    out: Path = option(Path("runs/skill_learning"), "folder of all runs")
    skills: str = option("pick,place,open_cab", "with commas")
    schemes: str = option("ver,sb3", "with commas")
    seeds: int = option(3, "runs of each skill and scheme", min=1)
    steps: int = option(10_000_000, "environment steps of a run", min=100_000)
    until: int = option(0, "stop every run there, to go on later; 0: at the end", min=0)

    @property
    def end(self) -> int:
        """Steps that every run has in the end."""
        return min(self.until or self.steps, self.steps)


def train(skill: str, scheme: str, seed: int, config: Config, out: Path) -> None:
    """Train once, or go on, in a process of its own, until enough steps are done.

    Raises:
        RuntimeError: it failed; says with which last words.
    """
    if steps_done(out) >= config.end:
        return
    python = sys.executable if scheme == "ver" else python_of("sb3")
    words = [skill, scheme, str(seed), str(config.steps), str(out)]
    out.parent.mkdir(parents=True, exist_ok=True)
    log, machine = out.with_suffix(".log"), machine_of(out)
    if not machine.exists():
        write_json(machine, describe_machine())
    with log.open("a") as file:
        process = subprocess.Popen(
            [python, "-m", "benchmarks.skill_learning_run", *words],
            stdout=file, stderr=file, cwd=ROOT, start_new_session=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        try:
            while process.poll() is None and steps_done(out) < config.end:
                time.sleep(1.0)
            if config.end == config.steps:
                process.wait()
        finally:
            end_session(process, PATIENCE)
    if process.returncode and steps_done(out) < config.end:
        raise RuntimeError(f"{out} failed: {log.read_text().strip()[-800:]}")


def steps_done(out: Path) -> int:
    """Return the step of a run's last record, 0 if it has none."""
    lines = lines_of(out / "metrics.jsonl")
    return int(json.loads(lines[-1])["step"]) if lines else 0


def machine_of(out: Path) -> Path:
    """Return the file that says where and when a run began."""
    return out.with_suffix(".machine.json")


def summary(curves: Sequence[dict[str, np.ndarray]], steps: int) -> list[dict[str, float]]:
    """Return success of several seeds at equal parts of the way: mean, least and most."""
    rows = []
    for part in range(1, PARTS + 1):
        at = steps * part / PARTS
        shares = [float(np.interp(at, c["step"], c["episode/success"])) for c in curves]
        rows.append(
            {"step": at, "mean": float(np.mean(shares)), "least": min(shares), "most": max(shares)}
        )
    return rows


def draw(curves: dict[str, dict[str, list[dict[str, np.ndarray]]]], out: Path) -> None:
    """Draw the curves, a panel for every skill and a line for every seed."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(3.6 * len(curves) + 0.6, 3.4), layout="constrained")
    panels = figure.subplots(1, len(curves), sharey=True, squeeze=False)[0]
    for (skill, found), axes in zip(curves.items(), panels, strict=True):
        for scheme, runs in found.items():
            colour = f"C{list(SCHEMES).index(scheme)}"
            for k, curve in enumerate(runs):
                axes.plot(
                    curve["step"] / 1e6, 100 * curve["episode/success"], colour,
                    label=SCHEMES[scheme] if k == 0 else None, linewidth=1.0,
                )  # fmt: skip
        axes.set(xlabel="million steps", title=skill, ylim=(0, 100))
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("training episodes that succeed, %")
    panels[0].legend(fontsize=8)
    save_figure(figure, out)


def main(words: Sequence[str]) -> None:
    """Train what is missing; print, draw and write."""
    config = parse_or_help(Config, words, __doc__)
    skills = chosen(config.skills, SKILLS, "skills")
    schemes = chosen(config.schemes, tuple(SCHEMES), "schemes")
    report: dict[str, Any] = {"steps": config.steps, "until": config.end}
    runs = [(s, c, k) for k in range(1, config.seeds + 1) for s in skills for c in schemes]
    curves: dict[str, dict[str, list[dict[str, np.ndarray]]]] = {}
    for number, (skill, scheme, seed) in enumerate(runs):
        out = config.out.resolve() / f"{skill}_{scheme}_{seed}"
        print(f"{skill}, {SCHEMES[scheme]}, seed {seed} ({number + 1} of {len(runs)})", flush=True)
        train(skill, scheme, seed, config, out)
        curves.setdefault(skill, {}).setdefault(scheme, []).append(read_curve(out))
        rows = summary(curves[skill][scheme], config.end)
        row = report.setdefault(skill, {}).setdefault(scheme, {"machines": []})
        row |= {"seeds": seed, "success": rows}
        row["machines"].append(read_json(machine_of(out)))
        told = ", ".join(
            f"{row['step'] / 1e6:.2f} M {row['mean']:.0%} ({row['least']:.0%} to {row['most']:.0%})"
            for row in rows
        )
        print(f"  {told}", flush=True)
        draw(curves, config.out / "curves.png")
        write_json(config.out / "report.json", report)
    print(json.dumps({"report": str(config.out / "report.json")}))


if __name__ == "__main__":
    sys.exit(run_main(main))
