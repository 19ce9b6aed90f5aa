"""The `sshiba` command."""

from .looking import app

__all__ = ["app", "run"]


def run() -> None:
    """The command as a program. Ctrl-C ends it without a traceback, also where the command itself does not catch it."""
    try:
        app()
    except KeyboardInterrupt:
        raise SystemExit(1) from None
