"""How the documentation is built: `make docs`. Tutorials are run while it is built."""

import logging
import os
import tempfile
from pathlib import Path
from typing import Any

from docutils.nodes import SkipNode
from latex2mathml.converter import convert

import sshiba

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
# The page on CLL needs its data, which are not ours to give; without them its code is shown, not run.
if not Path(os.environ.get("SSHIBA_DATA", "."), "cll.npz").is_file():
    nb_execution_excludepatterns = ["tutorials/cll.md"]

# Pictures go into the pages; what kernels and their client log, nowhere.
os.environ["MPLBACKEND"] = "module://matplotlib_inline.backend_inline"
logging.getLogger("traitlets").addFilter(lambda record: record.levelno >= logging.WARNING)
profile = Path(tempfile.mkdtemp()) / "profile_default"
profile.mkdir()
(profile / "ipython_kernel_config.py").write_text('get_config().IPKernelApp.log_level = "ERROR"\n', encoding="utf-8")
os.environ["IPYTHONDIR"] = str(profile.parent)

autodoc_typehints = "none"
numpydoc_show_class_members = False


def write_formula(writer: Any, node: Any) -> None:
    """A formula as MathML, which browsers draw by themselves: pages need no network."""
    block = node.__class__.__name__ == "math_block"
    writer.body.append(convert(node.astext(), display="block" if block else "inline"))
    raise SkipNode


def setup(app: Any) -> None:
    app.add_html_math_renderer("mathml", (write_formula, None), (write_formula, None))
