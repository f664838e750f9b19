"""select: one of two values by a bool."""

from __future__ import annotations

import numpy as np

from ...tensor_ir import builder as t
from .elementwise import ANY, Row, define

Select = define(
    Row("select", "x where condition holds, else y; all three broadcast.", t.select, np.where, ANY,
        ("condition", "x", "y"), conditions=1)
)  # fmt: skip
