"""What the library says of its uncertainty, checked by simulation: `python -m calibration` (docs/trust.md)."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))  # interval_coverage.py is used here
