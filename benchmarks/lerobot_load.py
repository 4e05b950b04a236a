"""Loads a data set with LeRobot's own package; started by ``benchmarks.lerobot`` in its Python.

``python -m benchmarks.lerobot_load FOLDER FRAMES`` prints what was read as JSON.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

# torchvision's compiled operators are built for another torch than ours and not needed here; but
# it does not import where one of them is unknown.
torch.library.define("torchvision::nms", "(Tensor dets, Tensor scores, float threshold) -> Tensor")


def load(folder: Path, frames: int) -> dict[str, Any]:
    """Read random frames, each with the next 10 actions, as a policy learns from them."""
    from lerobot import __version__
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    chunk = {"action": [k / 30 for k in range(10)]}
    data = LeRobotDataset(
        f"tpsrl/{folder.name}", root=folder, video_backend="pyav", delta_timestamps=chunk
    )
    raw = data.hf_dataset.with_format("numpy")
    rng, begin = np.random.default_rng(0), time.process_time()
    for index in rng.choice(len(data), min(frames, len(data)), replace=False):
        item = data[int(index)]
        assert item["action"].shape == (10, 10)
        assert torch.equal(item["action"][0], torch.as_tensor(raw[int(index)]["action"]))
        for key in data.meta.video_keys:
            assert tuple(item[key].shape) == (3, *data.meta.shapes[key][:2]), key
            assert 0.0 <= float(item[key].min()) < float(item[key].max()) <= 1.0, key
    return {
        "lerobot": __version__,
        "episodes": data.num_episodes,
        "frames": data.num_frames,
        "read": min(frames, len(data)),
        "cpu_ms_a_frame": 1000 * (time.process_time() - begin) / min(frames, len(data)),
        "task": item["task"],
        "subtask": item["subtask"],
        "shapes": {k: list(v.shape) for k, v in item.items() if isinstance(v, torch.Tensor)},
    }


if __name__ == "__main__":
    print(json.dumps(load(Path(sys.argv[1]).resolve(), int(sys.argv[2]))))
