"""How the documentation is built: `make docs`. Tutorials are run while it is built."""

import logging
import os
import re
import tempfile
from pathlib import Path
from typing import Any

from docutils.nodes import FixedTextElement, SkipNode, Text, literal
from latex2mathml.converter import convert

import sshiba
import sshiba.datasets

project = "SSHIBA"
author = "The SSHIBA developers"
project_copyright = author
version = release = sshiba.__version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "numpydoc", "sphinx_copybutton", "sphinx_design"]
html_theme = "furo"
html_title = "SSHIBA"
html_math_renderer = "mathml"
html_static_path = ["static"]
html_css_files = ["pages.css"]
smartquotes = False  # --view is an option, not a dash
exclude_patterns = ["_build"]

myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 3
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 600
nb_merge_streams = True


def pages_without_data() -> dict[str, str]:
    """Pages that need a data set which is not ours to give (`needs:` in their head) and not there: page -> its file."""
    pages = {}
    for path in sorted((Path(__file__).parent / "tutorials").glob("*.md")):
        found = re.search(r"^needs: (\S+)$", path.read_text(encoding="utf-8"), re.M)
        if found and not Path(os.environ.get("SSHIBA_DATA", "."), found[1]).is_file():
            pages[f"tutorials/{path.stem}"] = found[1]
    return pages


WITHOUT_DATA = pages_without_data()
nb_execution_excludepatterns = [f"{page}.md" for page in WITHOUT_DATA]

# Pictures go into the pages, and warnings without the place of a cell; what kernels and their client log, nowhere.
os.environ["MPLBACKEND"] = "module://matplotlib_inline.backend_inline"
logging.getLogger("traitlets").addFilter(lambda record: record.levelno >= logging.WARNING)
profile = Path(tempfile.mkdtemp()) / "profile_default"
profile.mkdir()
KERNEL = """
kernel = get_config().IPKernelApp
kernel.log_level = "ERROR"
kernel.exec_lines = [
    "import warnings as _warnings",
    "_warnings.formatwarning = lambda words, kind, *_, **__: f'{kind.__name__}: {words}' + chr(10)",
]
"""
(profile / "ipython_kernel_config.py").write_text(KERNEL, encoding="utf-8")
os.environ["IPYTHONDIR"] = str(profile.parent)

autodoc_typehints = "none"
numpydoc_show_class_members = False


THIN = '<mspace width="0.167em" />'
NAMES = r"<mi>(?:log|tanh)</mi>"


def spaced(mathml: str) -> str:
    """Formulas with the spaces that TeX has and the converter leaves out: log p, x ~ N; primes as large as TeX's."""
    mathml = mathml.replace("<mi>&#x0007E;</mi>", "<mo>&#x0223C;</mo>")
    mathml = mathml.replace("<mi>&#x02032;</mi>", "<mo>&#x02032;</mo>")
    mathml = re.sub(rf"({NAMES})(?!<mo[^>]*>(?:&#x00028;|\())", rf"\1{THIN}", mathml)
    before = r"(</(?:mi|mn|msub|msup|msubsup|munder|mfrac|mrow|mstyle)>|&#x02211;</mo>)"
    return re.sub(rf"{before}({NAMES})", rf"\1{THIN}\2", mathml)


def write_formula(writer: Any, node: Any) -> None:
    """A formula as MathML, which browsers draw by themselves: pages need no network."""
    block = node.__class__.__name__ == "math_block"
    mathml = spaced(convert(node.astext(), display="block" if block else "inline"))
    if "<mi>&</mi>" in mathml or "<mi>&amp;</mi>" in mathml:
        raise ValueError(f"a formula with & is not aligned but shows it; write several: {node.astext()}")
    writer.body.append(mathml)
    raise SkipNode


def keep_units(app: Any, page: Any, name: str) -> None:
    """A number keeps its sign in its line: 90 %, 30 ✓, ± 0.3."""
    for text in list(page.findall(Text)):
        parent = text.parent
        if not isinstance(parent, literal | FixedTextElement):
            parent.replace(text, Text(re.sub(r"(?<=\d) (?=[%✓✗†])|(?<=±) (?=\d)", "\N{NO-BREAK SPACE}", text)))


def note_missing_data(app: Any, page: str, source: list[str]) -> None:
    """Where a page could not be run, it says so."""
    if page in WITHOUT_DATA:
        note = "This page was built without its data: its code is shown without output.\n"
        note += f"It needs `{WITHOUT_DATA[page]}` in the folder that `SSHIBA_DATA` names."
        title = re.compile(r"^# .*$", re.M)
        source[0] = title.sub(lambda found: f"{found[0]}\n\n```{{note}}\n{note}\n```", source[0], count=1)


def write_sample_report(app: Any, error: Exception | None) -> None:
    """A live report beside the pages: of the table that comes with the library."""
    if error is None and app.builder.format == "html":
        patients = sshiba.datasets.load_patients()
        model = sshiba.SSHIBA(random_state=0).fit(patients)
        model.report(Path(app.outdir, "sample-report.html"), patients, title="569 patients with a breast mass")


def setup(app: Any) -> None:
    app.connect("source-read", note_missing_data)
    app.connect("doctree-resolved", keep_units)
    app.connect("build-finished", write_sample_report)
    app.add_html_math_renderer("mathml", (write_formula, None), (write_formula, None))
