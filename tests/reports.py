"""Data for tests of the report, and what is on its page."""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd

UGLY = "</script><b>\"'&\\u003c{{data}}"


def make_views(n: int = 120) -> dict[str, pd.DataFrame | pd.Series]:
    rng = np.random.default_rng(7)
    z = rng.standard_normal((n, 2))
    rows = pd.Index([f"patient {i}" for i in range(n)])
    blood = pd.DataFrame(z @ rng.standard_normal((2, 6)) + 0.3 * rng.standard_normal((n, 6)), index=rows)
    blood.columns = ["hb", "wbc", "crp", "albumin", "sodium", UGLY]
    signs = pd.DataFrame(z @ rng.standard_normal((2, 3)) * 3 > 0, index=rows, columns=["fever", "cough", "rash"])
    kind = pd.Series(np.where(z[:, 0] > 0, "viral", "bacterial"), index=rows, name="kind")
    return {"blood": blood.mask(rng.random(blood.shape) < 0.1), "signs": signs.astype(int).iloc[:100], "kind": kind}


def content(path: Path) -> dict:
    text = re.search(
        r'<script type="application/json" id="data">(.*?)</script>', path.read_text(encoding="utf-8"), re.S
    )
    assert text is not None
    return json.loads(text[1])
