"""Which room imports which, from the real imports: `python docs/layers.py` brings architecture.md up to date."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

import grimp

DOCS = Path(__file__).parent
PAGE = DOCS / "architecture.md"
PICTURE = DOCS / "images" / "layers.png"
START, END = "<!-- rooms: written by docs/layers.py -->", "<!-- end of rooms -->"


def rooms() -> list[str]:
    """The layers of the contract in pyproject.toml, the top one first."""
    project = tomllib.loads((DOCS.parent / "pyproject.toml").read_text(encoding="utf-8"))
    layers = next(c["layers"] for c in project["tool"]["importlinter"]["contracts"] if c["name"].startswith("Rooms"))
    return [room.strip().removeprefix("sshiba.") for layer in layers for room in layer.split("|")]


def imports() -> dict[str, list[str]]:
    """Room -> the rooms below that it imports, in the order of the layers."""
    graph, order = grimp.build_graph("sshiba"), rooms()
    found: dict[str, set[str]] = {room: set() for room in order}
    for room in order:
        modules = {f"sshiba.{room}"} | graph.find_descendants(f"sshiba.{room}")
        for module in modules:
            for other in graph.find_modules_directly_imported_by(module):
                name = (other.removeprefix("sshiba.") if other != "sshiba" else "the public names").split(".")[0]
                if (name in found and name != room) or name == "the public names":
                    found[room].add(name)
    return {room: [name for name in [*order, "the public names"] if name in names] for room, names in found.items()}


def sentence(room: str) -> str:
    """The first sentence of a room's docstring."""
    source = DOCS.parent / "src" / "sshiba" / room
    path = source / "__init__.py" if source.is_dir() else source.with_suffix(".py")
    return re.match(r'"""(.*?)(?:"""|\n)', path.read_text(encoding="utf-8"))[1]  # type: ignore[index]


def table() -> str:
    lines = ["| room | what is in it | imports |", "|---|---|---|"]
    found = imports()
    for room, below in found.items():
        name = f"`{room}/`" if (DOCS.parent / "src" / "sshiba" / room).is_dir() else f"`{room}.py`"
        listed = ", ".join(f"`{other}`" if other in found else other for other in below) or "nothing of ours"
        lines.append(f"| {name} | {sentence(room)} | {listed} |")
    return "\n".join(lines)


def write(page: str) -> str:
    """The page with its table as it is now."""
    before, _, rest = page.partition(START)
    _, _, after = rest.partition(END)
    return f"{before}{START}\n{table()}\n{END}{after}"


def draw() -> None:
    """A row for each room, a column for each room that it may import; a dot where it does."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    below = imports()
    names = list(below)
    places = range(len(names))
    dots = [(names.index(other), i) for i, room in enumerate(names) for other in below[room] if other in below]
    figure, ax = plt.subplots(figsize=(7, 6.2))
    ax.fill_between([-0.5, len(names) - 0.5], [-0.5, len(names) - 0.5], len(names) - 0.5, color="0.93", lw=0)
    ax.scatter(*zip(*dots), s=70, color="#1f5fa8", zorder=3)
    ax.set_xticks(places, names, rotation=60, ha="left", rotation_mode="anchor")
    ax.set_yticks(places, names)
    ax.xaxis.tick_top()
    ax.set(xlim=(-0.5, len(names) - 0.5), ylim=(len(names) - 0.5, -0.5), ylabel="this room ...")
    ax.set_title("... imports these", fontsize=10)
    ax.text(1, len(names) - 1.5, "upward imports would be here: there are none", color="0.35", fontsize=9)
    ax.grid(color="0.85", lw=0.5)
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    figure.tight_layout()
    figure.savefig(PICTURE, dpi=120)
    plt.close(figure)


if __name__ == "__main__":
    page = PAGE.read_text(encoding="utf-8")
    if "--check" in sys.argv:
        sys.exit(0 if write(page) == page else "architecture.md is not up to date: run python docs/layers.py")
    PAGE.write_text(write(page), encoding="utf-8")
    draw()
