"""Attempts to break the library: one module for each suite. `make torture` runs them all; see docs/trust.md."""
