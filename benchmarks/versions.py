"""Two versions of the library in turns: the median seconds of a sweep on yeast, CLL, faces and holes, or of whole fits.

    python benchmarks/versions.py OLD/src NEW/src
    python benchmarks/versions.py OLD/src NEW/src --fits    to convergence, with the defaults, yeast and digits

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
WORST, WORST_FIT = 1.1, 1.5  # what a sweep, or a fit, of the new version may take, in those of the old one

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

FITS = """
import json, logging, time, warnings
import numpy as np, sklearn.datasets
warnings.simplefilter("ignore")
logging.disable(logging.WARNING)
from sshiba import SSHIBA, datasets

def seconds(views, k):
    times = []
    for _ in range(4):
        began = time.perf_counter()
        SSHIBA(k, random_state=0).fit(views)
        times.append(time.perf_counter() - began)
    return float(np.median(times[1:]))  # the first one loads compiled code

def yeast():
    data = datasets.load_yeast()
    return {name: view.iloc[np.flatnonzero(data.is_train)] for name, view in data.views.items()}

def digits():
    data = sklearn.datasets.load_digits(as_frame=True)
    return {"x": data.data.loc[:, data.data.std() > 0], "y": data.target.astype(str)}

print(json.dumps({"yeast, K=70": seconds(yeast(), 70), "digits, K=40": seconds(digits(), 40)}))
"""


def measure(source: str, program: str) -> dict[str, float]:
    environment = {**os.environ, "PYTHONPATH": source}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE, text=True, check=True
    )
    return json.loads(done.stdout)


def main(old: str, new: str, fits: bool) -> bool:
    """In turns, old and new; prints medians and ratios, and says whether none is slower than it may be."""
    program, what, worst = (FITS, "fit", WORST_FIT) if fits else (SWEEPS, "sweep", WORST)
    runs: dict[str, list[dict[str, float]]] = {"old": [], "new": []}
    for _ in range(REPEATS):
        runs["old"].append(measure(old, program))
        runs["new"].append(measure(new, program))
    table = Table(what, "old, ms", "new, ms", "new / old", title=f"medians of {REPEATS} runs in turns")
    fine = True
    for name in runs["old"][0]:
        before, after = (1000 * float(np.median([run[name] for run in runs[which]])) for which in ("old", "new"))
        fine &= after <= worst * before
        table.add_row(name, f"{before:.2f}", f"{after:.2f}", f"{after / before:.3f}")
    Console().print(table)
    return fine


if __name__ == "__main__":
    sys.exit(0 if main(sys.argv[1], sys.argv[2], "--fits" in sys.argv) else 1)
