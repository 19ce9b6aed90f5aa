"""The page: its content, style and script in one file."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from sklearn.base import clone

from ..data.sampling import Sample, draw_sample
from ..evaluate import Check, check
from ..files.atomic import check_place, replacing
from ..fitted.answers import Answers
from ..fitted.fitted import Fitted, fitted_of
from ..fitting.progress_bar import FitBar, in_time
from ..version import how_to_install
from .content import content

SCRIPTS = ("drawing.js", "parts.js", "rows.js", "features.js", "page.js")  # in this order
WORTH_A_WORD = 5.0  # seconds: a check that takes less is not announced
FRAME_HEIGHT = 800  # pixels, in a notebook


@dataclass(frozen=True, repr=False)
class Report:
    """The page; a notebook shows it inline."""

    html: str
    path: Path | None = None

    def save(self, path: str | Path) -> None:
        """Write it to a file."""
        with replacing(path) as temporary:
            Path(temporary).write_text(self.html, encoding="utf-8")

    def __repr__(self) -> str:
        where = "not saved" if self.path is None else repr(str(self.path))
        return f"Report({where}, {len(self.html) / 1e6:.1f} MB)"

    def _repr_html_(self) -> str:
        rights = "allow-scripts allow-downloads"
        style = f"width:100%;height:{FRAME_HEIGHT}px;border:1px solid #d9dee5"
        # In ASCII: the hashes of its scripts hold whatever encoding the notebook is read in.
        page = html.escape(self.html).encode("ascii", "xmlcharrefreplace").decode()
        return f'<iframe sandbox="{rights}" style="{style}" srcdoc="{page}"></iframe>'


def write_report(
    model: Any,
    path: str | Path | None = None,
    views: Any = None,
    fraction: float = 0.1,
    title: str = "",
    metadata: Any = None,
) -> Report:
    """The report of a fitted model, written to a file where one is named.

    Parameters
    ----------
    model : SSHIBA
    path : path of the HTML file, optional
    views : optional
        The data of the fit: adds which rows have what, columns to colour rows by, and a held-out check. Of many rows
        that are not in memory some are looked at, drawn at random; the page says so.
    fraction : float
        Share of the cells that the check hides; 0 leaves it out. The check is another fit.
    title : str
    metadata : DataFrame, Series or dict, optional
        More that is known of the rows, by their names.
    """
    fit, script = fitted_of(model), _plotly()
    if not 0 <= fraction < 1:
        raise ValueError(f"fraction must be at least 0 and below 1, not {fraction!r}.")
    if path is not None:
        check_place(path)
    sample = Sample(None) if views is None else draw_sample(views, max_memory=model.max_memory)
    if views is not None:
        Answers(fit).check_training_rows(sample.views, sample.all_rows)
    checks = _check(model, fit, sample, fraction) if views is not None and fraction else None
    parts = content(fit, sample, checks, fraction, metadata)
    report = Report(build(parts, script, title or "What the fit found"), None if path is None else Path(path))
    if path is not None:
        report.save(path)
    return report


def _check(model: Any, fit: Fitted, sample: Sample, fraction: float) -> dict[str, Check]:
    """The held-out check: another fit, which tells how far it is."""
    best = fit.restarts[fit.best_restart]
    with FitBar(1, fit.settings["max_iter"], expected=max(best.n_iter, 1), name="held-out check") as bar:
        if best.seconds > WORTH_A_WORD:
            bar.console.print(f"Held-out check: another fit, {in_time(best.seconds)}; fraction=0 leaves it out.")
        settings = {**fit.settings, "views": fit.schema.types, "n_init": 1, "verbose": 0}
        settings["callback"] = lambda sweep: bar(sweep)  # a clone copies all but functions
        return check(clone(model).set_params(**settings), Answers(fit).given(sample.views), fraction)


def build(parts: dict[str, Any], plotly: str, title: str) -> str:
    """The page as text; nothing in the data can end its script."""
    files = resources.files(__package__)
    words = {
        "title": html.escape(title),
        "style": files.joinpath("page.css").read_text(encoding="utf-8"),
        "plotly": plotly.replace("\r\n", "\n"),  # as a browser reads it before it compares the hash
        "data": json.dumps(parts, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c"),
        "script": "\n".join(files.joinpath(name).read_text(encoding="utf-8") for name in SCRIPTS),
    }
    words["hashes"] = " ".join(_hash(words[name]) for name in ("plotly", "script"))
    template = files.joinpath("page.html").read_text(encoding="utf-8")
    return re.sub(r"{{(\w+)}}", lambda place: words[place[1]], template)


def _hash(script: str) -> str:
    """The one script that a browser may run in this place, as the content security policy names it."""
    digest = hashlib.sha256(script.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def _plotly() -> str:
    try:
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise ImportError(f"the report needs plotly: {how_to_install('report')}.") from error
    # A notebook has the page as character references, and those of U+0080 to U+009F mean other characters.
    return re.sub("[\x80-\x9f]", lambda found: f"\\u{ord(found[0]):04x}", get_plotlyjs())
