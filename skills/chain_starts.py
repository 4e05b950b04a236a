"""Start states where a chain arrives: made once on a machine, by ``tpsrl handoff``."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import sys
from pathlib import Path

from skills.learned.cards import SHIPPED, TEACHERS, digest, policies_in
from tpsrl.errors import UserError
from tpsrl.generation.parallel import fingerprint
from tpsrl.generation.rules import load_scenario
from tpsrl.provenance import versions
from tpsrl.provide import make_episodes
from tpsrl.scenes.cache import cache_dir, cache_key
from ver_trainer.envs.worker import die_with_parent

SCENARIOS = ("tidy_house", "prepare_groceries", "set_table")
"""Whose chains are run."""
AGENTS = {"scripted": None, "tpsrl": SHIPPED, "teacher": TEACHERS}
"""Who may act in them, and where their weights lie."""

TRIES = 2
"""Of the same call; what cannot be done is tried eight times, and would be most of the starts."""


def chain_starts(count: int, agent: str = "scripted", workers: int = 1) -> list[Path]:
    """Return files of the states in which the chain calls its skills, in train layouts.

    The chain is carried out by ``executor=replan``. The files lie in :func:`cache_dir`, under
    names that tell the scenario, the agent, and the scenes, weights and versions.

    Args:
        count: episodes of each scenario.
        agent: of :data:`AGENTS`; learned ones with the weights that ship.
        workers: processes that run the chain.

    Raises:
        UserError: the chain cannot be run; what was done of it is kept.
    """
    folder = cache_dir() / "starts"
    folder.mkdir(parents=True, exist_ok=True)
    return [_starts_of(scenario, count, agent, workers, folder) for scenario in SCENARIOS]


def _starts_of(scenario: str, count: int, agent: str, workers: int, folder: Path) -> Path:
    rules = load_scenario(scenario)
    known = {k: v for k, v in versions().items() if k in ("tpsrl", "mujoco")}
    weights = AGENTS[agent]
    acting = {} if weights is None else {k: digest(p.path) for k, p in policies_in(weights).items()}
    chain = {"episodes": fingerprint(rules, "train", 0), "tries": TRIES, **acting, **known}
    code = cache_key(chain)
    path = folder / f"{scenario}_train_{count}_{agent}_{code}.npz"
    with (folder / f".{agent}_{code}.lock").open("w") as lock:  # all ranks of a training come here
        fcntl.flock(lock, fcntl.LOCK_EX)
        if path.exists():
            return path
        episodes = make_episodes(rules, "train", count, workers)
        print(f"running the chain of {scenario} by agent={agent}, once: {path}", file=sys.stderr)
        words = [f"scenario={scenario}", f"data={episodes}", f"episodes={count}", f"agent={agent}"]
        # With this executor the chain goes on after a failure, and what fell is picked up again.
        words += ["executor=replan", f"tries={TRIES}", f"out={path}"]
        # The chain stands above the skills: it is called as a user calls it.
        command = [sys.executable, "-m", "tpsrl", "handoff", *words, f"workers={workers}"]
        run = subprocess.run(command, stdout=sys.stderr, check=False, preexec_fn=die_with_parent)
        if run.returncode or not path.exists():
            raise UserError(
                f"'tpsrl handoff {' '.join(words)}' failed, see above; the same command goes on,"
                " and chain_starts=0 trains without it."
            )
        shutil.rmtree(path.with_name(path.name + ".parts"), ignore_errors=True)
    return path
