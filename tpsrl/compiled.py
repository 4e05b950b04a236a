"""Functions compiled by Numba."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


def _njit(function: Callable[..., Any], cache: bool) -> Any:
    import numba  # half a second, which those who call no compiled function need not wait for

    return numba.njit(function, cache=cache, nogil=True, error_model="numpy")


def compiled(function: Callable[..., Any]) -> Any:
    """Compile a function at its first call; the code is kept on disk where that can be."""
    try:
        return _njit(function, cache=True)
    except RuntimeError:  # nowhere to keep the compiled code: every process makes its own
        return _njit(function, cache=False)


def compiled_later(function: Callable[..., Any]) -> Any:
    """Compile a function at its first call, without Numba until then; Python alone can call it."""
    made: list[Any] = []

    @functools.wraps(function)
    def call(*args: Any) -> Any:
        if not made:
            made.append(compiled(function))
        return made[0](*args)

    return call
