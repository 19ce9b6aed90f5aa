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
    """Rooms from top to bottom; each arc goes from a room down to one that it imports."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.patches import FancyArrowPatch

    below = imports()
    names = [room for room in below if room not in ("version", "datasets", "settings")]
    place = {room: -i for i, room in enumerate(names)}
    colours = plt.get_cmap("tab20").colors  # type: ignore[attr-defined]
    figure, ax = plt.subplots(figsize=(5, 6.4))
    for i, room in enumerate(names):
        colour = colours[(2 * i) % 20]
        ax.text(0, place[room], room, ha="right", va="center", fontsize=12, color=colour, fontweight="bold")
        for other in below[room]:
            if other in place:
                depth = place[room] - place[other]
                arrow = FancyArrowPatch(
                    (0.05, place[room]),
                    (0.05, place[other]),
                    connectionstyle=f"arc3,rad={-0.35 - 0.01 * depth}",
                    arrowstyle="-|>",
                    mutation_scale=9,
                    color=colour,
                    lw=1.1,
                )
                ax.add_patch(arrow)
    ax.set(xlim=(-1.6, 2.0), ylim=(-len(names) + 0.4, 0.6))
    ax.axis("off")
    ax.set_title("Who imports whom: all arrows go down", fontsize=11)
    figure.tight_layout()
    figure.savefig(PICTURE, dpi=120)
    plt.close(figure)


if __name__ == "__main__":
    page = PAGE.read_text(encoding="utf-8")
    if "--check" in sys.argv:
        sys.exit(0 if write(page) == page else "architecture.md is not up to date: run python docs/layers.py")
    PAGE.write_text(write(page), encoding="utf-8")
    draw()
