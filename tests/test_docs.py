"""Every block of code in the README and the documentation runs."""

import os
import re
import subprocess
import sys
import warnings
from pathlib import Path

import commands
import matplotlib
import pytest

matplotlib.use("Agg")
from matplotlib import pyplot as plt

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
BLOCK = re.compile(r"^```(\S*)[^\n]*\n(.*?)^```", re.M | re.S)
NOT_CODE = ("", "text", "{toctree}", "{eval-rst}")


def blocks(page: Path) -> list[tuple[str, str]]:
    kinds = {"{code-cell}": "python"}
    found = BLOCK.findall(page.read_text(encoding="utf-8"))
    return [(kinds.get(kind, kind), re.sub(r"\A:tags:.*\n", "", code)) for kind, code in found]


def needed_file(page: Path) -> Path | None:
    """The data that a page needs, where they are not part of any library: `needs:` in its head."""
    found = re.search(r"^needs: (\S+)$", page.read_text(encoding="utf-8"), re.M)
    return Path(os.environ.get("SSHIBA_DATA", "."), found[1]) if found else None


def runnable(kind: str) -> list:
    """Pages with such code. Those that `make docs` runs as well are slow here, but for the first that users read."""
    marked = []
    for page in PAGES:
        if any(found == kind for found, _ in blocks(page)):
            again = kind == "python" and page.name != "start.md" and "```{code-cell}" in page.read_text("utf-8")
            marks = [pytest.mark.slow] if again else []
            marked.append(pytest.param(page, id=str(page.relative_to(ROOT)), marks=marks))
    return marked


@pytest.mark.usefixtures("with_search")
@pytest.mark.parametrize("page", runnable("python"))
def test_python(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needed = needed_file(page)
    if needed and not needed.is_file():
        pytest.skip(f"needs {needed.name} in the folder that SSHIBA_DATA names")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number, (kind, code) in enumerate(blocks(page)):
            if kind == "python":
                exec(compile(code, f"{page.name}, block {number}", "exec"), names)
    plt.close("all")


@pytest.mark.parametrize("page", runnable("bash"))
def test_commands(page: Path, tmp_path: Path) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    command = f'set -e\nsshiba() {{ "{sys.executable}" -S "{commands.__file__}" "$@"; }}\n'
    for kind, code in blocks(page):
        if kind == "bash":
            options = {"cwd": tmp_path, "capture_output": True, **commands.for_scripts()}
            done = subprocess.run(["bash", "-c", command + code], **options)
            assert done.returncode == 0, done.stderr.decode()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_nothing_that_could_run_hides_in_other_blocks(page: Path) -> None:
    for kind, code in blocks(page):
        assert kind in (*NOT_CODE, "python", "bash")
        if kind in ("", "text"):
            assert "sshiba " not in code.replace("sshiba reproduce", "")  # which takes hours, and has tests of its own
            assert "import " not in code


def test_the_reference_of_the_command_is_up_to_date() -> None:
    check = [sys.executable, ROOT / "docs" / "command_reference.py", "--check"]
    done = subprocess.run(check, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_links_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), (page, target)


def test_every_tag_is_closed() -> None:
    """Else the mean of b, in pointed brackets, makes the rest of a page bold."""
    for page in PAGES:
        text = re.sub(r"```.*?```|`[^`\n]*`|\$[^$]*\$", "", page.read_text(encoding="utf-8"), flags=re.S)
        tags = set(re.findall(r"<([a-zA-Z]\w*)[^<>]*>", text)) - {"br", "img"}
        assert all(len(re.findall(rf"<{tag}\b", text)) == text.count(f"</{tag}>") for tag in tags), (page, tags)


def test_pages_that_may_not_run_say_their_language() -> None:
    """Without its data a page is shown, not run, and only its head can say which language its code is in."""
    pages = [page for page in PAGES if needed_file(page)]
    assert pages
    for page in pages:
        assert "  language: python\n" in page.read_text(encoding="utf-8").split("---")[1], page
