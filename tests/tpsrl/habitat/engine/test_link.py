"""The process boundary, with real processes: arrays, refusal, death on either side, silence."""

from __future__ import annotations

import ast
import gc
import json
import mmap
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

from tests.tpsrl.contract.engines import ENGINES, episode
from tests.tpsrl.habitat.engine import parts
from tpsrl.errors import UserError
from tpsrl.habitat import link as linking
from tpsrl.habitat.link import EngineLostError, InProcess, ServerProcess
from tpsrl.habitat.remote import RemoteSimulator
from tpsrl.habitat.server import wire

FOLDER = str(Path(__file__).parent)
HOSTED = ENGINES["mujoco in a server"]
OLD_PYTHON = "TPSRL_OLD_PYTHON"


def start(backend: str = "parts:make", **options: object) -> ServerProcess:
    """A server with the small backend of ``parts.py``."""
    timeouts = {k: options.pop(k) for k in ("start_timeout", "call_timeout") if k in options}
    return ServerProcess(sys.executable, backend, options, path=[FOLDER], **timeouts)  # type: ignore[arg-type]


def gone(pid: int, seconds: float = 10.0) -> bool:
    """Whether a process ends in time; a zombie has ended."""
    limit = time.monotonic() + seconds
    while time.monotonic() < limit:
        if not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
            return True
        time.sleep(0.05)
    return False


def test_arrays_of_every_kind_go_there_and_back() -> None:
    arrays = {
        "f8": np.random.default_rng(0).normal(size=(3, 5)),
        "f4": np.arange(12, dtype=np.float32).reshape(1, 3, 4, 1),
        "i8": np.array(-7),
        "bool": np.array([True, False]),
        "u1": np.arange(256, dtype=np.uint8),
        "empty": np.zeros((0, 3)),
        "strided": np.arange(20.0).reshape(4, 5)[::2, ::-1],
        "nan": np.array([np.nan, np.inf, -np.inf]),
    }
    with closing(start()) as link:
        back = link.call("ping", **arrays, text="ä", nested=[{"a": np.ones(2)}, None, 1.5])
        for name, array in arrays.items():
            assert np.array_equal(back[name], array, equal_nan=array.dtype.kind == "f"), name
            assert back[name].dtype == array.dtype and back[name].shape == array.shape
        assert back["text"] == "ä" and back["nested"][1:] == [None, 1.5]
        first = back["f8"].copy()
        link.call("ping", f8=np.zeros((3, 5)))
        assert np.array_equal(back["f8"], first), "results are copies"
        with pytest.raises(ValueError, match="24 MiB"):
            link.call("ping", big=np.zeros(4 * 2**20))
        assert link.call("double", x=np.ones(2)).tolist() == [2, 2], "nothing was sent"
        with pytest.raises(RuntimeError, match="24 MiB"):
            link.call("large")


def test_a_message_like_the_one_before_keeps_its_types() -> None:
    """Only what differs is sent again; 1, 1.0 and True differ."""
    with closing(start()) as link:
        for value in (1, 1.0, True, 1, "1", None, 1, 1):
            back = link.call("ping", x=value)["x"]
            assert back == value and type(back) is type(value)
        for array in (np.ones(2), np.ones(2, dtype=np.int64), np.ones((1, 2)), np.zeros((1, 2))):
            back = link.call("ping", x=array)["x"]
            assert np.array_equal(back, array)
            assert back.dtype == array.dtype and back.shape == array.shape


def test_both_sides_say_their_versions() -> None:
    with closing(start(greeting="hello")) as link:
        assert link.versions["python"] == ".".join(map(str, sys.version_info[:3]))
        assert link.versions["numpy"] == np.__version__
        assert link.about == {"greeting": "hello"}


def test_another_protocol_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "PROTOCOL", wire.PROTOCOL + 1)
    theirs, ours = wire.PROTOCOL - 1, wire.PROTOCOL
    with pytest.raises(UserError, match=rf"speaks protocol {theirs}, this tpsrl .* speaks {ours}"):
        start()
    assert not children()


@pytest.mark.parametrize(
    ("backend", "options", "words"),
    [
        ("parts:make", {"refuse": "numpy is too old"}, "^numpy is too old$"),
        ("parts:make", {"fail": True}, "did not start.*ZeroDivisionError"),
        ("no_such_module:make", {}, "did not start.*no_such_module"),
    ],
)
def test_a_server_that_cannot_start_says_why(
    backend: str, options: dict[str, object], words: str
) -> None:
    with pytest.raises(UserError, match=words):
        start(backend, **options)
    assert not children()


def test_an_interpreter_that_is_none_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"habitat.python=.*cannot be run"):
        ServerProcess(tmp_path / "python", "parts:make", {})
    with pytest.raises(UserError, match=r"ended with exit code|closed"):
        ServerProcess("/bin/false", "parts:make", {})
    assert not children()


def test_refusals_and_faults_leave_the_server_alive() -> None:
    with closing(start()) as link:
        with pytest.raises(UserError, match=r"^no such layout$"):
            link.call("refuse", text="no such layout")
        with pytest.raises(RuntimeError, match=r"'fail'.*ZeroDivisionError"):
            link.call("fail")
        with pytest.raises(RuntimeError, match="op_unknown"):
            link.call("unknown")
        assert link.call("ping", x=1) == {"x": 1}


def test_the_client_survives_the_death_of_its_server() -> None:
    link = start()
    with pytest.raises(EngineLostError, match=r"exit code 7 during 'die'.*last words: farewell"):
        link.call("die")
    with pytest.raises(EngineLostError, match="reset the simulator"):
        link.call("ping")
    link.close()
    other = start()
    os.kill(other.process.pid, signal.SIGKILL)
    with pytest.raises(EngineLostError, match="killed by SIGKILL during 'ping'"):
        other.call("ping", x=np.ones(3))
    other.close()
    other.close()


def test_a_silent_server_is_given_up() -> None:
    link = start(call_timeout=0.5)
    began = time.monotonic()
    with pytest.raises(EngineLostError, match=r"did not answer 'sleep' within 0.5 s"):
        link.call("sleep", seconds=60)
    assert time.monotonic() - began < 5 and gone(link.process.pid)
    with pytest.raises(UserError, match=r"did not answer 'start'"):
        start(delay=60.0, start_timeout=0.5)
    assert not children()


@pytest.mark.parametrize("how", ["SIGKILL", "exit", "busy"])
def test_the_server_dies_with_its_client(how: str, tmp_path: Path) -> None:
    """Whether the client ends, is killed, or is killed while the server works."""
    script = f"""
import os, sys, threading, time
sys.path.insert(0, {str(Path(__file__).parents[4])!r})
from tpsrl.habitat.link import ServerProcess
link = ServerProcess(sys.executable, "parts:make", {{}}, path=[{FOLDER!r}])
print(link.process.pid, flush=True)
if {how == "busy"}:
    threading.Thread(target=lambda: link.call("sleep", seconds=60), daemon=True).start()
if {how != "exit"}:
    time.sleep(60)
"""
    client = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    assert client.stdout is not None
    server = int(client.stdout.readline())
    if how != "exit":
        assert psutil.pid_exists(server)
        time.sleep(0.3)
        client.kill()
    client.wait(20)
    client.stdout.close()
    assert gone(server)


def test_a_forgotten_link_ends_its_server() -> None:
    link = start()
    pid = link.process.pid
    del link
    gc.collect()
    assert gone(pid)


def test_ctrl_c_in_the_middle_of_a_call_does_not_mix_answers() -> None:
    link = start()
    previous = signal.signal(signal.SIGALRM, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        with pytest.raises(KeyboardInterrupt):
            link.call("sleep", seconds=5)
    finally:
        signal.signal(signal.SIGALRM, previous)
    with pytest.raises(EngineLostError, match="interrupted"):
        link.call("ping")
    link.close()


def shared_memory() -> set[str]:
    """Names of shared memory, without those that tests beside this one make with libraries."""
    return {n for n in os.listdir("/dev/shm") if not n.startswith(("sem.mp-", "torch_"))}


def test_nothing_is_left_behind() -> None:
    before = shared_memory()
    descriptors = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        link = start()
        link.call("ping", x=np.ones(1000))
        link.close()
    gc.collect()
    assert shared_memory() == before and not children()
    assert len(os.listdir("/proc/self/fd")) <= descriptors + 1


def test_the_same_backend_in_this_process() -> None:
    link = InProcess(parts.make({"greeting": "here"}))
    assert link.about == {"greeting": "here"} and link.call("double", x=np.ones(2)).tolist() == [
        2,
        2,
    ]
    with pytest.raises(UserError, match=r"^no$"):
        link.call("refuse", text="no")
    link.close()
    link.close()
    with pytest.raises(EngineLostError):
        link.call("double", x=np.ones(2))


def test_a_simulator_says_so_when_its_server_died_and_goes_on_after_a_reset() -> None:
    sim = HOSTED.make(1)
    assert isinstance(sim, RemoteSimulator)
    sim.reset([episode()], [0])
    os.kill(sim._link.process.pid, signal.SIGKILL)  # type: ignore[attr-defined]
    with pytest.raises(EngineLostError, match=r"MuJoCo server was killed by SIGKILL"):
        sim.step(np.zeros((1, 10)))
    with pytest.raises(EngineLostError, match="reset the simulator"):
        sim.capture()
    sim.reset([episode()], [0])
    sim.step(np.zeros((1, 10)))
    assert sim.state().step_count[0] == 1, "a reset starts another server"
    sim.close()
    assert not children()


def test_states_that_nobody_holds_are_dropped_by_the_server() -> None:
    with HOSTED.make(1) as sim:
        assert isinstance(sim, RemoteSimulator)
        sim.reset([episode()], [0])
        first = sim.capture()
        kept = first.data["kept"].number
        del first
        gc.collect()
        again = sim.capture()
        with pytest.raises(RuntimeError, match="KeyError"):
            sim._link.call("restore", number=kept)
        sim.restore(again)
        with HOSTED.make(1) as other:
            other.reset([episode()], [0])
            with pytest.raises(UserError, match="the simulator that made it"):
                other.restore(again)


def test_the_server_s_files_are_python_3_9_and_import_nothing_of_ours() -> None:
    folder = linking.SERVER.parent
    for path in folder.glob("*.py"):
        tree = ast.parse(path.read_text(), feature_version=(3, 9))
        for node in ast.walk(tree):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not any(n.split(".")[0] == "tpsrl" for n in names), path.name


def test_an_old_interpreter_serves_too() -> None:
    python = os.environ.get(OLD_PYTHON)
    if not python:
        pytest.skip(f"{OLD_PYTHON} names no Python 3.9 with NumPy")
    with closing(ServerProcess(python, "parts:make", {}, path=[FOLDER])) as link:
        assert link.versions["python"].startswith("3.9.")
        values = np.random.default_rng(1).normal(size=(4, 4))
        assert np.array_equal(link.call("double", x=values), 2 * values)
        with pytest.raises(UserError, match=r"^old$"):
            link.call("refuse", text="old")


class closing:  # noqa: N801 - as in contextlib
    """Close a link at the end of a block, and see that its process is gone."""

    def __init__(self, link: ServerProcess) -> None:
        self.link = link

    def __enter__(self) -> ServerProcess:
        return self.link

    def __exit__(self, *exc: object) -> None:
        self.link.close()
        assert gone(self.link.process.pid)


def children() -> list[psutil.Process]:
    """Servers of this process that still run."""
    alive = [c for c in psutil.Process().children() if c.status() != psutil.STATUS_ZOMBIE]
    return [child for child in alive if "serve.py" in " ".join(child.cmdline())]


@pytest.mark.parametrize(
    "described",
    [
        [-64, "<f8", [3]], [wire.CLIENT, "<f8", [3]], [2 * wire.HALF - 8, "<f8", [3]],
        [wire.SERVER, "O", [3]], [wire.SERVER, "<f8", [-1]], [wire.SERVER, "<f8", [2**62, 4]],
        [wire.SERVER, "V8", [1]], [wire.SERVER, "x", [1]], [wire.SERVER, None, None], 3, None,
        [1.5, "<f8", [1]], [wire.SERVER, "<f8", [True]], [wire.SERVER, "<f8", [1] * 40],
    ],
)  # fmt: skip
def test_a_peer_that_lies_about_its_arrays_is_cut_off(described: object) -> None:
    ours, theirs = socket.socketpair()
    text = json.dumps({"value": {"__array__": described}}).encode()
    with ours, theirs, mmap.mmap(-1, 2 * wire.HALF) as memory:
        theirs.sendall(len(text).to_bytes(4, "little") + text)
        with pytest.raises(wire.WireError, match="array"):
            wire.Channel(ours, memory, wire.CLIENT).receive(5.0)
