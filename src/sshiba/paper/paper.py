"""The paper's own figures: AUC, and in brackets the number of factors, components or hidden units."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Reported:
    """One cell of a table of the paper."""

    auc: float
    size: int | None = None
    std: float | None = None

    def __str__(self) -> str:
        spread = "" if self.std is None else f" ± {self.std:.3f}"
        return f"{self.auc:.2f}{spread}" + ("" if self.size is None else f" ({self.size})")


def _table(columns: tuple[str, ...], rows: dict[str, tuple]) -> dict[tuple[str, str], Reported]:
    found = {}
    for row, values in rows.items():
        for column, value in zip(columns, values):
            found[row, column] = Reported(*value) if isinstance(value, tuple) else Reported(value)
    return found


YEAST = _table(
    ("complete", "20 %"),
    {
        "SSHIBA": ((0.66, 66), (0.65, 20, 0.005)),
        "BIBFA": ((0.69, 66), (0.63, 29, 0.008)),
        "CCA": ((0.61, 13), (0.56, 13)),
        "CCA + logistic": ((0.66, 13), (0.60, 13)),
        "PCA + logistic": ((0.68, 73), (0.65, 66)),
        "MLP": ((0.61, 300), (0.59, 220)),
        "logistic": (0.67, 0.65),
        "ridge": (0.68, 0.65),
    },
)

AVIRIS = _table(
    ("complete", "20 %"),
    {
        "SSHIBA, multilabel": ((0.88, 194), (0.85, 189)),
        "SSHIBA, categorical": ((0.89, 197), (0.87, 78)),
        "BIBFA": ((0.89, 200), (0.87, 180)),
        "CCA": ((0.88, 72), (0.87, 72)),
        "CCA + logistic": ((0.89, 72), (0.87, 72)),
        "PCA + logistic": ((0.81, 252), (0.82, 18)),
        "MLP": ((0.85, 50), (0.77, 210)),
        "logistic": (0.89, 0.88),
        "ridge": (0.89, 0.87),
    },
)

MISSING = _table(
    ("yeast", "aviris", "scene"),
    {
        "nothing missing, predictive": (0.66, 0.88, 0.92),
        "nothing missing, semi-supervised": (0.68, 0.88, 0.92),
        "SSHIBA's own": (0.64, 0.87, 0.89),
        "mean": (0.61, 0.78, 0.87),
        "median": (0.55, 0.78, 0.70),
        "most frequent": (0.48, 0.77, 0.52),
    },
)

MULTIVIEW = _table(
    ("two views", "three views"),
    {
        "SSHIBA": ((0.68, 39), (0.69, 35)),
        "CCA": ((0.60, 62), (0.60, 62)),
        "CCA + logistic": ((0.60, 62), (0.60, 62)),
        "PCA + logistic": ((0.65, 187), (0.66, 187)),
        "MLP": ((0.60, 375), (0.60, 375)),
        "logistic": (0.65, 0.65),
        "ridge": (0.67, 0.67),
    },
)

FACES = {
    "identity": "The paper: about 40 % of the pixels suffice to tell the seven people apart; the masks light up "
    "areas such as the forehead, and the first latent faces belong to single people.",
    "attributes": "The paper: about 50 % of the pixels suffice for the attributes; other regions light up than for "
    "identity, such as the eyes.",
}
