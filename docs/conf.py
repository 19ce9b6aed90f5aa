"""How the documentation is built: `make docs`. Tutorials are run while it is built."""

import os
from pathlib import Path

import sshiba

project = "SSHIBA"
author = "The SSHIBA developers"
version = release = sshiba.__version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "numpydoc"]
html_theme = "furo"
html_title = "SSHIBA"
html_static_path: list[str] = []
exclude_patterns = ["_build"]

myst_enable_extensions = ["dollarmath", "deflist"]
myst_heading_anchors = 3
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 300
nb_merge_streams = True
# The page on CLL needs its data, which are not ours to give; without them its code is shown, not run.
if not Path(os.environ.get("SSHIBA_DATA", "."), "cll.npz").is_file():
    nb_execution_excludepatterns = ["tutorials/cll.md"]

autodoc_typehints = "none"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
nitpicky = False
