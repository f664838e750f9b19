"""Comparisons: elementwise, two inputs of one dtype, bool output."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...base.dtypes import BOOL
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Expr
from .elementwise import ANY, Row, define

_MEANINGS = {
    "eq": ("a == b.", np.equal),
    "ne": ("a != b; true for NaN.", np.not_equal),
    "lt": ("a < b.", np.less),
    "le": ("a <= b.", np.less_equal),
    "gt": ("a > b.", np.greater),
    "ge": ("a >= b.", np.greater_equal),
}


def _element(op: str) -> Callable[[Expr, Expr], Expr]:
    return lambda a, b: t.compare(op, a, b)


COMPARE = {
    name: define(Row(name, text, _element(name), function, ANY, ("a", "b"), result=BOOL))
    for name, (text, function) in _MEANINGS.items()
}
"""The class of each comparison."""
