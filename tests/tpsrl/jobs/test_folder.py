"""The folder of a run: whose it is, and what damage does to it."""

import os
import re
import subprocess
import sys
from dataclasses import dataclass

import pytest

from tpsrl.errors import UserError
from tpsrl.jobs.folder import ResultFolder, StorageError, read_folder, read_wanted


@dataclass(frozen=True)
class Piece:
    index: int
    fingerprint: str = "a"


def filled(path, count=3, config=None):
    with ResultFolder(path, config or {"seed": 0}) as folder:
        for piece in folder.missing([Piece(k) for k in range(count)]):
            folder.append({"index": piece.index, "fingerprint": "a"})
    return path / "episodes.jsonl"


def test_only_what_is_missing_is_done(tmp_path):
    filled(tmp_path, 2)
    with ResultFolder(tmp_path, {"seed": 0}) as folder:
        assert [piece.index for piece in folder.missing(map(Piece, range(4)))] == [2, 3]
        assert [record["index"] for record in folder.first(1)] == [0]
    assert sorted(read_folder(tmp_path)[1]) == [0, 1]


def test_other_config_other_data_and_no_config_are_refused(tmp_path):
    filled(tmp_path)
    with pytest.raises(UserError, match="seed=0, this one has seed=1; choose another out="):
        ResultFolder(tmp_path, {"seed": 1})
    with (
        ResultFolder(tmp_path, {"seed": 0}) as folder,
        pytest.raises(UserError, match=r"episode 1 in .* is another one than in this data"),
    ):
        folder.missing([Piece(0), Piece(1, "b")])
    (tmp_path / "config.json").unlink()
    with pytest.raises(UserError, match=r"nobody can say what made it; choose another out="):
        ResultFolder(tmp_path, {"seed": 0})


@pytest.mark.parametrize("torn", ['{"index": 3, "fing', '{"index": 3, "fing\n', "\0\0\0\0\n"])
def test_a_torn_last_line_is_cut_off(tmp_path, torn):
    lines = filled(tmp_path)
    whole = lines.read_text()
    lines.write_text(whole + torn)
    assert lines.read_text() != whole
    filled(tmp_path)
    assert lines.read_text() == whole


def test_damaged_lines_and_lines_without_an_index_are_refused(tmp_path):
    lines = filled(tmp_path)
    whole = lines.read_text().splitlines()
    for text, what in ((whole[1][:9], "is damaged"), ('{"seed": 1}', "has no index")):
        lines.write_text("\n".join([whole[0], text, whole[2]]) + "\n")
        with pytest.raises(UserError, match=f"line 2 of .* {what}"):
            filled(tmp_path)
    lines.write_text('{"seed": 1}\n')  # the last line, but not torn
    with pytest.raises(UserError, match=r"line 1 of .* has no index"):
        filled(tmp_path)
    assert lines.read_text() == '{"seed": 1}\n'


HOLDER = """
import sys
from pathlib import Path
from tpsrl.jobs.folder import ResultFolder
with ResultFolder(Path(sys.argv[1]), {"seed": 0}):
    print("on", flush=True)
    sys.stdin.read()
"""


def test_the_lock_names_its_holder_and_ends_with_it(tmp_path):
    words = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout.readline() == b"on\n"
        for _ in range(2):  # asking does not overwrite the name
            with pytest.raises(StorageError) as error:
                ResultFolder(tmp_path, {"seed": 0})
            found = re.search(
                r"in use by another run, process (\d+) on \S+ since (\S+)T", str(error.value)
            )
            assert found and int(found[1]) == holder.pid != os.getpid()
        holder.kill()
    filled(tmp_path)


def test_a_summary_is_there_or_not(tmp_path):
    with ResultFolder(tmp_path, {}) as folder:
        assert folder.earlier_summary() == {}
        folder.write_summary({"complete": False})
        assert folder.earlier_summary() == {"complete": False}
        folder.remove()
    assert not tmp_path.exists()


def test_a_config_without_any_record_is_replaced(tmp_path):
    """A command that failed at its first episode does not stand in the way of the corrected one."""
    filled(tmp_path, 0, {"seed": 1})
    filled(tmp_path, 2)
    with pytest.raises(UserError, match="this one has seed=1"):
        filled(tmp_path, 2, {"seed": 1})
    (tmp_path / "episodes.jsonl").write_text("")
    (tmp_path / "000").mkdir()  # a training of a sweep, before any has ended
    with pytest.raises(UserError, match="this one has seed=1"):
        filled(tmp_path, 2, {"seed": 1})


def test_a_sweep_is_no_evaluation(tmp_path):
    filled(tmp_path)
    (tmp_path / "summary.json").write_text('{"over": {}}')
    with pytest.raises(UserError, match=r"holds no evaluation: summary.json has no number 'wante"):
        read_wanted(tmp_path)


REMOVED = """
import os, sys
from pathlib import Path
from tpsrl.jobs.folder import ResultFolder

def watch(event, words):
    if event == "os.remove" and Path(words[0]).name == "episodes.jsonl":
        for number in os.listdir("/proc/self/fd"):
            if os.path.realpath(f"/proc/self/fd/{number}").endswith("episodes.jsonl"):
                print("still open")

sys.addaudithook(watch)
with ResultFolder(Path(sys.argv[1]), {}) as folder:
    folder.remove()
"""


def test_no_file_is_removed_while_it_is_open(tmp_path):
    """NFS would keep it under another name, and the folder with it."""
    words = [sys.executable, "-c", REMOVED, str(tmp_path / "run")]
    assert subprocess.run(words, capture_output=True, check=True).stdout == b""
    assert not (tmp_path / "run").exists()


def test_a_summary_without_any_record_does_not_lock_the_folder(tmp_path):
    """A command that could not begin writes one, too."""
    with ResultFolder(tmp_path, {"seed": 1}) as folder:
        folder.write_summary({"complete": False, "episodes": 0})
    filled(tmp_path, 1)
    with ResultFolder(tmp_path, {"seed": 0}) as folder:
        folder.write_summary({"complete": True, "episodes": 1})
    with pytest.raises(UserError, match="this one has seed=1"):
        filled(tmp_path, 2, {"seed": 1})
