"""The lower bounds of what is required are those that `make test-oldest` tries."""

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

from sshiba.version import how_to_install

ROOT = Path(__file__).parents[1]


def required(listed: list[str], extras: dict[str, list[str]]) -> list[Requirement]:
    """What is listed, with `sshiba[a,b]` replaced by what those extras list."""
    found = []
    for requirement in map(Requirement, listed):
        if requirement.name == "sshiba":
            for extra in sorted(requirement.extras):
                found += required(extras[extra], extras)
        else:
            found.append(requirement)
    return found


def bounds(requirements: list[Requirement], operator: str) -> dict[str, Version]:
    found = {}
    for requirement in requirements:
        (bound,) = requirement.specifier
        assert bound.operator == operator, requirement
        found[requirement.name] = Version(bound.version)
    return found


def test_lower_bounds_are_the_oldest_versions_tried() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    listed = [*project["dependencies"], "sshiba[test]"]
    lines = (ROOT / "constraints" / "oldest.txt").read_text(encoding="utf-8").splitlines()
    pins = [line.partition("#")[0].strip() for line in lines]
    oldest = bounds([Requirement(pin) for pin in pins if pin], "==")
    assert bounds(required(listed, project["optional-dependencies"]), ">=") == oldest


def test_messages_name_extras_that_there_are() -> None:
    """In the one form that works: the library is on no registry, so `pip install sshiba` finds nothing."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "src" / "sshiba").rglob("*.py")]
    named = {extra for source in sources for extra in re.findall(r"how_to_install\([\"'](\w+)[\"']\)", source)}
    assert {"plot", "report", "torch"} <= named <= set(project["optional-dependencies"])
    assert not any(re.search(r"pip install '?sshiba", source) for source in sources)
    assert how_to_install("plot") == "pip install '.[plot]' in the folder of the source"
