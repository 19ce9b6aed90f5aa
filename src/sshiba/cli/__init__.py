"""The `sshiba` command."""

from .looking import app

__all__ = ["app", "run"]


def run() -> None:
    """The command as a program. Ctrl-C ends it without a traceback, also where the command itself does not catch it."""
    try:
        app()
    except KeyboardInterrupt:
        raise SystemExit(1) from None
    finally:
        # After an interrupt within an `exec` (of dataclasses, numba) Python takes it for uncaught, and ends
        # `python -m` by the signal, whatever the exit code. The next `exec` makes it forget.
        exec("")
