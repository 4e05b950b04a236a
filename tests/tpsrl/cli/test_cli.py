from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tpsrl.cli import commands, main, summary
from tpsrl.commands.setup import probe_opengl

COMMANDS = {name: summary(module) for name, module in commands().items()}

ROOT = Path(__file__).resolve().parents[3]


def tpsrl(*words: str, **options) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-m", "tpsrl", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        **options,
    )


def test_top_level_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    for name, line in COMMANDS.items():
        assert name in text and line in text
    assert main([]) == 2


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_all_keys(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([name, "--help"]) == 0
    text = capsys.readouterr().out
    assert f"usage: tpsrl {name}" in text and "(with their defaults):" in text


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["evla"], ["unknown command 'evla'", "'eval'"]),
        (["eval", "scenario=tidyhouse"], ["'tidyhouse'", "'tidy_house'"]),
        (["eval", "split=vla"], ["'vla'", "'val'"]),
        (["eval", "agent=skripted"], ["'skripted'", "'scripted'"]),
        (["eval", "executor=hub"], ["'hub'", "'hab'"]),
        (["eval", "executer=hab"], ["unknown key 'executer'", "'executor'"]),
        (["eval", "episodes=0"], ["0", "'episodes'", "at least 1"]),
        (["eval", "data=/none/x.json.gz"], ["/none/x.json.gz"]),
        (["record", "episode=4711"], ["episode=4711", "does not exist"]),
        (["record", "out=x.avi"], ["x.avi", ".mp4"]),
        (["record", "episode"], ["'episode'", "key=value"]),
        (["setup", "instal=true"], ["unknown key 'instal'", "'install'"]),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(
    words: list[str], parts: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("tpsrl: ") and captured.err.count("\n") == 1
    for part in parts:
        assert part in captured.err


def test_the_command_line_starts_without_heavy_libraries() -> None:
    code = (
        "import sys; from tpsrl.cli import main; main(['--help']);"
        "heavy = {'torch', 'mujoco', 'matplotlib', 'gymnasium'} & set(sys.modules);"
        "sys.exit(bool(heavy))"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0


def test_missing_opengl_names_the_packages() -> None:
    result = tpsrl("setup", "install=false", env={**os.environ, "MUJOCO_GL": "bogus"})
    assert result.returncode == 1
    assert "apt-get install" in result.stderr and "libegl1" in result.stderr


def test_opengl_works_here() -> None:
    result = tpsrl("setup", "install=false")
    assert result.returncode == 0 and "off-screen OpenGL: " in result.stdout, result.stderr


def test_ctrl_c_is_one_line_and_130(tmp_path: Path) -> None:
    code = (
        "import sys, time, types; import tpsrl.cli as cli;"
        "m = types.ModuleType('m'); m.HELP = '';"
        "m.run = lambda words: (print('on', flush=True), time.sleep(60));"
        "sys.modules['eval.commands.demo'] = m; sys.exit(cli.main(['demo']))"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stdout.readline() == "on\n"
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=20)
    assert process.returncode == 130 and errors == "tpsrl: interrupted\n"


@pytest.mark.parametrize("delay", [0.0, 0.05, 0.1, 0.2])
def test_ctrl_c_while_the_command_line_is_imported_is_one_line(delay: float) -> None:
    code = (
        "from tpsrl import start; start.answer_ctrl_c(); print('on', flush=True);"
        "import sys; sys.argv = ['tpsrl', 'eval', 'scenario=set_table', 'out=/dev/null/x'];"
        "sys.exit(start.main())"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stdout.readline() == "on\n"
    time.sleep(delay)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode in (130, 2) and errors.count("\n") == 1, errors


def test_an_opengl_check_that_hangs_is_told() -> None:
    assert probe_opengl(0.01) == (
        None,
        "the OpenGL check has not ended within 0.01 s; is a driver stuck?",
    )
