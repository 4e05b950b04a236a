"""Functions compiled by Numba."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba


def _njit(function: Callable[..., Any], cache: bool) -> Any:
    return numba.njit(function, cache=cache, nogil=True, error_model="numpy")


def compiled(function: Callable[..., Any]) -> Any:
    """Compile a function at its first call; the code is kept on disk where that can be."""
    try:
        return _njit(function, cache=True)
    except RuntimeError:  # nowhere to keep the compiled code: every process makes its own
        return _njit(function, cache=False)
