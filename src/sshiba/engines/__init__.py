"""Where rows live and how their statistics add up."""

from .memory import MemoryEngine

__all__ = ["MemoryEngine"]
