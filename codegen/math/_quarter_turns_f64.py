"""Any f64 angle reduced to a quarter turn, as a pair of f64."""

from __future__ import annotations

from functools import cache

from ..vector_ops import Value, VectorOps
from ._double_double import Pair, exact_mul, fast_two_sum, two_sum

_TWO_OVER_PI = 0.6366197723675814
_HALF_PI = (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591833e-33)
_NEAR = 2.0**30
"""Angles up to here are reduced with pi / 2 of 160 bits."""
_ROUND = 1.5 * 2.0**52
_PIECE_BITS, _PIECES = 24, 52
_SCALE = 300
"""Powers of two that angles give to the pieces of 2 / pi, so that none is denormal."""
_HALF_MASK = -1 << 27


def quarter_turns(wide: VectorOps, x: Value) -> tuple[Value, Pair]:
    """Return (n mod 4 as an integer, r) with x = n pi / 2 + r and |r| < 0.79; the relative error of r is 2**-55.

    NaN for infinite x. Method: r = x - n pi / 2 with pi / 2 in three parts; for large angles, the fraction of x 2 / pi
    by all bits of 2 / pi, in multiplications that are exact and lose multiples of 4.
    """
    is_near = wide.compare("le", wide.abs(x), wide.const(_NEAR))
    near = _near(wide, wide.select(is_near, x, wide.const(0.0)))

    def far() -> tuple[Value, ...]:
        return tuple(wide.select(is_near, a, b) for a, b in zip(near, _far(wide, x), strict=True))

    n, high, low = wide.choose(is_near, lambda: near, far)
    turns = wide.int_and(wide.to_bits(wide.add(n, wide.const(_ROUND))), wide.int_const(3))
    return turns, (high, low)


def _near(wide: VectorOps, x: Value) -> tuple[Value, Value, Value]:
    n = wide.mul(x, wide.const(_TWO_OVER_PI))
    n = wide.sub(wide.add(n, wide.const(_ROUND)), wide.const(_ROUND))
    multiple, error = exact_mul(wide, n, wide.const(_HALF_PI[0]))
    total, low = two_sum(wide, x, wide.neg(multiple))
    total, rest = two_sum(wide, total, wide.neg(error))
    low = wide.add(low, rest)
    multiple, error = exact_mul(wide, n, wide.const(_HALF_PI[1]))
    total, rest = two_sum(wide, total, wide.neg(multiple))
    low = wide.sub(wide.add(low, rest), wide.add(error, wide.mul(n, wide.const(_HALF_PI[2]))))
    return (n, *fast_two_sum(wide, total, low))


def _far(wide: VectorOps, x: Value) -> tuple[Value, Value, Value]:
    scaled = wide.mul(x, wide.const(2.0**-_SCALE))
    upper = wide.from_bits(wide.int_and(wide.to_bits(scaled), wide.int_const(_HALF_MASK)))
    total = low = lowest = wide.const(0.0)
    for piece in pieces():
        for half in (upper, wide.sub(scaled, upper)):
            part = _modulo_4(wide, wide.mul(half, wide.const(piece)))
            total, error = two_sum(wide, total, part)
            low, error = two_sum(wide, low, error)
            lowest = wide.add(lowest, error)
    total = _modulo_4(wide, total)
    n = wide.sub(wide.add(total, wide.const(_ROUND)), wide.const(_ROUND))
    fraction, low = two_sum(wide, wide.sub(total, n), low)
    fraction, low = fast_two_sum(wide, fraction, wide.add(low, lowest))
    high, error = exact_mul(wide, fraction, wide.const(_HALF_PI[0]))
    error = wide.add(error, wide.mul(fraction, wide.const(_HALF_PI[1])))
    error = wide.add(error, wide.mul(low, wide.const(_HALF_PI[0])))
    return (n, *fast_two_sum(wide, high, error))


def _modulo_4(wide: VectorOps, v: Value) -> Value:
    """v less a multiple of 4, exact, from -2 to 2; numbers of 51 bits from 2**53 up are such multiples."""
    quarter = wide.add(wide.mul(v, wide.const(0.25)), wide.const(_ROUND))
    multiple = wide.mul(wide.sub(quarter, wide.const(_ROUND)), wide.const(4.0))
    is_small = wide.compare("lt", wide.abs(v), wide.const(2.0**53))
    return wide.select(is_small, wide.sub(v, multiple), wide.const(0.0))


@cache
def pieces() -> tuple[float, ...]:
    """Return the bits of 2 / pi, 24 to a number, times 2**_SCALE."""
    bits = _PIECE_BITS * _PIECES
    guard = 64
    one = 1 << (bits + guard)
    pi = 4 * (4 * _inverse_tangent(5, one) - _inverse_tangent(239, one))  # Machin's formula
    number = ((2 * one << bits) // pi) & ((1 << bits) - 1)
    found = []
    for index in range(_PIECES):
        piece = number >> (bits - _PIECE_BITS * (index + 1)) & ((1 << _PIECE_BITS) - 1)
        found.append(float(piece) * 2.0 ** (_SCALE - _PIECE_BITS * (index + 1)))
    return tuple(found)


def _inverse_tangent(inverse: int, one: int) -> int:
    """atan(1 / inverse) in units of 1 / one."""
    term = one // inverse
    total, divisor, sign = term, 3, -1
    while term:
        term //= inverse * inverse
        total += sign * (term // divisor)
        divisor, sign = divisor + 2, -sign
    return total
