"""The page: its content, style and script in one file."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from importlib import resources
from pathlib import Path
from typing import Any

from sklearn.base import clone

from ..data.sampling import Sample, draw_sample
from ..evaluate import check
from ..files.atomic import check_place, replacing
from ..fitted.answers import Answers
from ..fitted.fitted import fitted_of
from .content import content


def write_report(model: Any, path: str | Path, views: Any = None, fraction: float = 0.1, title: str = "") -> None:
    """Write the report of a fitted model.

    Parameters
    ----------
    model : SSHIBA
    path : path of the HTML file
    views : optional
        The data of the fit: adds which rows have what, columns to colour rows by, and a held-out check. Of many rows
        that are not in memory some are looked at, drawn at random; the page says so.
    fraction : float
        Share of the cells that the check hides; 0 leaves it out. The check is another fit.
    title : str
    """
    fit, script = fitted_of(model), _plotly()
    if not 0 <= fraction < 1:
        raise ValueError(f"fraction must be at least 0 and below 1, not {fraction!r}.")
    check_place(path)
    sample = Sample(None) if views is None else draw_sample(views, max_memory=model.max_memory)
    if views is not None:
        Answers(fit).check_training_rows(sample.views, sample.all_rows)
    checks = None
    if views is not None and fraction:
        settings = {**fit.settings, "views": fit.schema.types, "n_init": 1, "callback": None, "verbose": 0}
        checks = check(clone(model).set_params(**settings), Answers(fit).given(sample.views), fraction)
    parts = content(fit, sample, checks, fraction)
    page = build(parts, script, title or "What the fit found")
    with replacing(path) as temporary:
        Path(temporary).write_text(page, encoding="utf-8")


def build(parts: dict[str, Any], plotly: str, title: str) -> str:
    """The page as text; nothing in the data can end its script."""
    files = resources.files(__package__)
    words = {
        "title": html.escape(title),
        "style": files.joinpath("page.css").read_text(encoding="utf-8"),
        "plotly": plotly.replace("\r\n", "\n"),  # as a browser reads it before it compares the hash
        "data": json.dumps(parts, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c"),
        "script": files.joinpath("page.js").read_text(encoding="utf-8"),
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
        raise ImportError("the report needs plotly: pip install 'sshiba[report]'.") from error
    return get_plotlyjs()
