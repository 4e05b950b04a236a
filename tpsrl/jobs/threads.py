"""One thread for linear algebra: several would add in another order and change the last bits."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController

_lock = threading.Lock()
_inside = 0
_outside: Any = None


@contextmanager
def one_thread() -> Iterator[None]:
    """Let NumPy's BLAS use one thread meanwhile, whatever the environment's variables say.

    A product that several threads share is split by their number, so that results would depend on
    the machine's cores and on ``OMP_NUM_THREADS``. May be nested, also in other threads: the
    number that was set before comes back when the last one leaves.
    """
    global _inside, _outside
    with _lock:
        _inside += 1
        if _inside == 1:
            _outside = _libraries().limit(limits=1)
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                _outside.restore_original_limits()


@cache
def _libraries() -> ThreadpoolController:
    """Find NumPy's, which is loaded wherever anything of ours is; the search takes 10 ms."""
    return ThreadpoolController().select(user_api="blas")
