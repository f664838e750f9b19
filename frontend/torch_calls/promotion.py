"""PyTorch's rules for the dtype of a result of mixed operands."""

from __future__ import annotations

from collections.abc import Sequence

from ...base.dims import Dim
from ...base.dtypes import BF16, BOOL, F16, F32, F64, S8, S16, S32, S64, U8, DType
from ...graph_ir.ir.graph import GraphTensor

Number = Dim | int | float | bool
Operand = GraphTensor | Number

_FLOATS = (F16, F32, F64)
_INTEGERS = (S8, S16, S32, S64)


def promote(a: DType, b: DType) -> DType:
    """The type two tensors with axes are computed in."""
    if a == b or b == BOOL:
        return a
    if a == BOOL:
        return b
    if a.is_float != b.is_float:  # a float wins over any integer, however wide
        return a if a.is_float else b
    if a.is_float:
        if BF16 in (a, b):
            other = b if a == BF16 else a
            return F32 if other == F16 else other
        return max(a, b, key=_FLOATS.index)
    if U8 in (a, b):
        other = b if a == U8 else a
        return S16 if other == S8 else other
    return max(a, b, key=_INTEGERS.index) if {a, b} <= set(_INTEGERS) else S64


def result_dtype(operands: Sequence[Operand]) -> DType:
    """The type of an elementwise result.

    Scalar tensors, and then Python numbers, matter only if they are of a higher kind (bool, integer, float) than all
    operands of higher priority.
    """
    axes, scalars, numbers = None, None, None
    for x in operands:
        if not isinstance(x, GraphTensor):
            numbers = _joined(numbers, number_dtype(x))
        elif x.details.rank:
            axes = _joined(axes, x.details.dtype)
        else:
            scalars = _joined(scalars, x.details.dtype)
    return _weaker(axes, _weaker(scalars, numbers)) or F32


def number_dtype(value: Number) -> DType:
    """The type of a Python number: bool, s64 or f32."""
    if isinstance(value, bool):
        return BOOL
    return S64 if isinstance(value, (int, Dim)) else F32


def _joined(a: DType | None, b: DType) -> DType:
    return b if a is None else promote(a, b)


def _weaker(strong: DType | None, weak: DType | None) -> DType | None:
    if strong is None or weak is None:
        return strong or weak
    if strong.is_float or not (strong == BOOL or weak.is_float):
        return strong
    return promote(strong, weak)
