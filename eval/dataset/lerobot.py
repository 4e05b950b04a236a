"""Writes recorded episodes as a data set of LeRobot's format v3.0.

Facts of the format (lerobot 0.4.4, ``lerobot.datasets``): one Parquet row a frame in ``data/``, one
mp4 stream a camera in ``videos/``, many episodes in a file, and in ``meta/`` what is in them:
``info.json``, ``stats.json``, ``tasks.parquet``, ``subtasks.parquet`` and, with where each episode
begins and ends in which file, ``episodes/``. Tables of words are indexed by the words, as pandas
writes an index. Beside these stand two files of our own, which replaying needs.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from eval.dataset.frames import ACTIONS, STATE, goal_sensors, names_of
from eval.dataset.record import CAMERAS, part_of, read_frames
from eval.dataset.statistics import Stats, of_rows, together
from tpsrl import provenance
from tpsrl.errors import UserError
from tpsrl.files import write_json
from tpsrl.robot import fetch

VERSION = "v3.0"
FILES_IN_CHUNK, DATA_MB, VIDEO_MB = 1000, 100, 200
DATA = "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
VIDEO = "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"
EPISODES = "meta/episodes/chunk-000/file-000.parquet"
RUNS, PROBLEMS = "meta/tpsrl.json", "meta/tpsrl_episodes.json.gz"
"""Seeds, results and digests of the episodes, and the problems that were solved in them."""
_NUMBERS = {
    "timestamp": "float32", "frame_index": "int64", "episode_index": "int64", "index": "int64",
    "task_index": "int64", "subtask_index": "int64", "next.done": "bool", "next.success": "bool",
}  # fmt: skip


def video_key(camera: str) -> str:
    """Return the name of a camera's feature."""
    return f"observation.images.{camera}"


def parquet() -> Any:
    """Return pyarrow's Parquet module.

    Raises:
        UserError: it is not installed.
    """
    try:
        import pyarrow.parquet
    except ImportError:
        raise UserError("data sets need pyarrow: pip install 'tpsrl[dataset]'") from None
    return pyarrow.parquet


def features(pixels: int, depth: int) -> dict[str, Any]:
    """Return what a frame holds, as ``meta/info.json`` says it."""
    vectors = {
        "observation.state": names_of(STATE),
        "observation.environment_state": names_of(goal_sensors()),
        "action": list(ACTIONS),
    }
    found: dict[str, Any] = {
        key: {"dtype": "float32", "shape": [len(names)], "names": names}
        for key, names in vectors.items()
    }
    for camera in CAMERAS:
        side = depth if camera == "head_depth" else pixels
        shown = "yuvj420p" if camera == "head_depth" else "yuv420p"
        stream = {
            "video.height": side, "video.width": side, "video.codec": "h264",
            "video.pix_fmt": shown, "video.is_depth_map": False, "video.channels": 3,
            "video.fps": fetch.CONTROL_HZ, "has_audio": False,
        }  # fmt: skip
        found[video_key(camera)] = {
            "dtype": "video",
            "shape": [side, side, 3],
            "names": ["height", "width", "channels"],
            "info": stream,
        }
    return found | {
        key: {"dtype": kind, "shape": [1], "names": None} for key, kind in _NUMBERS.items()
    }


def pack(parts: Path, records: Sequence[Mapping[str, Any]], out: Path, info: dict[str, Any],
         config: Mapping[str, Any]) -> None:  # fmt: skip
    """Make a data set of recorded episodes.

    Args:
        parts: folder of the episodes' folders.
        records: of the episodes to put in, in order.
        out: a new folder, which appears when it is whole.
        info: features of a frame, see :func:`features`.
        config: of the recording.

    Raises:
        UserError: there is no episode, or the encoder fails.
    """
    if not records:
        raise UserError(f"{out}: no episode ended in success; failures=true keeps the others, too")
    making = out.with_name(f".{out.name}.making")
    shutil.rmtree(making, ignore_errors=True)
    words = _Words()
    rows: list[dict[str, Any]] = [{} for _ in records]
    _write_data(parts, records, making, info, words, rows)
    _write_videos(parts, records, making, rows)
    _write_meta(making, records, info, words, rows)
    shutil.copy(parts / "episodes.json.gz", making / PROBLEMS)
    runs = [
        {key: record[key] for key in ("index", "episode_id", "seed", "success", "steps", "states")}
        for record in records
    ]
    facts = {"versions": provenance.versions(), "commit": provenance.git_commit()}
    write_json(making / RUNS, {"episodes": runs, "config": dict(config), **facts})
    if out.exists():
        out.rmdir()
    making.rename(out)


class _Words:
    """Sentences and their numbers."""

    def __init__(self) -> None:
        self.tasks: dict[str, int] = {}
        self.subtasks: dict[str, int] = {}
        self.skills: dict[str, str] = {}

    def task(self, text: str) -> int:
        return self.tasks.setdefault(text, len(self.tasks))

    def subtask(self, text: str, skill: str) -> int:
        self.skills.setdefault(text, skill)
        return self.subtasks.setdefault(text, len(self.subtasks))


def _write_data(
    parts: Path,
    records: Sequence[Mapping[str, Any]],
    out: Path,
    info: Mapping[str, Any],
    words: _Words,
    rows: list[dict[str, Any]],
) -> None:
    """Write the frames, and into ``rows`` where those of each episode are."""
    import pyarrow

    begin, tables = 0, []
    for number, record in enumerate(records):
        columns = _columns(
            read_frames(part_of(parts, record["index"])), record, number, begin, words
        )
        arrays = [_array(columns[key], spec) for key, spec in info.items() if key in columns]
        tables.append(pyarrow.table(arrays, [key for key in info if key in columns]))
        end = begin + len(tables[-1])
        rows[number] |= {
            "length": end - begin,
            "dataset_from_index": begin,
            "dataset_to_index": end,
        }
        rows[number]["stats"] = {key: of_rows(values) for key, values in columns.items()}
        begin = end
    for file, group in enumerate(_fill([table.nbytes for table in tables], DATA_MB)):
        chunk, place = divmod(file, FILES_IN_CHUNK)
        path = out / DATA.format(chunk_index=chunk, file_index=place)
        path.parent.mkdir(parents=True, exist_ok=True)
        with parquet().ParquetWriter(path, tables[0].schema) as writer:
            for number in group:
                writer.write_table(tables[number])
                rows[number] |= {"data/chunk_index": chunk, "data/file_index": place}


def _columns(
    frames: Mapping[str, np.ndarray],
    record: Mapping[str, Any],
    number: int,
    begin: int,
    words: _Words,
) -> dict[str, np.ndarray]:
    """Return what the Parquet rows of an episode hold."""
    count = len(frames["action"])
    k = np.arange(count)
    done = k == count - 1
    subtasks = [
        words.subtask(*pair) for pair in zip(frames["subtask"], frames["skill"], strict=True)
    ]
    return {
        **{key: values for key, values in frames.items() if values.dtype == np.float32},
        "timestamp": (k / fetch.CONTROL_HZ).astype(np.float32),
        "frame_index": k,
        "episode_index": np.full(count, number),
        "index": begin + k,
        "task_index": np.full(count, words.task(record["extra"]["task"])),
        "subtask_index": np.array(subtasks),
        "next.done": done,
        "next.success": done & bool(record["success"]),
    }


def _array(values: np.ndarray, spec: Mapping[str, Any]) -> Any:
    import pyarrow

    kind = pyarrow.type_for_alias(spec["dtype"])
    if values.ndim == 1:
        return pyarrow.array(values, kind)
    flat = pyarrow.array(values.reshape(-1), kind)
    return pyarrow.FixedSizeListArray.from_arrays(flat, values.shape[1])


def _fill(sizes: Sequence[int], megabytes: int) -> list[list[int]]:
    """Return which episodes share a file, so that none is larger than it should be."""
    files: list[list[int]] = []
    room = 0
    for number, size in enumerate(sizes):
        if not files or size > room:
            files.append([])
            room = megabytes * 1024**2
        files[-1].append(number)
        room -= size
    return files


def _write_videos(
    parts: Path, records: Sequence[Mapping[str, Any]], out: Path, rows: list[dict[str, Any]]
) -> None:
    """Join the videos, and write into ``rows`` where those of each episode are."""
    for camera in CAMERAS:
        key = video_key(camera)
        sources = [part_of(parts, record["index"]) / f"{camera}.mp4" for record in records]
        for file, group in enumerate(_fill([s.stat().st_size for s in sources], VIDEO_MB)):
            chunk, place = divmod(file, FILES_IN_CHUNK)
            path = out / VIDEO.format(video_key=key, chunk_index=chunk, file_index=place)
            _join([sources[number] for number in group], path)
            begin = 0
            for number in group:
                end = begin + rows[number]["length"]
                rows[number] |= {
                    f"videos/{key}/chunk_index": chunk,
                    f"videos/{key}/file_index": place,
                    f"videos/{key}/from_timestamp": begin / fetch.CONTROL_HZ,
                    f"videos/{key}/to_timestamp": end / fetch.CONTROL_HZ,
                }
                begin = end
        for number, record in enumerate(records):
            frames = read_frames(part_of(parts, record["index"]))
            prefix = f"stats/{camera}/"
            stats = {k.removeprefix(prefix): v for k, v in frames.items() if k.startswith(prefix)}
            rows[number]["stats"][key] = stats


def _join(sources: Sequence[Path], path: Path) -> None:
    """Put videos one behind the other, without encoding them again."""
    import imageio_ffmpeg

    path.parent.mkdir(parents=True, exist_ok=True)
    names = path.with_suffix(".txt")
    quoted = (str(source.resolve()).replace("'", "'\\''") for source in sources)
    names.write_text("".join(f"file '{source}'\n" for source in quoted))
    done = subprocess.run(
        [imageio_ffmpeg.get_ffmpeg_exe(), "-v", "error", "-f", "concat", "-safe", "0",
         "-i", str(names), "-c", "copy", "-movflags", "+faststart", "-y", str(path)],
        capture_output=True, text=True, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    names.unlink()
    if done.returncode:
        raise UserError(f"cannot write {path}: {done.stderr.strip()[-300:]}; is the disk full?")


def _write_meta(
    out: Path,
    records: Sequence[Mapping[str, Any]],
    info: Mapping[str, Any],
    words: _Words,
    rows: list[dict[str, Any]],
) -> None:
    import pyarrow

    stats = [row.pop("stats") for row in rows]
    columns: dict[str, list[Any]] = {
        "episode_index": list(range(len(rows))),
        "tasks": [[record["extra"]["task"]] for record in records],
        **{key: [row[key] for row in rows] for key in rows[0]},
        **_stats_columns(stats),
        "meta/episodes/chunk_index": [0] * len(rows),
        "meta/episodes/file_index": [0] * len(rows),
    }
    (out / EPISODES).parent.mkdir(parents=True, exist_ok=True)
    parquet().write_table(pyarrow.table(columns), out / EPISODES)
    _write_words(
        out / "meta/tasks.parquet", {"task_index": list(words.tasks.values())}, words.tasks
    )
    named: dict[str, list[Any]] = {
        "subtask_index": list(words.subtasks.values()),
        "skill": [words.skills[text] for text in words.subtasks],
    }
    _write_words(out / "meta/subtasks.parquet", named, words.subtasks)
    whole: dict[str, Stats] = {key: together([s[key] for s in stats]) for key in stats[0]}
    write_json(
        out / "meta/stats.json",
        {k: {name: v.tolist() for name, v in of.items()} for k, of in whole.items()},
    )
    write_json(
        out / "meta/info.json",
        {
            "codebase_version": VERSION,
            "robot_type": "fetch",
            "total_episodes": len(rows),
            "total_frames": rows[-1]["dataset_to_index"],
            "total_tasks": len(words.tasks),
            "chunks_size": FILES_IN_CHUNK,
            "data_files_size_in_mb": DATA_MB,
            "video_files_size_in_mb": VIDEO_MB,
            "fps": fetch.CONTROL_HZ,
            "splits": {"train": f"0:{len(rows)}"},
            "data_path": DATA,
            "video_path": VIDEO,
            "features": dict(info),
        },
    )


def _stats_columns(stats: Sequence[Mapping[str, Stats]]) -> dict[str, list[Any]]:
    return {
        f"stats/{key}/{name}": [episode[key][name].tolist() for episode in stats]
        for key in stats[0]
        for name in stats[0][key]
    }


def _write_words(path: Path, columns: Mapping[str, list[Any]], texts: Mapping[str, int]) -> None:
    """Write a table whose index are sentences, such that pandas reads it as one."""
    import pyarrow

    index = "__index_level_0__"
    table = pyarrow.table({**columns, index: list(texts)})
    kinds = {"int64": ("int64", "int64"), "string": ("unicode", "object")}
    described = [
        {
            "name": None if field.name == index else field.name,
            "field_name": field.name,
            "pandas_type": kinds[str(field.type)][0],
            "numpy_type": kinds[str(field.type)][1],
            "metadata": None,
        }
        for field in table.schema
    ]
    known = {
        "index_columns": [index],
        "column_indexes": [
            {"name": None, "field_name": None, "pandas_type": "unicode", "numpy_type": "object",
             "metadata": {"encoding": "UTF-8"}}
        ],
        "columns": described,
    }  # fmt: skip
    table = table.replace_schema_metadata({"pandas": json.dumps(known)})
    parquet().write_table(table, path)
