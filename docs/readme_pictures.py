"""The pictures of README.md: CLL's variance and its report. `python docs/readme_pictures.py` makes them anew.

It needs `cll.npz` in the folder that `SSHIBA_DATA` names, Chromium, and playwright (extra `browser`).
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from playwright.sync_api import sync_playwright

from sshiba import SSHIBA, datasets, plots

PICTURES = Path(__file__).parent / "images"
SIZE = {"width": 1100, "height": 1000}
FIRST = "#variance"  # the part of the report that is at the top


def shoot(report: Path, picture: Path) -> None:
    """What a browser shows of the report."""
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport=SIZE)
        page.goto(report.as_uri())
        page.locator(FIRST).evaluate("part => part.scrollIntoView()")
        page.wait_for_timeout(1500)  # pictures are drawn when they come into sight
        page.screenshot(path=picture)
        browser.close()


def main() -> None:
    views = datasets.load_cll().views
    model = SSHIBA(n_components=10, random_state=0).fit(views)
    plots.variance_explained(model).figure.savefig(PICTURES / "variance-cll.png", dpi=100)
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.html")
        model.report(report, views, title="200 patients with leukaemia")
        shoot(report, PICTURES / "report.png")


if __name__ == "__main__":
    main()
