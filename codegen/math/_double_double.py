"""Sums and multiplications of f64 with their rounding errors: pairs (high, low) that hold some 106 bits."""

from __future__ import annotations

from ..vector_ops import Value, VectorOps

Pair = tuple[Value, Value]

_HALF_BITS = 27


def two_sum(wide: VectorOps, a: Value, b: Value) -> Pair:
    """Return a + b and its error."""
    total = wide.add(a, b)
    part = wide.sub(total, a)
    error = wide.add(wide.sub(a, wide.sub(total, part)), wide.sub(b, part))
    return total, error


def fast_two_sum(wide: VectorOps, a: Value, b: Value) -> Pair:
    """Return a + b and its error, for |a| >= |b|."""
    total = wide.add(a, b)
    return total, wide.sub(b, wide.sub(total, a))


def exact_mul(wide: VectorOps, a: Value, b: Value) -> Pair:
    """Return a * b and its error: exact with a fused multiply-add, else except for the last of its bits."""
    multiple = wide.mul(a, b)
    if wide.has_fma:
        return multiple, wide.fma(a, b, wide.neg(multiple))
    (a_high, a_low), (b_high, b_low) = _halves(wide, a), _halves(wide, b)
    error = wide.sub(wide.mul(a_high, b_high), multiple)
    error = wide.add(wide.add(error, wide.mul(a_high, b_low)), wide.mul(a_low, b_high))
    return multiple, wide.add(error, wide.mul(a_low, b_low))


def _halves(wide: VectorOps, a: Value) -> Pair:
    high = wide.from_bits(wide.int_and(wide.to_bits(a), wide.int_const(-1 << _HALF_BITS)))
    return high, wide.sub(a, high)


def divided(wide: VectorOps, a: Value, b: Pair) -> Pair:
    """Return a / b."""
    inverse = wide.div(wide.const(1.0), b[0])  # one division for two quotients
    quotient = wide.mul(a, inverse)
    multiple, error = exact_mul(wide, quotient, b[0])
    rest = wide.sub(wide.sub(wide.sub(a, multiple), error), wide.mul(quotient, b[1]))
    return fast_two_sum(wide, quotient, wide.mul(rest, inverse))
