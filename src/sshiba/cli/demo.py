"""A real job on data that come with scikit-learn: digits as four views with holes. Run by `sshiba demo`."""

from __future__ import annotations

import os
import sys
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from shutil import which

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score

from .. import SSHIBA, Binary, Categorical, Real
from ..data.wording import percent
from ..version import how_to_install

TRAITS = {"even": (0, 2, 4, 6, 8), "above 4": (5, 6, 7, 8, 9), "closed loop": (0, 6, 8, 9)}
PIXELS_REMOVED, LABELS_REMOVED = 1 / 5, 1 / 3
N_SHOWN = 12


@dataclass(frozen=True)
class Digits:
    """The truth, and what of it is kept."""

    pixels: np.ndarray  # (N, 64)
    digit: np.ndarray  # (N,)
    traits: pd.DataFrame  # (N, 3)
    pixel_seen: np.ndarray  # (N, 64)
    label_seen: np.ndarray  # (N,)

    def views(self) -> dict[str, pd.DataFrame | pd.Series]:
        """Four views with holes."""
        pixels = pd.DataFrame(np.where(self.pixel_seen, self.pixels, np.nan))
        pixels.columns = [f"row {d // 8}, column {d % 8}" for d in range(64)]
        digit = pd.Series(self.digit, dtype="Int64", name="digit").where(self.label_seen)
        traits = self.traits.astype("boolean")
        traits.loc[~self.label_seen] = None
        return {
            "upper half": pixels.iloc[:, :32],
            "lower half": pixels.iloc[:, 32:],
            "digit": digit,
            "traits": traits,
        }


def digits_with_holes(seed: int = 0) -> Digits:
    rng = np.random.default_rng(seed)
    pixels, digit = load_digits(return_X_y=True)
    traits = pd.DataFrame({name: np.isin(digit, which) for name, which in TRAITS.items()})
    seen = rng.random(pixels.shape) > PIXELS_REMOVED
    return Digits(pixels, digit, traits, seen, rng.random(len(digit)) > LABELS_REMOVED)


def fit_digits(data: Digits, verbose: int = 1) -> SSHIBA:
    types = {"upper half": Real(), "lower half": Real(), "digit": Categorical(), "traits": Binary()}
    model = SSHIBA(n_components=40, views=types, tol=1e-6, random_state=0, verbose=verbose)
    with warnings.catch_warnings():
        for odd in (".*constant", "far-off numbers"):  # corners: always white, or nearly so
            warnings.filterwarnings("ignore", message=odd, category=UserWarning)
        return model.fit(data.views())


def evaluate(model: SSHIBA, data: Digits) -> tuple[dict[str, float], np.ndarray]:
    """Scores on what was removed, and the completed images."""
    views = data.views()
    filled = model.impute(views)
    images = np.concatenate([filled["upper half"], filled["lower half"]], axis=1)
    hidden, holes = ~data.label_seen, ~data.pixel_seen
    proba = model.predict_proba(views, "traits")
    means = np.nanmean(np.where(data.pixel_seen, data.pixels, np.nan), axis=0)

    def rmse(guess: np.ndarray) -> float:
        return float(np.sqrt(np.mean((guess - data.pixels)[holes] ** 2)))

    scores = {
        "accuracy": float(np.mean(filled["digit"].to_numpy()[hidden] == data.digit[hidden])),
        "rmse": rmse(images),
        "rmse of means": rmse(np.broadcast_to(means, data.pixels.shape)),
    }
    for name in TRAITS:
        scores[f"AUC {name}"] = float(roc_auc_score(data.traits[name][hidden], proba[name][hidden]))
    return scores, images


def draw(path: Path, data: Digits, images: np.ndarray, guesses: np.ndarray) -> None:
    """Digits with holes, as completed, and as they truly are."""
    import matplotlib.pyplot as plt

    chosen = np.flatnonzero(~data.label_seen)[:N_SHOWN]
    seen = np.where(data.pixel_seen, data.pixels, np.nan)
    figure, axes = plt.subplots(3, N_SHOWN, figsize=(N_SHOWN * 0.85, 3.2))
    cmap = plt.get_cmap("gray_r").copy()
    cmap.set_bad("#e8833a")
    for row, (label, pictures) in enumerate([("given", seen), ("completed", images), ("true", data.pixels)]):
        for column, n in enumerate(chosen):
            ax = axes[row, column]
            ax.imshow(pictures[n].reshape(8, 8), cmap=cmap, vmin=0, vmax=16)
            ax.set_xticks([])
            ax.set_yticks([])
            if column == 0:
                ax.set_ylabel(label)
            if row == 1:
                right = guesses[n] == data.digit[n]
                ax.set_xlabel(
                    f"a {guesses[n]}" if right else f"a {guesses[n]}, no",
                    color="black" if right else "#b2182b",
                )
    figure.suptitle("Orange: pixels removed. All labels shown here were removed, too.", fontsize=10)
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def main(out: Path = Path("out/demo")) -> None:
    warnings.filterwarnings("ignore", message=".*predicted below 0", category=UserWarning)  # grey levels
    console = Console()
    began = time.perf_counter()
    data = digits_with_holes()
    console.print(
        f"{len(data.digit)} handwritten digits as four views: upper and lower half, the digit, three traits."
        f" Removed: {percent(1 - data.pixel_seen.mean())} of the pixels,"
        f" {percent(1 - data.label_seen.mean())} of the labels."
    )
    model = fit_digits(data)
    scores, images = evaluate(model, data)
    seconds = time.perf_counter() - began
    table = Table(title="What the model says about what was removed")
    table.add_column("measure")
    table.add_column("value", justify="right")
    table.add_row("digit, accuracy", f"{scores['accuracy']:.3f}")
    for name in TRAITS:
        table.add_row(f"trait '{name}', AUC", f"{scores[f'AUC {name}']:.3f}")
    table.add_row("pixels, RMSE (grey levels, 0 to 16)", f"{scores['rmse']:.2f}")
    table.add_row("    mean imputation", f"{scores['rmse of means']:.2f}")
    table.add_row("factors kept, of 40", str(model.n_components_))
    table.add_row("seconds", f"{seconds:.0f}")
    console.print(table)
    path = out / "digits.png"
    try:
        draw(path, data, images, model.impute(data.views())["digit"].to_numpy())
    except ImportError:
        console.print(f"No picture, since matplotlib is not installed: {how_to_install('plot')}.", markup=False)
    else:
        console.print(f"Completed digits beside the true ones: {path}")
    page = out / "report.html"
    try:
        model.report(page, data.views(), fraction=0, title="Digits with gaps")
    except ImportError:
        console.print(f"No report, since plotly is not installed: {how_to_install('report')}.", markup=False)
    else:
        console.print(f"What the fit found, for a browser: {page}")
    if sys.prefix != sys.base_prefix and which("sshiba") is None:
        console.print(f"To use it in this shell: source {Path(os.path.relpath(sys.prefix)) / 'bin' / 'activate'}")
