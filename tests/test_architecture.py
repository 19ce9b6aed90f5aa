"""docs/architecture.md says what is so: rooms, files, and the functions behind the paper's tables."""

import ast
import importlib
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest

import sshiba
from sshiba.core.likelihoods import Likelihood
from sshiba.data.types import VIEW_TYPES, View

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
SOURCE = ROOT / "src" / "sshiba"


def section(title: str) -> str:
    return PAGE.split(f"## {title}\n")[1].split("\n## ")[0]


FUNCTIONS = re.findall(r"`((?:core|evaluate|paper)\.[\w.]+)`", section("From the paper to the code"))
PLACES = re.findall(r"`([\w/]+\.py)`, `(\w+)`", section("Where is ...?"))


@pytest.mark.parametrize("name", sorted(set(FUNCTIONS)))
def test_the_functions_of_the_papers_tables_exist(name: str) -> None:
    found: object = sshiba
    for part in name.split("."):
        if isinstance(found, ModuleType) and hasattr(found, "__path__") and not hasattr(found, part):
            importlib.import_module(f"{found.__name__}.{part}")
        found = getattr(found, part)
    assert callable(found)


def test_the_rooms_are_those_of_the_imports() -> None:
    pytest.importorskip("grimp", reason="comes with import-linter: make setup")
    done = subprocess.run([sys.executable, ROOT / "docs" / "layers.py", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_every_file_is_in_the_tree() -> None:
    tree = section("The tree")
    for path in SOURCE.rglob("*.py"):
        if not path.name.startswith("__"):
            assert re.search(rf"(?<![\w.]){re.escape(path.name)}", tree), path


@pytest.mark.parametrize("kind", [View, Likelihood])
def test_all_that_a_view_type_has_is_named(kind: type) -> None:
    names = {name for name in {**vars(kind), **kind.__annotations__} if not name.startswith("_")}
    told = set(re.findall(r"`(\w+)(?:\(\w+\))?`", section("A view type is two things")))
    assert names <= told, names - told


def test_who_names_a_view_type_is_in_the_list() -> None:
    """All other code asks a view what it is."""
    told = section("A view type is two things").split("Only code that makes views")[1]
    kinds = {kind.__name__ for kind in VIEW_TYPES.values()}
    for path in SOURCE.rglob("*.py"):
        imports = [node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.ImportFrom)]
        named = {name.name for node in imports if node.module != "numbers" for name in node.names}
        own = path.relative_to(SOURCE).as_posix()
        if named & kinds and own != "__init__.py" and not own.startswith("data/types/"):
            assert f"`{own}`" in told or f"`{own.split('/')[0]}/`" in told, own


def test_no_two_files_have_one_name() -> None:
    names = Counter(path.name for path in SOURCE.rglob("*.py") if not path.name.startswith("__"))
    assert [name for name, n in names.items() if n > 1] == []


@pytest.mark.parametrize("row", PLACES)
def test_the_places_to_find_exist(row: tuple[str, str]) -> None:
    path, name = row
    assert re.search(rf"(def|class) {name}\b", (SOURCE / path).read_text(encoding="utf-8")), row


def test_the_page_names_functions_and_places() -> None:
    assert len(FUNCTIONS) > 15
    assert len(PLACES) >= 20
