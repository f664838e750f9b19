"""Elementwise ops of one input and no attributes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...base.dtypes import BOOL, by_name
from ...tensor_ir import builder as t
from ...tensor_ir.intrinsics import INTRINSICS
from ...tensor_ir.nodes import Expr
from ..ir.computation import Index, Read
from ..ir.graph import Array, GraphTensor
from ..ir.reference import narrow, widen
from .elementwise import BITS, FLOAT, INTEGER, NUMBER, Elementwise, Row, define

TRANSCENDENTAL = {
    "exp": "e to the power x.",
    "expm1": "exp(x) - 1, exact near 0.",
    "log": "Natural logarithm.",
    "log1p": "log(1 + x), exact near 0.",
    "tanh": "Hyperbolic tangent.",
    "erf": "Error function.",
    "sin": "Sine of radians.",
    "cos": "Cosine of radians.",
    "tan": "Tangent of radians.",
    "asin": "Arc sine in radians.",
    "acos": "Arc cosine in radians.",
    "atan": "Arc tangent in radians.",
    "sinh": "Hyperbolic sine.",
    "cosh": "Hyperbolic cosine.",
    "asinh": "Inverse hyperbolic sine.",
    "acosh": "Inverse hyperbolic cosine.",
    "atanh": "Inverse hyperbolic tangent.",
}


def absolute(x: Expr) -> Expr:
    """|x|; an unsigned value is its own."""
    return abs(x) if x.dtype.is_signed else x


def sigmoid_denominator(x: Expr) -> Expr:
    """1 + exp(-x): exp overflows to inf for very negative x, so that quotients become the right 0."""
    return t.call("exp", -x) + 1


def _sigmoid(x: Expr) -> Expr:
    return 1 / sigmoid_denominator(x)


def _sign(x: Expr) -> Expr:
    negative = t.select(x < 0, -1, x) if x.dtype.is_signed else x
    return t.select(x > 0, 1, negative)


def _popcount(x: Expr) -> Expr:
    """Neighboring fields of 1, 2, 4, ... bits are added to fields of twice the width."""
    dtype = x.dtype
    word = by_name(f"u{dtype.bits}")
    total, width = t.bitcast(x, word), 1
    while width < dtype.bits:
        mask = _mask(width, dtype.bits)
        upper = total >> width
        total = (total & mask) + (upper & mask)
        width *= 2
    return t.bitcast(total, dtype)


def _mask(width: int, bits: int) -> int:
    """The lower half of every field of twice `width` bits."""
    return sum(((1 << width) - 1) << at for at in range(0, bits, 2 * width))


def _leading_zeros(x: Expr) -> Expr:
    """The highest 1 is copied to all lower bits; the bits left are counted."""
    dtype = x.dtype
    covered, step = t.bitcast(x, by_name(f"u{dtype.bits}")), 1
    while step < dtype.bits:
        covered = covered | covered >> step
        step *= 2
    return t.bitcast(_popcount(~covered), dtype)


def _popcount_ref(x: Any) -> Any:
    return np.bitwise_count(x.view(f"u{x.itemsize}")).astype(x.dtype)


def _leading_zeros_ref(x: Any) -> Any:
    word, bits = x.view(f"u{x.itemsize}"), 8 * x.itemsize
    length = sum(((word >> np.asarray(k, word.dtype)) != 0).astype(x.dtype) for k in range(bits))
    return np.asarray(bits, x.dtype) - length


def _node(op: str) -> Callable[[Expr], Expr]:
    return lambda x: t.unary(op, x)


def _call(name: str) -> Callable[[Expr], Expr]:
    return lambda x: t.call(name, x)


class _Exponential(Elementwise):
    """exp: cheaper where the largest element was subtracted, so that it cannot overflow."""

    def element(self, reads: Sequence[Read], index: Index) -> Expr:
        """The row's expression, or the function for arguments that are not positive."""
        if self._is_nonpositive():
            of = t.exp_weight if _only_weighs(self.outputs[0]) else t.exp_nonpositive
            return of(reads[0](index))
        return super().element(reads, index)

    def _is_nonpositive(self) -> bool:
        shifted = self.inputs[0].producer_owner
        if shifted.op_name != "sub":
            return False
        x, subtracted = shifted.inputs
        largest = subtracted.producer_owner
        if largest.op_name != "reduce_max" or largest.inputs[0] is not x:
            return False
        # Without the axis it may be subtracted from other elements than those it is the largest of.
        return bool(largest.attr("keep_dims"))


def _only_weighs(tensor: GraphTensor) -> bool:
    """Return whether nothing but sums read a softmax's exponentials: their own, and matmuls of what they weigh."""
    waiting = [tensor]
    while waiting:
        uses = waiting.pop().uses
        for operand, user in uses:
            if operand == 0 and user.op_name in ("div", "cast", "reorder"):
                waiting.append(user.outputs[0])
            elif user.op_name != "reduce_sum" and (operand or user.op_name != "matmul_core"):
                return False
        if not uses:
            return False
    return True


class _BitCount(Elementwise):
    """A count of bits: values of 2 and 4 bits are computed as bytes, of which the other bits are left out."""

    def reference(self, inputs: list[Array]) -> list[Array]:
        """The row's count without the other bits of the byte."""
        bits, wider = self._bits()
        value = widen(inputs[0])
        if wider:
            value = value & value.dtype.type((1 << bits) - 1)
        return [
            narrow(self.row.reference(value) - self._left_out(wider), self.outputs[0].details.dtype)
        ]

    def element(self, reads: Sequence[Read], index: Index) -> Expr:
        """The row's expression without the other bits of the byte."""
        bits, wider = self._bits()
        if not wider:
            return super().element(reads, index)
        counted = self.row.element(reads[0](index) & (1 << bits) - 1)
        return counted - self._left_out(wider)

    def _bits(self) -> tuple[int, int]:
        """The bits of the type, and how many more it is computed in."""
        dtype = self.inputs[0].details.dtype
        return dtype.bits, dtype.accumulator.bits - dtype.bits

    def _left_out(self, wider: int) -> int:
        """The zeros that the byte has above the type's bits."""
        return wider if self.row.name == "count_leading_zeros" else 0


ROWS = (
    *(Row(name, text, _call(name), INTRINSICS[name].meaning, FLOAT) for name, text in TRANSCENDENTAL.items()),
    Row("neg", "-x; unsigned values wrap.", lambda x: 0 - x if x.dtype.kind == "uint" else -x,
        np.negative, NUMBER),
    Row("abs", "|x|; the smallest signed integer stays itself.", absolute, np.abs, NUMBER),
    Row("sqrt", "Square root.", _node("sqrt"), np.sqrt, FLOAT),
    Row("rsqrt", "1 / sqrt(x).", lambda x: 1 / t.unary("sqrt", x), lambda x: 1 / np.sqrt(x), FLOAT),
    Row("reciprocal", "1 / x.", lambda x: 1 / x, lambda x: 1 / x, FLOAT),
    Row("square", "x * x.", lambda x: x * x, np.square, NUMBER),
    Row("sign", "-1, 0 or 1; NaN stays NaN.", _sign, np.sign, NUMBER),
    Row("relu", "max(x, 0); NaN stays NaN.", lambda x: t.maximum(x, 0),
        lambda x: np.maximum(x, x.dtype.type(0)), NUMBER),
    Row("sigmoid", "1 / (1 + exp(-x)).", _sigmoid, INTRINSICS["sigmoid"].meaning, FLOAT,
        function=lambda: "sigmoid"),
    Row("floor", "The largest integer that is at most x.", _node("floor"), np.floor, FLOAT),
    Row("ceil", "The smallest integer that is at least x.", _node("ceil"), np.ceil, FLOAT),
    Row("trunc", "x rounded towards 0.", _node("trunc"), np.trunc, FLOAT),
    Row("round", "x rounded to the nearest integer, ties to even.", _node("round_even"), np.rint, FLOAT),
    Row("not", "Logical not of bools, every bit of integers.", _node("not"), np.invert, BITS),
    Row("popcount", "The number of bits that are 1.", _popcount, _popcount_ref, INTEGER),
    Row("count_leading_zeros", "The number of 0 bits above the highest 1.", _leading_zeros,
        _leading_zeros_ref, INTEGER),
    Row("isnan", "Whether x is NaN.", lambda x: t.unequal(x, x), np.isnan, FLOAT, result=BOOL),
    Row("isinf", "Whether x is an infinity.", lambda x: t.equal(absolute(x), math.inf), np.isinf, FLOAT,
        result=BOOL),
)  # fmt: skip

_BASES = {"exp": _Exponential, "popcount": _BitCount, "count_leading_zeros": _BitCount}

for _row in ROWS:
    define(_row, _BASES.get(_row.name, Elementwise))
