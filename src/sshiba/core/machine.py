"""How much memory there is, and how much may be used."""

from __future__ import annotations

import ctypes
import os
import re
import sys
from numbers import Real
from pathlib import Path
from typing import Any

SHARE = 0.6  # of the memory that is free now, where the user says nothing
UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "KI": 2**10, "MI": 2**20, "GI": 2**30, "TI": 2**40}
SIZE = r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([KMGT]I?)?B?\s*"  # a number and a unit, in capitals
LEAST = 64 * 10**6
CHUNK_BYTES = 2**26
CHUNKS_IN_MEMORY = 32  # of what may be used: they are read ahead, and copied as they are learned
MACHINE, CONTAINER = Path("/proc/meminfo"), Path("/sys/fs/cgroup")
CONTAINER_FILES = (  # limit, use, statistics, and what these call pages of files that nobody misses; of both versions
    ("memory.max", "memory.current", "memory.stat", "inactive_file"),
    ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "memory/memory.stat", "total_inactive_file"),
)


def memory_limit(given: Any) -> float:
    """Bytes that a fit may use: as given, 4e9, "4GB" or "500MiB"; None: a share of what this machine has free."""
    if given is None:
        return max(SHARE * free_memory(), LEAST)
    found = re.fullmatch(SIZE, given.upper()) if isinstance(given, str) else None
    if isinstance(given, bool) or not (found or isinstance(given, Real)):
        raise ValueError(f"max_memory must be a size, such as '4GB' or 4e9, not {given!r}.")
    n_bytes = float(found[1]) * UNITS[found[2] or ""] if found else float(given)
    if not n_bytes >= LEAST:
        raise ValueError(f"max_memory must be at least {LEAST // 10**6} MB, not {given!r}.")
    return n_bytes


def chunk_bytes(limit: float) -> float:
    """Bytes of rows that are not in memory, read at a time."""
    return min(CHUNK_BYTES, limit / CHUNKS_IN_MEMORY)


def give_back() -> None:
    """Let the system have memory that was freed and that the C library of Linux keeps; elsewhere it does nothing."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)


def free_memory(machine: Path = MACHINE, container: Path = CONTAINER) -> int:
    """Bytes that this process could still take, as far as the system says: of the machine, and of its container."""
    free = [left for left in (_left_in_container(container), _free_on_machine(machine)) if left is not None]
    return min(free, default=4 * 10**9)


def _free_on_machine(file: Path) -> int | None:
    available = _numbers_in(file).get("MemAvailable:")
    if available is not None:
        return 1024 * available
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):  # not on Windows
        return None


def _left_in_container(folder: Path) -> int | None:
    """The limit less what is used; what was read of files counts as used, but gives way."""
    for limit, use, statistics, idle in CONTAINER_FILES:
        allowed = _number_in(folder / limit)
        if allowed is not None:
            used = (_number_in(folder / use) or 0) - _numbers_in(folder / statistics).get(idle, 0)
            return max(allowed - max(used, 0), 0)
    return None


def _number_in(file: Path) -> int | None:
    try:
        return int(file.read_text(encoding="ascii"))
    except (OSError, ValueError):  # no such file, or "max"
        return None


def _numbers_in(file: Path) -> dict[str, int]:
    """The numbers of a file that has a name and a number in each line."""
    try:
        lines = [line.split() for line in file.read_text(encoding="ascii").splitlines()]
    except (OSError, ValueError):
        return {}
    return {words[0]: int(words[1]) for words in lines if len(words) > 1 and words[1].isdigit()}
