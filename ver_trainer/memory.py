"""Keeps the C library from handing freed memory back to the kernel."""

from __future__ import annotations

import ctypes
import functools
import sys

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_NEVER = 2**31 - 1


@functools.cache
def keep_freed_memory() -> bool:
    """Tells glibc to keep what is freed for the next allocation; true if it was told.

    By default every large tensor is mapped afresh, and the kernel has to clear its pages: with
    64x64 images on a CPU that is a fifth of the learner's time. The process stays as big as it
    ever was. Other C libraries are left alone.
    """
    if not sys.platform.startswith("linux"):
        return False
    library = ctypes.CDLL(None)
    if not hasattr(library, "gnu_get_libc_version"):
        return False
    # Older versions accept no threshold above 32 MiB.
    raised = any(library.mallopt(_M_MMAP_THRESHOLD, size) for size in (1 << 30, 32 << 20))
    return bool(raised and library.mallopt(_M_TRIM_THRESHOLD, _NEVER))
