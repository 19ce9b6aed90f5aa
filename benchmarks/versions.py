"""Two versions of the library in turns: the median seconds of a sweep on yeast, CLL, faces and holes.

    python benchmarks/versions.py OLD/src NEW/src

Only the public API is used, so that the versions may be laid out differently inside.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
from rich.console import Console
from rich.table import Table

REPEATS = 5
WORST = 1.1  # what a sweep of the new version may take, in sweeps of the old one

SWEEPS = """
import json, logging, time, warnings
import numpy as np
warnings.simplefilter("ignore")
logging.disable(logging.WARNING)
from sshiba import SSHIBA, Binary, Categorical, Real, datasets

def seconds(views, types, k, n):
    times = []
    model = SSHIBA(k, types, max_iter=n, tol=0.0, prune_tol=0.0, acceleration=None, random_state=0,
                   callback=lambda progress: times.append(time.perf_counter()))
    model.fit(views)
    return float(np.median(np.diff(times)[11:]))

def yeast():
    data = datasets.load_yeast()
    return {name: view.to_numpy()[data.is_train] for name, view in data.views.items()}

def cll():
    return {name: view.astype(float) for name, view in datasets.load_cll().views.items()}

def faces():
    data = datasets.load_faces().views
    return {"image": data["pixels"].to_numpy(float), "who": data["person"].to_numpy()}

def holes():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((1500, 10)) @ rng.standard_normal((10, 103)) + rng.standard_normal((1500, 103))
    return {"x": np.where(rng.random(x.shape) < 0.5, x, np.nan)}

FACES = {"image": Real(select_features=True, noise="view"), "who": Categorical()}
found = {
    "yeast, K=100": seconds(yeast(), {"labels": Binary()}, 100, 80),
    "CLL, K=25": seconds(cll(), {"Mutations": Binary()}, 25, 40),
    "faces, K=100": seconds(faces(), FACES, 100, 30),
    "holes, K=50": seconds(holes(), None, 50, 30),
}
print(json.dumps(found))
"""


def measure(source: str) -> dict[str, float]:
    environment = {**os.environ, "PYTHONPATH": source}
    done = subprocess.run([sys.executable, "-c", SWEEPS], env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def main(old: str, new: str) -> bool:
    """In turns, old and new; prints medians and ratios, and says whether no sweep is more than 10 % slower."""
    runs: dict[str, list[dict[str, float]]] = {"old": [], "new": []}
    for _ in range(REPEATS):
        runs["old"].append(measure(old))
        runs["new"].append(measure(new))
    table = Table("sweep", "old, ms", "new, ms", "new / old", title=f"medians of {REPEATS} runs in turns")
    fine = True
    for name in runs["old"][0]:
        before, after = (1000 * float(np.median([run[name] for run in runs[which]])) for which in ("old", "new"))
        fine &= after <= WORST * before
        table.add_row(name, f"{before:.2f}", f"{after:.2f}", f"{after / before:.3f}")
    Console().print(table)
    return fine


if __name__ == "__main__":
    sys.exit(0 if main(sys.argv[1], sys.argv[2]) else 1)
