"""Where rows live: one protocol for what rows can do, the ways to do it, and the factory that chooses."""

from .factory import ENGINES, check_engine, make_rows
from .protocol import RowPosterior, Rows

__all__ = ["ENGINES", "RowPosterior", "Rows", "check_engine", "make_rows"]
