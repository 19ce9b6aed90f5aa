"""The reference of the command, made from the command itself: `python docs/command_reference.py` writes commands.md."""

from __future__ import annotations

import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import typer

from sshiba.cli.looking import app
from sshiba.data.markers import MISSING

PAGE = Path(__file__).parent / "commands.md"
START, END = "<!-- written by docs/command_reference.py -->", "<!-- end of what is written -->"
SHARED = 3  # commands: an option that so many have stands in a table of its own


def spelled(option: Any) -> str:
    """`--out, -o FILE`: how it is written."""
    if not option.opts[0].startswith("-"):
        return f"`{option.metavar or option.name.upper()}`"
    value = "" if option.is_flag else f" {option.metavar or option.name.upper()}"
    return ("`" + ", ".join([*option.opts, *option.secondary_opts]) + value + "`").replace("|", "\\|")


def default_of(option: Any) -> str:
    if option.required:
        return "needed"
    if option.default is None or option.default is False or option.default in ("", (), []):
        return ""
    return "on" if option.default is True else f"`{option.default}`"


def row(option: Any) -> tuple[str, str, str]:
    return spelled(option), " ".join((option.help or "").split()).replace("|", "\\|"), default_of(option)


def table(rows: list[tuple[str, ...]], *head: str) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def options_of(command: Any) -> list[Any]:
    return [option for option in command.params if not option.hidden and option.name != "help"]


def reference() -> str:
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    rows = {name: [row(option) for option in options_of(command)] for name, command in commands.items()}
    seen = Counter(own for listed in rows.values() for own in set(listed))
    parts = []
    for name, command in commands.items():
        paragraphs = [" ".join(part.split()) for part in re.split(r"\n\s*\n", command.help or "")]
        own = [cells for cells in rows[name] if seen[cells] < SHARED]
        parts += [f"## sshiba {name}", *paragraphs]
        parts += [table(own, "option", "what it does", "default")] if own else []
    shared = [
        (*cells, of)
        for cells in dict.fromkeys(own for listed in rows.values() for own in listed)
        if seen[cells] >= SHARED and (of := ", ".join(name for name in rows if cells in rows[name]))
    ]
    parts += ["## Options of several commands", table(shared, "option", "what it does", "default", "of")]
    texts = ", ".join(f"`{text}`" for text in sorted(MISSING) if text)
    parts += [
        "## What counts as missing",
        f"Empty cells, and these texts: {texts}. `--missing` adds others, `--not-missing` takes some away.",
    ]
    return "\n\n".join(parts)


def write(page: str) -> str:
    before, _, rest = page.partition(START)
    return f"{before}{START}\n\n{reference()}\n\n{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    page = PAGE.read_text(encoding="utf-8")
    if "--check" in sys.argv:
        sys.exit(0 if write(page) == page else f"{PAGE.name} is out of date: python docs/command_reference.py")
    PAGE.write_text(write(page), encoding="utf-8")
