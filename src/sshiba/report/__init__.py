"""The report: one HTML file with everything a fit has to say, which works without a network."""

from .page import Report, write_report

__all__ = ["Report", "write_report"]
