"""Writes episodes of an environment as videos, inside its own process."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import gymnasium as gym

from ver_trainer.errors import StorageError, TrainerError
from ver_trainer.files import replacing, writing


class VideoRecorder(gym.Wrapper[Any, Any, Any, Any]):
    """Writes the first ``episodes`` episodes to ``folder/episode_SEED.mp4``.

    By seed, since the environments of one evaluation share the folder.
    """

    def __init__(self, env: gym.Env[Any, Any], folder: str, episodes: int = 1) -> None:
        super().__init__(env)
        self._folder, self._left = Path(folder), episodes
        self._seed: int | None = None
        self._frames: list[Any] = []

    def reset(self, **kwargs: Any) -> Any:
        """Resets and writes the episode before."""
        self._write()
        self._seed = kwargs.get("seed")
        result = self.env.reset(**kwargs)
        self._grab()
        return result

    def step(self, action: Any) -> Any:
        """Steps and keeps a frame."""
        result = self.env.step(action)
        self._grab()
        return result

    def close(self) -> None:
        """Closes the environment; an unfinished episode is not written."""
        self._frames = []
        super().close()

    def _grab(self) -> None:
        if self._left > 0:
            self._frames.append(self.env.render())

    def _write(self) -> None:
        if self._left <= 0 or len(self._frames) < 2:
            self._frames = []
            return
        try:
            import imageio.v3 as iio
        except ModuleNotFoundError:
            raise TrainerError("videos need imageio: pip install 'imageio[ffmpeg]'") from None
        fps = self.env.metadata.get("render_fps", 30)
        path = self._folder / f"episode_{self._seed}.mp4"
        with writing(path):
            self._folder.mkdir(parents=True, exist_ok=True)
        with replacing(path) as temporary:
            iio.imwrite(temporary, self._frames, fps=fps, extension=".mp4")
            if not _is_whole(temporary):  # nobody looks at what ffmpeg returns
                raise StorageError(
                    f"the video '{path}' could not be written to its end: see ffmpeg's message "
                    "above (is the disk full?), then run the same command again"
                )
        self._left, self._frames = self._left - 1, []


def _is_whole(path: Path) -> bool:
    """Whether an MP4 file has its index, which ffmpeg writes last, and ends where a box ends."""
    position, names = 0, set()
    size = path.stat().st_size
    with path.open("rb") as file:
        while position < size:
            file.seek(position)
            length, name = struct.unpack(">I4s", file.read(8).ljust(8, b"\0"))
            if length == 1:
                (length,) = struct.unpack(">Q", file.read(8).ljust(8, b"\0"))
            if length < 8:
                return False
            names.add(name)
            position += length
    return position == size and b"moov" in names


def with_video(target: Any, folder: str, **kwargs: Any) -> gym.Env[Any, Any]:
    """Makes an environment that records its first episode."""
    from ver_trainer.envs.slot import EnvFactory

    return VideoRecorder(EnvFactory(target, kwargs)(render_mode="rgb_array"), folder)
