"""What importing one room brings along, in a fresh interpreter."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = str(Path(__file__).parents[1] / "src")
HEAVY = {"pandas", "sklearn", "matplotlib", "plotly", "torch"}
LIGHT_ROOMS = {
    "the package alone": ["sshiba"],
    "mathematics": ["sshiba.core.bound", "sshiba.core.rotation", "sshiba.core.predictive", "sshiba.core.explained"],
    "engines": ["sshiba.engines"],
    "the fit": ["sshiba.fitting.restarts"],
}


def imported_with(modules: list[str]) -> set[str]:
    """The packages that are loaded once these modules are."""
    code = f"import sys, json, {', '.join(modules)}; print(json.dumps(sorted(sys.modules)))"
    environment = {**os.environ, "PYTHONPATH": SOURCE}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=120)
    assert done.returncode == 0, done.stderr
    return {name.partition(".")[0] for name in json.loads(done.stdout)}


@pytest.mark.parametrize("room", LIGHT_ROOMS)
def test_rooms_that_need_no_frames_do_not_import_them(room: str) -> None:
    found = imported_with(LIGHT_ROOMS[room])
    assert "sshiba" in found
    assert not found & HEAVY


def test_what_is_looked_for_would_be_found() -> None:
    assert {"pandas", "sklearn"} <= imported_with(["sshiba.estimator"])
