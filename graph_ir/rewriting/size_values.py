"""Shape arithmetic on dynamic sizes: the value of a graph of small constants and sizes, as arrays of expressions.

An array of objects holds expressions (`base.dims`) and integers. Ops that move elements run by their references; sums,
multiplications, quotients and comparisons have a row here.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from ...base.dims import (
    Dim,
    NeedsLimit,
    Size,
    UndecidedSize,
    bounds,
    ceil_quotient,
    floor_quotient,
    is_known,
    maximum,
    minimum,
)
from ...base.dtypes import F32, F64, S64, DType
from ...base.errors import UserError
from ...base.records import dataclass
from ...base.scaled_sizes import scaled
from ...base.size_limits import at_least
from ..ir.graph import Array, Graph, Op
from ..ops.gather import Gather
from ..ops.movement import Movement


def size_values(graph: Graph) -> list[Array] | None:
    """The results of a graph without inputs; None where one is not an array of expressions."""
    values: dict[int, Array] = {}
    results: list[Array] = []
    try:
        for op in graph.ops:
            arrays = [values[id(x)] for x in op.inputs]
            if op.is_output:
                if any(isinstance(value, Real) for array in arrays for value in array.flat):
                    return None
                results += arrays
                continue
            (value,) = value_of(op, arrays)
            values[id(op.outputs[0])] = value
    except NeedsLimit:
        raise
    except (UndecidedSize, NoExpressionError):
        return None
    return list(map(settled, results))


def settled(value: Array) -> Array:
    """An array of integers where no size of it is dynamic; else the array itself."""
    if value.dtype != object or not is_known(*value.reshape(-1)):
        return value
    return value.astype(np.int64)


def is_arithmetic(op: Op) -> bool:
    """Return whether an op moves or combines sizes as `value_of` can."""
    return op.op_name in (*ROWS, *REDUCTIONS, "cast") or isinstance(op, (Movement, Gather))


class NoExpressionError(Exception):
    """A value that is not an expression of sizes."""


def value_of(op: Op, arrays: list[Array]) -> list[Array]:
    """Return the results of an op of sizes. UndecidedSize, NoExpressionError where they are not expressions."""
    if all(array.dtype != object for array in arrays):
        return op.reference(arrays)
    if op.op_name == "cast":
        return [_converted(arrays[0], op.outputs[0].details.dtype)]
    if isinstance(op, (Movement, Gather)):
        return op.reference(arrays)
    if op.op_name in REDUCTIONS:
        return [_reduced(op, arrays[0])]
    row = ROWS.get(op.op_name)
    if row is None or (op.op_name == "mod" and op.attr("sign") == "trunc" and _is_negative(arrays)):
        raise NoExpressionError
    return [np.asarray(np.frompyfunc(row, len(arrays), 1)(*arrays))]


@dataclass(frozen=True)
class Real:
    """A size as a float of `bits` bits, times a factor or divided by an integer."""

    size: Size
    bits: int
    factor: float = 1.0
    divisor: int = 1

    def __mul__(self, other: Any) -> Real:
        if isinstance(other, Real) or not 0 < other < math.inf or self.divisor != 1:
            raise NoExpressionError
        if self.factor == 1 and other == int(other):
            return Real(self.size * int(other), self.bits)
        if self.factor != 1:
            raise NoExpressionError
        return Real(self.size, self.bits, float(other))

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Real:
        if isinstance(other, Real) or not (0 < other == int(other)) or self.factor != 1:
            raise NoExpressionError
        return Real(self.size, self.bits, divisor=self.divisor * int(other))

    def rounded(self, how: str = "floor") -> Real:
        """The integer before it, after it (`ceil`), or nearest to it, of two the even one (`round`)."""
        exact = Fraction(self.factor) / self.divisor
        numerator, divisor = self.size * exact.numerator, exact.denominator
        if bounds(self.size)[0] < 0 or (how != "floor" and divisor > _MAX_DIVISOR):
            raise NoExpressionError
        if how == "ceil":
            found = ceil_quotient(numerator, divisor)
        elif how == "round":  # half of it, rounded to quarters in both directions
            found = floor_quotient(2 * numerator + divisor, 4 * divisor)
            found += ceil_quotient(2 * numerator - divisor, 4 * divisor)
        elif self.divisor > 1:
            found = floor_quotient(self.size, self.divisor)
        else:
            found = scaled(self.size, self.factor, self.bits)
        return Real(found, self.bits)


_MAX_DIVISOR = 1 << 16


def whole(x: Array) -> Array | None:
    """Floats as the sizes that they are; None where one may be no integer."""
    if any(isinstance(value, Real) and (value.factor, value.divisor) != (1, 1) for value in x.flat):
        return None
    return _converted(x, S64) if x.dtype == object else x


def _converted(x: Array, dtype: DType) -> Array:
    """Sizes as floats, and floats as sizes, cut to integers."""

    def convert(value: Any) -> Any:
        if dtype.is_float:
            return value if isinstance(value, Real) else Real(value, dtype.bits)
        return value.rounded().size if isinstance(value, Real) else value

    if dtype.kind not in ("int", "uint") and dtype not in (F32, F64):
        raise NoExpressionError
    return np.asarray(np.frompyfunc(convert, 1, 1)(x), object)


def _reduced(op: Op, x: Array) -> Array:
    """The elements of some axes combined, one axis at a time."""
    combine = np.frompyfunc(REDUCTIONS[op.op_name], 2, 1)
    for axis in sorted(op.attr("axes"), reverse=True):
        x = np.asarray(combine.reduce(x, axis=axis, initial=None), object)
    return x.reshape(op.outputs[0].details.plain_dims)


def _is_negative(arrays: Sequence[Array]) -> bool:
    """Return whether a number may be negative, so that it matters how a quotient is rounded."""
    return any(bounds(value)[0] < 0 for array in arrays for value in array.reshape(-1))


def quotient(value: Size, divisor: Size) -> Size:
    """Rounded down. UndecidedSize for a dynamic divisor that leaves a remainder."""
    if isinstance(divisor, int) and divisor > 0:
        return floor_quotient(value, divisor)
    return value // divisor


def remainder(value: Size, divisor: Size) -> Size:
    """Return the remainder that belongs to `quotient`. NeedsLimit if a dynamic divisor must be more than the value."""
    if isinstance(divisor, Dim) and bounds(value)[0] >= 0 and at_least(divisor - value, 1):
        return value
    if isinstance(divisor, Dim) and bounds(value)[1] < 0 and at_least(divisor + value, 0):
        return divisor + value
    return value - quotient(value, divisor) * divisor


def is_equal(a: Size, b: Size) -> bool:
    """Return whether two sizes are equal. UndecidedSize where that depends on what they are."""
    if isinstance(a, (bool, np.bool_)) or isinstance(b, (bool, np.bool_)):
        return bool(a == b)
    if a == b:
        return True
    low, high = bounds(a - b)
    if low <= 0 <= high:
        raise UndecidedSize(f"whether {a} is {b} is not known at compile time")
    return False


def _divide(a: Any, b: Any) -> Any:
    """Divide numbers that are not negative, for which rounding down and to zero agree."""
    if isinstance(a, Real):
        return a / b
    if not isinstance(b, Dim) and b == 0:
        raise UserError("a size must not be divided by 0")
    if not (a >= 0 and b > 0):
        raise UndecidedSize(f"how {a} / {b} is rounded is not known at compile time")
    return floor_quotient(a, b) if isinstance(b, int) else a // b


REDUCTIONS: Mapping[str, Callable[[Size, Size], Size]] = {
    "reduce_sum": operator.add,
    "reduce_prod": operator.mul,
    "reduce_min": minimum,
    "reduce_max": maximum,
}

ROWS: Mapping[str, Callable[..., Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": _divide,
    "mod": remainder,
    "neg": operator.neg,
    "min": minimum,
    "max": maximum,
    "eq": is_equal,
    "ne": lambda a, b: not is_equal(a, b),
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "select": lambda condition, a, b: a if condition else b,
    "not": operator.not_,
    "and": lambda a, b: bool(a and b),
    "or": lambda a, b: bool(a or b),
    "copy": lambda a: a,
    **dict.fromkeys(("floor", "trunc"), lambda a: a.rounded()),
    "ceil": lambda a: a.rounded("ceil"),
    "round": lambda a: a.rounded("round"),
}
"""Elementwise ops on expressions and integers."""
