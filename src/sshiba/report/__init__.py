"""The report: one HTML file with everything a fit has to say, which works without a network."""

from .page import write_report

__all__ = ["write_report"]
