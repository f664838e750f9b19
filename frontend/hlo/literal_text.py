"""Arrays as HLO literals: decimals that read back as the same value, the shortest ones unless there are many."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...base.dtypes import BF16, F16, F32, F64, from_numpy
from ...graph_ir.ir.graph import Array

LARGE = 4096
"""Elements from which a constant is written with a fixed number of digits, ten times as fast as with the fewest."""

_EXACT_FORMATS = {F64: "%.17g", F32: "%.9g", F16: "%.5g", BF16: "%.4g"}
"""Formats with enough digits to distinguish all values of a type."""


def write_literal(array: Array) -> str:
    """Return the text between the parentheses of `constant(...)`: braces nested to the rank, every element."""
    if array.size >= LARGE and array.dtype.kind != "c":
        return _written_at_once(array)
    convert: Any = _text(array)
    if not array.ndim:
        return str(convert(array[()]))
    leaves = [convert(value) for value in array.reshape(-1)]
    return _nested(leaves, array.shape)


def _written_at_once(array: Array) -> str:
    """Format all elements by one operation of `%`."""
    dtype = from_numpy(array.dtype)
    element = "%d"
    if dtype.is_float:
        element = _EXACT_FORMATS.get(dtype, _EXACT_FORMATS[F32])
        with np.errstate(invalid="ignore"):  # signaling NaNs
            array = array.astype(np.float64)
    text = element
    for size in reversed(array.shape):
        text = f"{{{', '.join([text] * size)}}}"
    return text % tuple(array.reshape(-1).tolist())


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
    # bf16 has at most 5 digits; NumPy has no shortest form for it.
    kind = type(value)
    return next(t for t in (f"{number:.{n}g}" for n in range(1, 10)) if kind(float(t)) == value)
