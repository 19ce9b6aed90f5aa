"""`python -m sshiba.cli` is `sshiba`."""

from . import run

run()
