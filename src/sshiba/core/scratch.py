"""Arrays in a file that has no name: it is gone when nobody needs it any more, however the process ends."""

from __future__ import annotations

import mmap
import os
import tempfile
from math import prod
from typing import Any

import numpy as np

SEGMENT = 2**28  # bytes of a file
LARGE = 2**30  # bytes of an answer from which on it lies in a scratch file


class RowsLostError(OSError):
    """Rows, or what is kept of them, can no longer be read or written."""


class ScratchError(RowsLostError):
    """There is no room for scratch files."""


class Scratch:
    """Room for arrays in files; each file is freed with the last array in it.

    They lie in the folder for temporary files (TMPDIR).
    """

    def __init__(self) -> None:
        self._segment: mmap.mmap | None = None
        self._used = 0

    def empty(self, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        """An array whose values are not set."""
        dtype = np.dtype(dtype)
        n_bytes = int(np.prod(shape)) * dtype.itemsize
        if n_bytes == 0:
            return np.empty(shape, dtype)
        if self._segment is None or self._used + n_bytes > len(self._segment):
            self._segment, self._used = open_segment(max(SEGMENT, n_bytes)), 0
        found = np.frombuffer(self._segment, dtype, int(np.prod(shape)), self._used).reshape(shape)
        self._used += -(-n_bytes // 64) * 64
        return found

    def keep(self, array: np.ndarray) -> np.ndarray:
        """A copy of an array that takes no memory but that of the file."""
        found = self.empty(array.shape, array.dtype)
        found[...] = array
        return found


def empty_answer(shape: tuple[int, ...], dtype: Any = float) -> np.ndarray:
    """Room for what is said of all rows: in memory, or in a scratch file where it is large."""
    large = prod(shape) * np.dtype(dtype).itemsize > LARGE and not np.dtype(dtype).hasobject
    return Scratch().empty(shape, dtype) if large else np.empty(shape, dtype)


def in_scratch(array: np.ndarray) -> bool:
    """Does an array lie in a scratch file?"""
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    return isinstance(base, memoryview) and isinstance(base.obj, mmap.mmap)


def empty_like_kept(array: np.ndarray, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Room for what is made of an array: in a scratch file if that lies in one, else in memory."""
    return (Scratch().empty if in_scratch(array) else np.empty)(shape, dtype)


def open_segment(n_bytes: int) -> mmap.mmap:
    """A file of this size in memory. All of it is taken at once: a write could not say that the disk is full."""
    try:
        with tempfile.TemporaryFile(prefix="sshiba-") as file:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, n_bytes)
            else:
                for _ in range(0, n_bytes, SEGMENT):
                    file.write(bytes(min(SEGMENT, n_bytes)))
                file.flush()
            return mmap.mmap(file.fileno(), n_bytes)
    except OSError as error:
        raise no_room(error, f" of {n_bytes / 1e9:.1f} GB") from error


def no_room(error: OSError, size: str = "") -> ScratchError:
    """What is raised where a scratch file cannot be written."""
    return ScratchError(
        f"there is no room for a scratch file{size} in {tempfile.gettempdir()!r}: {error.strerror}. "
        "Free some, or set the environment variable TMPDIR to another folder."
    )
