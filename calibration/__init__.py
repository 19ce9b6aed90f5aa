"""Promises checked by simulation: is the model as often right as it says? `python -m calibration` (docs/trust.md)."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))  # whose interval_coverage.py is used here
