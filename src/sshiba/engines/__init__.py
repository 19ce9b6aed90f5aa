"""Where rows live and how their statistics add up."""

from .memory import Local, MemoryEngine

__all__ = ["Local", "MemoryEngine"]
