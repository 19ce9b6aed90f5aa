"""The `sshiba` command."""

import sys

__all__ = ["run"]


def run() -> None:
    """The command as a program. Ctrl-C ends it without a traceback, also while it is imported, and where the command
    itself does not catch it.
    """
    try:
        from .looking import app

        app()
    except KeyboardInterrupt:
        print("Stopped.", file=sys.stderr)
        raise SystemExit(1) from None
    finally:
        # After an interrupt within an `exec` (of dataclasses, numba) Python takes it for uncaught, and ends
        # `python -m` by the signal, whatever the exit code. The next `exec` makes it forget.
        exec("")
