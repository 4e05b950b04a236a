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


class compiled_later:  # noqa: N801
    """Compile a function at its first call, without Numba until then.

    Python and other compiled functions can call it.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function)
        self._function, self._made = function, None

    def __call__(self, *args: Any) -> Any:
        """Call the compiled function."""
        return self._dispatcher(*args)

    @property
    def _numba_type_(self) -> Any:
        # What Numba asks of a name that the function it compiles uses.
        return self._dispatcher._numba_type_

    @property
    def _dispatcher(self) -> Any:
        if self._made is None:
            self._made = compiled(self._function)
        return self._made
