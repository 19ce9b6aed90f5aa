"""`python -m sshiba.cli` is `sshiba`."""

from .looking import app

app()
