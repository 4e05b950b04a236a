"""README pictures from the demo videos: ``python scripts/readme_pictures.py DEMO_FOLDER``.

With ``learned`` after the folder of ``make demo``: the picture of the learned skills alone.
"""

from __future__ import annotations

import sys
from pathlib import Path

import imageio_ffmpeg
import numpy as np
from PIL import Image

SCENARIOS = ("tidy_house", "prepare_groceries", "set_table")
IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"


def frames(video: Path) -> np.ndarray:
    """Return the pictures of a video without its panel, (n, 360, 480, 3) uint8."""
    reader = imageio_ffmpeg.read_frames(str(video))
    width, height = next(reader)["size"]
    wide = height * 4 // 3
    small = []
    for raw in reader:
        frame = np.frombuffer(raw, np.uint8).reshape(height, width, 3)[:, :wide]
        small.append(np.asarray(Image.fromarray(frame).resize((480, 360), Image.Resampling.BOX)))
    return np.stack(small)


def montage(videos: list[np.ndarray], fractions: list[float], out: Path) -> None:
    """Write one frame of each video side by side, at these fractions of their length."""
    size = (400, 300)
    sheet = Image.new("RGB", (size[0] * len(videos), size[1]))
    for column, (video, fraction) in enumerate(zip(videos, fractions, strict=True)):
        frame = Image.fromarray(video[int(fraction * (len(video) - 1))])
        sheet.paste(frame.resize(size, Image.Resampling.LANCZOS), (column * size[0], 0))
    sheet.save(out, optimize=True)


def animation(video: np.ndarray, first: float, seconds: float, out: Path) -> None:
    """Write a part of a video as a small GIF of 5 frames a second."""
    start = int(first * (len(video) - 1))
    part = video[start : start + int(30 * seconds) : 6]
    small = [Image.fromarray(frame).resize((320, 240), Image.Resampling.LANCZOS) for frame in part]
    # Most coverage keeps rare colours, and the wireframes are made of those.
    palette = small[len(small) // 3].quantize(256, method=Image.Quantize.MAXCOVERAGE)
    pictures = [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in small]
    pictures[0].save(
        out, save_all=True, append_images=pictures[1:], duration=200, loop=0, optimize=True
    )


def sheet(video: np.ndarray, out: Path, columns: int = 4, rows: int = 2) -> None:
    """Write frames of a video, evenly spread, in rows."""
    size = (300, 225)
    picture = Image.new("RGB", (size[0] * columns, size[1] * rows))
    for number, index in enumerate(np.linspace(0, len(video) - 1, columns * rows).astype(int)):
        frame = Image.fromarray(video[index]).resize(size, Image.Resampling.LANCZOS)
        picture.paste(frame, (number % columns * size[0], number // columns * size[1]))
    picture.save(out, optimize=True)


def main(folder: Path, first: float) -> None:
    """Write ``docs/images/scenarios.png`` and ``docs/images/set_table.gif``."""
    IMAGES.mkdir(parents=True, exist_ok=True)
    videos = [frames(folder / f"{name}.mp4") for name in SCENARIOS]
    montage(videos, [0.3, 0.45, 0.21], IMAGES / "scenarios.png")
    animation(videos[2], first, 3.4, IMAGES / "set_table.gif")
    for path in sorted(IMAGES.iterdir()):
        print(f"{path}: {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    if not 2 <= len(sys.argv) <= 3:
        sys.exit(
            "usage: python scripts/readme_pictures.py DEMO_FOLDER [learned|GIF_START_FRACTION]"
        )
    if sys.argv[2:] == ["learned"]:
        sheet(frames(Path(sys.argv[1]) / "tidy_house.mp4"), IMAGES / "learned_tidy_house.png")
    else:
        main(Path(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) == 3 else 0.17)
