"""Tables of measurements as a terminal shows them."""

from __future__ import annotations

import io
from collections.abc import Sequence

from rich.console import Console

from graphc.bench.engines import Row
from graphc.bench.tables import table


def shown(rows: Sequence[Row]) -> str:
    """The table on a terminal of 80 columns."""
    stream = io.StringIO()
    Console(width=80, file=stream).print(table(rows, 1))
    return stream.getvalue()
