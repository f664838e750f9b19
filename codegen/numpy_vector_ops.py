"""`VectorOps` computed with NumPy: the same operations in the same order as the emitted code, without a compiler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .vector_ops import Arm, Value

Array = np.ndarray[Any, Any]

_COMPARE: dict[str, Callable[[Array, Array], Array]] = {
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
    "nlt": lambda a, b: ~np.less(a, b),
}


class NumpyVectorOps:
    """`VectorOps` on NumPy arrays of float32 (`bits` = 32) or float64, int32 or int64, and bool.

    `fma` in f32 is exact: multiplying two f32 is exact in f64, and the sum is rounded to odd there before it is
    rounded to f32. In f64 it is exact while a * b and its error term neither overflow nor become denormal;
    elsewhere it rounds twice. Call inside `np.errstate(all="ignore")`: lanes whose result is not used may overflow.
    """

    def __init__(self, has_fma: bool = True, bits: int = 32, has_scalef: bool = False) -> None:
        self.has_fma = has_fma
        self.has_scalef = has_scalef
        self.bits = bits
        self._float = np.dtype(f"float{bits}")
        self._int = np.dtype(f"int{bits}")
        self._unsigned = np.dtype(f"uint{bits}")

    @property
    def wide(self) -> NumpyVectorOps:
        """The same lanes in f64."""
        return NumpyVectorOps(self.has_fma, 64)

    def const(self, value: float) -> Value:
        """A float constant."""
        return np.asarray(value, self._float)

    def int_const(self, value: int) -> Value:
        """An integer constant."""
        return np.asarray(value, self._int)

    def add(self, a: Value, b: Value) -> Value:
        """a + b."""
        return np.add(a, b)

    def sub(self, a: Value, b: Value) -> Value:
        """a - b."""
        return np.subtract(a, b)

    def mul(self, a: Value, b: Value) -> Value:
        """a * b."""
        return np.multiply(a, b)

    def div(self, a: Value, b: Value) -> Value:
        """a / b."""
        return np.divide(a, b)

    def fma(self, a: Value, b: Value, c: Value) -> Value:
        """a * b + c, rounded once if `has_fma`."""
        if not self.has_fma:
            return np.add(np.multiply(a, b), c)
        return _fma32(a, b, c) if self.bits == 32 else _fma64(a, b, c)

    def scalef(self, a: Value, n: Value, kept: Value | None = None) -> Value:
        """a * 2**n, and 0 in lanes that are not `kept`."""
        known = np.isfinite(n) & (True if kept is None else kept)
        scaled = np.ldexp(a, np.where(known, n, 0).astype(np.int32))
        found = np.where(known, scaled, np.multiply(a, n)).astype(self._float)
        return found if kept is None else np.where(kept, found, self._float.type(0))

    def neg(self, a: Value) -> Value:
        """The sign bit flipped."""
        return np.negative(a)

    def abs(self, a: Value) -> Value:
        """The sign bit cleared."""
        return np.abs(a)

    def copysign(self, a: Value, sign: Value) -> Value:
        """The magnitude of a with the sign bit of `sign`."""
        return np.copysign(a, sign)

    def sqrt(self, a: Value) -> Value:
        """The square root."""
        return np.sqrt(a)

    def min(self, a: Value, b: Value) -> Value:
        """A if a < b else b."""
        return np.where(np.less(a, b), a, b)

    def max(self, a: Value, b: Value) -> Value:
        """A if a > b else b."""
        return np.where(np.greater(a, b), a, b)

    def compare(self, op: str, a: Value, b: Value) -> Value:
        """The mask of a `op` b for floats."""
        return _COMPARE[op](a, b)

    def int_compare(self, op: str, a: Value, b: Value) -> Value:
        """The mask of a `op` b for signed integers."""
        return _COMPARE[op](a, b)

    def mask_and(self, a: Value, b: Value) -> Value:
        """Both masks."""
        return np.logical_and(a, b)

    def mask_or(self, a: Value, b: Value) -> Value:
        """Either mask."""
        return np.logical_or(a, b)

    def select(self, mask: Value, a: Value, b: Value) -> Value:
        """A (float) where the mask is set, else b."""
        return np.where(mask, a, b)

    def int_select(self, mask: Value, a: Value, b: Value) -> Value:
        """A (integer) where the mask is set, else b."""
        return np.where(mask, a, b)

    def choose(self, mask: Value, usual: Arm, otherwise: Arm) -> tuple[Value, ...]:
        """Both sides, lane by lane."""
        return tuple(np.where(mask, a, b) for a, b in zip(usual(), otherwise(), strict=True))

    def repeat(
        self, again: Callable[[Value], Value], step: Callable[[Value], Value], value: Value
    ) -> Value:
        """Steps of all lanes, while any needs one."""
        while np.any(again(value)):
            value = step(value)
        return value

    def to_bits(self, a: Value) -> Value:
        """The bit pattern of a float as an integer."""
        return np.asarray(a, self._float).view(self._int)

    def from_bits(self, a: Value) -> Value:
        """The float of a bit pattern."""
        return np.asarray(a, self._int).view(self._float)

    def int_add(self, a: Value, b: Value) -> Value:
        """a + b."""
        return np.add(a, b)

    def int_sub(self, a: Value, b: Value) -> Value:
        """a - b."""
        return np.subtract(a, b)

    def int_and(self, a: Value, b: Value) -> Value:
        """a & b."""
        return np.bitwise_and(a, b)

    def int_or(self, a: Value, b: Value) -> Value:
        """a | b."""
        return np.bitwise_or(a, b)

    def int_xor(self, a: Value, b: Value) -> Value:
        """a ^ b."""
        return np.bitwise_xor(a, b)

    def shift_left(self, a: Value, count: int) -> Value:
        """a << count."""
        return np.left_shift(a, self.int_const(count))

    def shift_right(self, a: Value, count: int) -> Value:
        """a >> count with zeros coming in."""
        unsigned = np.asarray(a, self._int).view(self._unsigned)
        return np.asarray(unsigned >> self._unsigned.type(count)).view(self._int)

    def shift_right_signed(self, a: Value, count: int) -> Value:
        """a >> count with copies of the sign coming in."""
        return np.right_shift(a, self.int_const(count))

    def from_int(self, a: Value) -> Value:
        """The float of a small integer."""
        return np.asarray(a).astype(self._float)

    def widen(self, a: Value) -> Value:
        """An f32 value as f64."""
        return np.asarray(a).astype(np.float64)

    def narrow(self, a: Value) -> Value:
        """An f64 value rounded to f32."""
        return np.asarray(a).astype(np.float32)


def _fma32(a: Value, b: Value, c: Value) -> Array:
    scaled = np.multiply(a, b, dtype=np.float64)
    total, error = _two_sum(scaled, np.asarray(c).astype(np.float64))
    fused: Array = _round_to_odd(total, error).astype(np.float32)
    return fused


def _fma64(a: Value, b: Value, c: Value) -> Array:
    """Add both parts of the exact a * b to c, the lower rounded to odd so that the final sum rounds correctly."""
    high = np.multiply(a, b)
    low = _rounding_error(a, b, high)
    inner, inner_error = _two_sum(np.asarray(c), low)
    outer, outer_error = _two_sum(high, inner)
    fused = outer + _round_to_odd(*_two_sum(inner_error, outer_error))
    is_exact = (
        np.isfinite(fused) & np.isfinite(low) & (fused != 0)
    )  # the sum has the sign of a zero
    return np.where(is_exact, fused, high + c)


def _two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """The rounded sum and its error, exact."""
    total = np.add(a, b)
    of_b = total - a
    return total, (a - (total - of_b)) + (b - of_b)


def _rounding_error(a: Value, b: Value, scaled: Array) -> Array:
    """Return a * b - scaled, exact: each factor split into halves of 26 and 27 bits."""
    a_high, a_low = _split(a)
    b_high, b_low = _split(b)
    error: Array = a_high * b_high - scaled
    return error + a_high * b_low + a_low * b_high + a_low * b_low


def _split(a: Value) -> tuple[Array, Array]:
    scaled = np.multiply(a, 2.0**27 + 1)
    high: Array = scaled - (scaled - a)
    return high, a - high


def _round_to_odd(total: Array, error: Array) -> Array:
    """The neighbor of total + error whose last bit is odd, total itself if it is odd or exact."""
    bits = np.asarray(total).view(np.int64)
    inexact = (error != 0) & np.isfinite(total) & ((bits & 1) == 0)
    away = np.where((error > 0) == (total > 0), 1, -1)
    odd: Array = np.where(inexact, bits + away, bits).view(np.float64)
    return odd
