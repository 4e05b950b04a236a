"""Virtual environments for the peers that the trainer is measured against."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

PEERS = {
    "sample_factory": ["sample-factory==2.1.1", "huggingface-hub<1", "setuptools<81"],
    "sb3": ["sb3-contrib==2.9.2"],
    "learning": ["sb3-contrib==2.9.2", "popgym==1.0.7"],
    "skrl": ["skrl==2.1.1", "tqdm", "packaging", "tensorboard"],
    "lerobot": [
        "datasets>=4,<5",
        "accelerate>=1.10,<2",
        "av>=15,<16",
        "huggingface-hub>=0.34.2,<0.36",
        "packaging<26",
        "pandas",
        "pyarrow",
    ],
}
ALONE = {"lerobot": ["lerobot==0.4.4", "torchvision==0.22.1"]}
"""Installed without their dependencies: these pin another torch than ours."""


def folder() -> Path:
    """Where the environments live; ``VER_TRAINER_PEERS`` overrides it."""
    default = Path.home() / ".cache" / "ver_trainer" / "peers"
    return Path(os.environ.get("VER_TRAINER_PEERS", default))


def python_of(name: str) -> str:
    """Python of a peer's environment, which is made if it does not exist or has other pins.

    The peer sees this environment's packages behind its own (so torch is not downloaded again),
    and its own pins win: Sample Factory needs NumPy 1.

    Raises:
        RuntimeError: if pip cannot install the peer.
    """
    home = folder() / name
    python = home / "bin" / "python"
    pins, ready = "\n".join([*PEERS[name], *ALONE.get(name, [])]), home / "ready"
    if ready.exists() and ready.read_text() == pins:
        return str(python)
    print(f"setting up {name} in {home}", file=sys.stderr, flush=True)
    venv.create(home, with_pip=True, clear=True)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    site = home / "lib" / version / "site-packages"
    (site / "shared.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    alone = [["--no-deps", *ALONE[name]]] if name in ALONE else []
    for words in (PEERS[name], *alone):
        command = [str(python), "-m", "pip", "install", "--quiet", *words]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"pip could not install {name}: {done.stderr.strip()[-500:]}")
    ready.write_text(pins)
    return str(python)


if __name__ == "__main__":
    for peer in sys.argv[1:] or PEERS:
        print(peer, python_of(peer))
