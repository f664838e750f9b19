"""The remainder of a / b with the sign of a, as C's fmod."""

from __future__ import annotations

from ..vector_ops import Value, VectorOps

_HALF_BITS = 27
"""The low bits of an f64 mantissa that `_high` clears: the multiplication of two numbers with the other bits
is exact."""

_SMALL = 2.0**26
"""Quotients below are rounded to integers, by adding and subtracting `_ROUND`; those above have no fraction then."""

_ROUND = 1.5 * 2.0**52

_STEP = 2.0**960
"""Divisors of quotients that overflow f64 are scaled by it, twice if need be: fmod(a, b) = fmod(fmod(a, b * s), b)."""


def fmod(ops: VectorOps, a: Value, b: Value) -> Value:
    """fmod(a, b) of f32, exact: in f64, where no quotient of two f32 overflows."""
    return ops.narrow(_fmod(ops.wide, ops.widen(a), ops.widen(b), scaled=False))


def fmod_f64(wide: VectorOps, a: Value, b: Value) -> Value:
    """fmod(a, b) of f64, exact for every quotient; special cases as in C99 (annex F.10.7.1)."""
    return _fmod(wide, a, b, scaled=True)


def _fmod(wide: VectorOps, a: Value, b: Value, scaled: bool) -> Value:
    """Method: while |r| >= |b|, r -= q b for the quotient q = r / b of 26 bits, or the nearest integer to a small one.

    q b is exact in two multiplications by the halves of b, and so is r, which loses at least 25 bits a step: one
    step for quotients below 2**26, at most 12 for f32 and 84 for f64. The last r may be negative: one b more is
    the remainder.
    """
    divisor = wide.abs(b)
    high = _high(wide, divisor)
    low = wide.sub(divisor, high)
    one, step = wide.const(1.0), wide.const(_STEP)

    def is_left(r: Value) -> Value:
        return wide.compare("ge", wide.abs(r), divisor)

    def reduced(r: Value) -> Value:
        parts = [divisor, high, low]
        for _ in range(2 if scaled else 0):
            is_far = wide.compare("gt", wide.abs(r), wide.mul(parts[0], step))
            scale = wide.select(is_far, step, one)
            parts = [wide.mul(part, scale) for part in parts]
        q = _quotient(wide, wide.div(r, parts[0]))
        rest = wide.sub(wide.sub(r, wide.mul(q, parts[1])), wide.mul(q, parts[2]))
        return wide.select(is_left(r), rest, r)  # lanes that have ended wait for the others

    r = wide.repeat(is_left, reduced, wide.abs(a))
    r = wide.select(wide.compare("lt", r, wide.const(0.0)), wide.add(r, divisor), r)
    is_number = wide.compare("eq", divisor, divisor)
    return wide.select(is_number, wide.copysign(r, a), b)


def _high(wide: VectorOps, x: Value) -> Value:
    """Return x with the low bits of its mantissa cleared."""
    return wide.from_bits(wide.int_and(wide.to_bits(x), wide.int_const(-1 << _HALF_BITS)))


def _quotient(wide: VectorOps, q: Value) -> Value:
    """Return an integer of at most 27 bits near q."""
    nearest = wide.sub(wide.add(q, wide.const(_ROUND)), wide.const(_ROUND))
    is_small = wide.compare("lt", wide.abs(q), wide.const(_SMALL))
    return wide.select(is_small, nearest, _high(wide, q))
