"""`python -m sshiba.cli` is `sshiba`."""

from .app import app

app()
