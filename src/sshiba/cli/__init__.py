"""The `sshiba` command."""

from .looking import app

__all__ = ["app"]
