"""A connection to a Ray cluster, or to one that lives as long as the command."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import Any

from tpsrl.errors import UserError
from tpsrl.launch.config import LaunchConfig, need


@contextmanager
def connected(launch: LaunchConfig, cpus: int) -> Iterator[Any]:
    """Yield the ``ray`` module, connected.

    Args:
        launch: ``address`` is that of a cluster; ``None`` starts one in processes of this machine,
            which end with this one, however it ends.
        cpus: cores that such a cluster counts.

    Raises:
        UserError: Ray is not installed, no cluster answers at the address or lets us in, or none
            can start here.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    ray = need("ray")
    # Ray's own words on what happens to nodes would bury ours; they are in its log folder.
    options: dict[str, Any] = {"logging_level": "warning", "log_to_driver": False}
    own = launch.address is None
    if own:
        options |= {"address": "local", "num_cpus": cpus, "include_dashboard": False}
    else:
        options |= {"address": launch.address}
    try:
        _knock(launch.address or "")
        context = _init(ray, options)
    except (OSError, ValueError, RuntimeError, ray.exceptions.RayError) as error:
        raise UserError(_refusal(launch.address, error)) from None
    # A client (ray://) is told of no session.
    with _guarded(context.address_info["session_dir"]) if own else nullcontext():
        try:
            yield ray
        finally:
            ray.shutdown()


def _init(ray: Any, options: dict[str, Any]) -> Any:
    """Connect. A client gets a server of its own, which may die as it starts: it gets another.

    Returns:
        What ``ray.init`` does.

    Raises:
        OSError, ValueError, RuntimeError, RayError: as ``ray.init`` does.
    """
    with suppress(ConnectionAbortedError):
        return ray.init(**options)
    return ray.init(**options)


def _refusal(address: str | None, error: Exception) -> str:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    # A client gets the server's traceback under a heading of one line.
    reason = lines[-1 if lines[0].endswith("from server:") else 0].rstrip(".")
    if address is None:
        return f"a Ray cluster cannot start here ({reason}); see to that, or leave launch=ray out"
    return (
        f"launch.address={address}: no Ray cluster answers ({reason}); start one with"
        " 'ray start --head', or leave the address out"
    )


@contextmanager
def _guarded(session: str) -> Iterator[None]:
    """End what is left of a session after the block, also when this process is killed in it."""
    command = [sys.executable, "-m", "tpsrl.launch.guard", session]
    guard = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
    try:
        yield
    finally:
        guard.communicate()


def _knock(address: str) -> None:
    """Refuse an address where nobody listens, at which Ray would wait for minutes.

    Raises:
        OSError: nobody does.
    """
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if port.isdigit():
        socket.create_connection((host, int(port)), timeout=10).close()
