"""Arrays as HLO literals: the shortest decimals that read back as the same value."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...base.dtypes import from_numpy
from ...graph_ir.ir.graph import Array


def write_literal(array: Array) -> str:
    """The text between the parentheses of `constant(...)`: braces nested to the rank, every element."""
    convert: Any = _text(array)
    if not array.ndim:
        return str(convert(array[()]))
    leaves = [convert(value) for value in array.reshape(-1)]
    return _nested(leaves, array.shape)


def _nested(leaves: list[str], shape: tuple[int, ...]) -> str:
    """Rows are joined from the innermost axis outwards."""
    rows = leaves
    for axis in range(len(shape) - 1, -1, -1):
        size = shape[axis]
        count = math.prod(shape[:axis])
        rows = [f"{{{', '.join(rows[i * size : (i + 1) * size])}}}" for i in range(count)]
    return rows[0]


def _text(array: Array) -> Any:
    if array.dtype == np.bool_:
        return (lambda v: str(int(v))) if array.ndim else (lambda v: "true" if v else "false")
    if array.dtype.kind == "c":
        return lambda v: f"({_float_text(v.real)}, {_float_text(v.imag)})"
    if not from_numpy(array.dtype).is_float:
        return lambda v: str(int(v))
    return _float_text


def _float_text(value: Any) -> str:
    number = float(value)
    if math.isnan(number):
        return "nan"
    if math.isinf(number):
        return "inf" if number > 0 else "-inf"
    if isinstance(value, np.float64):
        return repr(number).removesuffix(".0")
    if isinstance(value, (np.float32, np.float16)):
        return np.format_float_scientific(value, trim="-").replace("e+00", "")
    # bf16 has at most 5 digits; NumPy prints none of its own for it.
    kind = type(value)
    return next(t for t in (f"{number:.{n}g}" for n in range(1, 10)) if kind(float(t)) == value)
