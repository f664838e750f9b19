"""e ** x as a fraction and a power of two, for functions that multiply by more before the power is multiplied in."""

from __future__ import annotations

import math
from dataclasses import replace

from ...base.records import dataclass
from ..vector_ops import Value, VectorOps
from ._polynomial import horner

# Relative minimax fit of e**r on |r| <= ln(2) / 2, the first two terms held at 1, so that exp(0) == 1: iteratively
# reweighted least squares on 600 Chebyshev nodes until the error equioscillates, each coefficient rounded to f32 in
# turn, lowest first, and the others fitted again.
_COEFFICIENTS = (
    1.0,
    1.0,
    0.4999999403953552,
    0.1666652113199234,
    0.04166828840970993,
    0.008368703536689281,
    0.0013818938750773668,
)
LOG2_E = 1 / math.log(2)
LOWEST = -104.0  # e**x rounds to 0 from here down
# n is -254, of which both factors are 0: a multiplication that underflows takes 150 cycles.
_ZERO_FACTORS = -176.0
LN2_HIGH = 0.693145751953125  # 15 bits: times any n here, exact
LN2_LOW = math.log(2) - LN2_HIGH
# Adding it rounds to an integer that stands in the low mantissa bits, raised by two exponent biases.
ROUND = 1.5 * 2.0**23 + 254
_BIASED_ROUND = 1.5 * 2.0**23 + 127  # the same, by one bias


@dataclass(frozen=True)
class PowerOfTwo:
    """2**n for an integral n >= -254: one instruction where there is `scalef`, else two factors, each a normal f32.

    The factors of -253 and -254 are 0."""

    ops: VectorOps
    n: Value
    factors: tuple[Value, Value] | None
    kept: Value | None = None
    """Lanes in which it is not 0, None for all; only with `scalef`."""

    def times(self, value: Value) -> Value:
        """`value` * 2**n, rounded once if `value` is at least 2**-20: a denormal result is rounded, not flushed."""
        if self.factors is None:
            return self.ops.scalef(value, self.n, self.kept)
        return self.ops.mul(self.ops.mul(value, self.factors[0]), self.factors[1])


def power_of_two(ops: VectorOps, shifted: Value, n: Value) -> PowerOfTwo:
    """2**n, where `shifted` is n + ROUND."""
    if ops.has_scalef:
        return PowerOfTwo(ops, n, None)
    both = ops.to_bits(shifted)
    half = ops.shift_right(both, 1)
    rest = ops.int_sub(both, half)
    return PowerOfTwo(
        ops, n, (ops.from_bits(ops.shift_left(half, 23)), ops.from_bits(ops.shift_left(rest, 23)))
    )


def reduce_exponent(ops: VectorOps, x: Value) -> tuple[Value, PowerOfTwo]:
    """(r, 2**n) with x = n ln 2 + r, n integer and |r| <= ln(2) / 2, for -176 <= x <= 89; ln 2 has two parts."""
    shifted = ops.fma(x, ops.const(LOG2_E), ops.const(ROUND))
    n = ops.sub(shifted, ops.const(ROUND))
    r = ops.fma(n, ops.const(-LN2_HIGH), x)
    return ops.fma(n, ops.const(-LN2_LOW), r), power_of_two(ops, shifted, n)


def reduce_bounded(ops: VectorOps, x: Value) -> tuple[Value, PowerOfTwo]:
    """The same for every x <= 89: where e ** x rounds to 0 the power is 0, and r any number, also NaN."""
    kept, x = zero_below(ops, x, LOWEST, _ZERO_FACTORS)
    r, power = reduce_exponent(ops, x)
    return r, replace(power, kept=kept)


def zero_below(
    ops: VectorOps, x: Value, lowest: float, zero_factors: float
) -> tuple[Value | None, Value]:
    """Return what makes a result 0 below `lowest`: the lanes that `scalef` keeps, or x where the factors are 0."""
    if ops.has_scalef:
        return ops.compare("nlt", x, ops.const(lowest)), x
    return None, ops.max(ops.const(zero_factors), x)


def reduce_biased(ops: VectorOps, x: Value, raised: int = 0) -> tuple[Value, Value, Value]:
    """(r, n, 2**(n + raised)) with x = n ln 2 + r as `reduce_exponent` has it, for x <= 0 and n >= -127 - raised.

    The power of the least n is 0.
    """
    shifted = ops.fma(x, ops.const(LOG2_E), ops.const(_BIASED_ROUND + raised))
    n = ops.sub(shifted, ops.const(_BIASED_ROUND + raised))
    r = ops.fma(n, ops.const(-LN2_HIGH), x)
    power = ops.from_bits(ops.shift_left(ops.to_bits(shifted), 23))
    return ops.fma(n, ops.const(-LN2_LOW), r), n, power


def exp_fraction(ops: VectorOps, r: Value, times: float = 1.0) -> Value:
    """e ** r for |r| <= ln(2) / 2, rounded once after a polynomial of 2**-27; `times` a power of two near 1."""
    return horner(ops, r, [times * coefficient for coefficient in _COEFFICIENTS])


def exp_excess(ops: VectorOps, r: Value) -> Value:
    """e ** r - 1 for |r| <= ln(2) / 2, to multiply by e ** r with one rounding: fma(value, excess, value)."""
    return ops.mul(r, horner(ops, r, _COEFFICIENTS[1:]))


def exp_beyond_one(ops: VectorOps, r: Value) -> Value:
    """The same, rounded once to within 0.6 ULP: r, which is exact in it, and the square's small share."""
    square = ops.mul(r, r)
    c2, c3, c4, c5, c6 = map(ops.const, _COEFFICIENTS[2:])
    high = ops.fma(square, c6, ops.fma(r, c5, c4))
    return ops.fma(square, ops.fma(square, high, ops.fma(r, c3, c2)), r)
