"""The lower bounds of what is required are those that `make test-oldest` tries."""

import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

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
