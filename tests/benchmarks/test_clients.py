"""``benchmarks.clients``: every client trains on a few rows, and the table says how it went."""

from __future__ import annotations

import ast
import inspect
import json

import pytest
import torch

import skills.envs  # noqa: F401  (registers the environments)
from benchmarks import clients, clients_ppo, clients_run
from benchmarks.names import chosen
from tpsrl.errors import UserError

ROWS, HORIZON = 64, 7
ARGUMENTS = {
    "depth": 36,
    "sensors": ["contract", "fine"],
    "depth_dtype": "uint8",
    "stop": "success",
    "reward": "teaching",
    "split": "val",  # ships with tpsrl; those for training would have to be made
    "options": {"horizon": HORIZON},
}


@pytest.mark.parametrize("client", clients.CLIENTS)
def test_a_client_trains(client, monkeypatch, capsys):
    if client == "sb3":
        pytest.importorskip("stable_baselines3")
    monkeypatch.setattr(clients_run, "ROWS", ROWS)
    threads = torch.get_num_threads()
    try:
        clients_run.main([client, str(2 * ROWS), "1", "2", json.dumps(ARGUMENTS)])
    finally:
        torch.set_num_threads(threads)
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("{")]
    said = [json.loads(line) for line in lines]
    assert [point["step"] for point in said] == [ROWS, 2 * ROWS]
    assert all(0 <= point["success"] <= 1 and abs(point["return"]) < 100 for point in said)


def test_the_one_file_learns_from_what_it_has_seen():
    """Two trainings that differ in the rate alone act alike until the first update."""
    runs = []
    for rate in (0.0, clients_ppo.RATE):
        said = []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(clients_ppo, "RATE", rate)
            clients_ppo.train(
                clients_run.ENV, ARGUMENTS, 2, 32, 2 * ROWS, 1, lambda *a, to=said: to.append(a)
            )
        runs.append(said)
    frozen, learning = runs
    assert [steps for steps, *_ in learning] == [ROWS, 2 * ROWS]
    assert len(learning[0][1]) == len(learning[0][2]) == 2 * (32 // HORIZON)
    assert frozen[0] == learning[0], "nothing is learned before a rollout is whole"
    assert frozen[1][2] != learning[1][2], "the second is acted by other weights"


def test_advantages_end_with_the_episode():
    rewards, values = torch.tensor([[1.0], [2.0], [4.0]]), torch.tensor([[0.5], [0.25], [1.0]])
    found = clients_ppo.advantages(
        rewards, values, torch.tensor([[0.0], [1.0], [0.0]]), torch.tensor([3.0])
    )
    gamma, lam = clients_ppo.GAMMA, clients_ppo.LAMBDA
    second, third = 2.0 - 0.25, 4.0 + gamma * 3.0 - 1.0
    first = 1.0 + gamma * 0.25 - 0.5 + gamma * lam * second
    assert found[:, 0].tolist() == pytest.approx([first, second, third])


def test_the_one_file_is_short():
    """What docs/other_trainers.md says of it; blank lines, comments and docstrings are no code."""
    source = inspect.getsource(clients_ppo)
    told = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            told |= set(range(node.lineno, node.end_lineno + 1))
    lines = enumerate(map(str.strip, source.splitlines()), 1)
    assert 50 < sum(bool(t) and t[0] != "#" and n not in told for n, t in lines) <= 100


def test_the_table_has_a_column_a_run_and_its_success_over_steps(capsys):
    config = clients.Config(steps=800, worlds=2, depth=36)
    of = " of 800 steps, 2 worlds, depth 36"
    curve = [
        {"step": 128, "success": None, "return": None},
        {"step": 256, "success": 0.25, "return": 1.0},
        {"step": 800, "success": 0.5, "return": 2.0},
    ]
    report = {
        "machine": {"cpu": "some"},
        f"ours 1{of}": {"curve": curve, "seconds": 90.0},
        f"sb3 1{of}": {"curve": curve[2:], "seconds": 30.0},
        "cleanrl 1 of 900 steps, 2 worlds, depth 36": {"curve": curve, "seconds": 1.0},
    }
    clients.show(report, config)
    lines = [line.replace("┃", "│") for line in capsys.readouterr().out.splitlines()]
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in lines if "│" in line]
    head = next([c.strip() for c in line.split("│")[1:-1]] for line in lines if "steps" in line)
    assert head == ["steps", "ours 1", "sb3 1"], "other settings are another table's"
    table = {row[0]: row[1:] for row in rows}
    assert table["200"] == ["-", "-"] and table["300"] == table["700"] == ["25%", "-"]
    assert table["800"] == ["50%", "50%"] and table["minutes"] == ["1.5", "0.5"]


def test_a_client_that_is_none_is_refused():
    known = tuple(clients.CLIENTS)
    assert chosen("sb3, ours,sb3", known, "clients") == ["sb3", "ours"]
    with pytest.raises(UserError, match=r"clients=ours,sb4 has no 'sb4'; did you mean 'sb3'"):
        chosen("ours,sb4", known, "clients")
    with pytest.raises(UserError, match=r"clients= names nothing"):
        chosen(" ,", known, "clients")
