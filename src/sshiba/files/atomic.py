"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LONGEST = 40  # characters of the target's name in that of the file beside it


def check_place(path: str | Path) -> None:
    """Refuse a file that cannot be written, before any work is done for it."""
    target, folder = Path(path).absolute(), str(Path(path).parent)
    if target.is_dir():
        raise IsADirectoryError(f"{str(path)!r} is a folder; name a file in it.")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {folder!r} to write {str(path)!r} into.")
    if not os.access(target.parent, os.W_OK):
        raise PermissionError(f"nothing may be written into the folder {folder!r}.")


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """A file beside the target that takes its place when all went well: nobody ever sees half of it."""
    check_place(path)
    target = Path(path).absolute()
    temporary = target.with_name(f".{target.stem[:LONGEST]}.{secrets.token_hex(4)}{target.suffix}")
    try:
        temporary.touch(exist_ok=False)  # with the rights that the umask leaves
        yield temporary
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
