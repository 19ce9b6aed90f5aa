"""Parts of a table that are parsed once, and then read from a Parquet file that has no name."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from itertools import accumulate

import numpy as np
import pandas as pd

from ..core.scratch import RowsLostError, no_room
from ..data.sources import Chunks
from .growing import ParquetRows


class Spool:
    """Frames one below the other in a scratch file, which is gone when nobody needs it any more.

    It lies in the folder for temporary files (TMPDIR).
    """

    def __init__(self, frames: Iterable[pd.DataFrame]) -> None:
        from pyarrow import parquet

        self.columns: pd.Index = pd.Index([])
        try:
            self.file = tempfile.TemporaryFile(prefix="sshiba-")  # noqa: SIM115 (it is kept open)
            with ParquetRows(self.file, group_bytes=0) as rows:
                for frame in frames:
                    self.columns = frame.columns
                    rows.add(frame.reset_index(drop=True))
        except RowsLostError:
            raise
        except OSError as error:
            raise no_room(error) from error
        self.parquet = parquet.ParquetFile(self.file)
        sizes = [self.parquet.metadata.row_group(k).num_rows for k in range(self.parquet.num_row_groups)]
        self.edges = np.array([0, *accumulate(sizes)])

    def chunks(self, row: int) -> Chunks:
        """The frames from the one on that has this row, each with the place of its first row."""
        first = max(int(np.searchsorted(self.edges, row, "right")) - 1, 0)
        for group in range(first, len(self.edges) - 1):
            yield int(self.edges[group]), self.parquet.read_row_group(group).to_pandas().set_axis(self.columns, axis=1)
