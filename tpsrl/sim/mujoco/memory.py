"""Compiled code that reads MuJoCo's arrays where they lie, of many worlds in one call.

An array handed to compiled code costs a tenth of a microsecond, and a world has dozens; an address
costs nothing. A world therefore lists the addresses of its arrays once (:class:`Addresses`).
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numba.extending import intrinsic

from tpsrl.compiled import compiled


@intrinsic
def _pointer_f8(context: Any, address: Any) -> Any:
    """Return the address of float64 values as a pointer."""
    return _cast(numba.types.float64, address)


@intrinsic
def _pointer_i4(context: Any, address: Any) -> Any:
    """Return the address of int32 values as a pointer."""
    return _cast(numba.types.int32, address)


@intrinsic
def _pointer_i8(context: Any, address: Any) -> Any:
    """Return the address of int64 values as a pointer."""
    return _cast(numba.types.int64, address)


def _cast(kind: Any, address: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.inttoptr(values[0], context.get_value_type(signature.return_type))

    return numba.types.CPointer(kind)(address), generate


@compiled
def floats(address: int, rows: int, columns: int) -> np.ndarray:
    """Return the (rows, columns) float64 array at an address, not a copy."""
    return numba.carray(_pointer_f8(address), (rows, columns))  # type: ignore[call-arg]


@compiled
def numbers(address: int, size: int) -> np.ndarray:
    """Return the (size,) int32 array at an address, not a copy."""
    return numba.carray(_pointer_i4(address), (size,))  # type: ignore[call-arg]


@compiled
def words(address: int, size: int) -> np.ndarray:
    """Return the (size,) int64 array at an address, not a copy."""
    return numba.carray(_pointer_i8(address), (size,))  # type: ignore[call-arg]


_KINDS = (np.float64, np.int32, np.int64)


class Addresses:
    """Where arrays of a world lie; keeps them alive.

    Args:
        arrays: contiguous, float64, int32 or int64.
        sizes: what compiled code has to know beside them.

    Attributes:
        table: (k,) int64 addresses, then the sizes.
    """

    def __init__(self, arrays: list[np.ndarray], sizes: tuple[int, ...] = ()) -> None:
        for array in arrays:
            if not array.flags.c_contiguous or array.dtype not in _KINDS:
                raise ValueError(f"cannot take the address of an array of {array.dtype}")
        self._arrays = arrays
        self.table = np.array([*(array.ctypes.data for array in arrays), *sizes], dtype=np.int64)
