"""Sine and cosine of any f32 angle reduced to a quarter turn, in f64."""

from __future__ import annotations

import math

from ..vector_ops import Value, VectorOps
from ._polynomial import horner

# sin(pi/2 * f) / f and cos(pi/2 * f) as polynomials in f * f for |f| <= 1/2, relative minimax fits: 2**-37, 2**-33.
_SIN_COEFFICIENTS = (
    1.5707963267877352,
    -0.6459640961001267,
    0.07969258178890047,
    -0.004681260229221662,
    0.00015819417154029985,
)
_COS_COEFFICIENTS = (
    1.0,
    -1.2337005425852716,
    0.2536692256197579,
    -0.020860162413424428,
    0.0009037602717694837,
)
# 2 / pi in pieces of 28 bits (a piece times an f32 is exact in f64): two neighbors, and the 53 bits that follow.
# Row j serves 2**(28 j + 25) <= |x| < 2**(28 j + 53), row 0 all smaller x too: earlier pieces give multiples of 4.
_TWO_OVER_PI = (
    ("0x1.45f306cp-1", "0x1.c9c882ap-29", "0x1.4fe13abe8fa9ap-59"),
    ("0x1.c9c882ap-29", "0x1.4fe13a8p-59", "0x1.f47d4d377036ep-86"),
    ("0x1.4fe13a8p-59", "0x1.f47d4dp-86", "0x1.bb81b6c52b328p-113"),
    ("0x1.f47d4dp-86", "0x1.bb81b6cp-113", "0x1.4acc9e21c8210p-143"),
)
_ROW_EXPONENTS = (53, 81, 109)
_FEW = 2.0**25  # angles up to here have fewer than 2**25 quarter turns
_ROUND = 1.5 * 2.0**52  # adding and subtracting it rounds to an integer


def sin_cos(ops: VectorOps, x: Value) -> tuple[Value, Value, Value]:
    """(sin(r), cos(r), k) in `ops.wide` for x = k pi/2 + r, |r| <= pi/4; k modulo 4 in the low bits of an integer.

    The relative error of both is below 2**-25.5 for every finite f32, NaN for the others; sin keeps the sign of a zero.
    Method: x * 2/pi with only those bits of 2/pi that x does not carry to multiples of 4 turns or below the f64
    result; the pieces are chosen by selects. Vectors of small angles alone need none of that: the bits are the same.
    """
    wide = ops.wide
    few = ops.compare("lt", ops.abs(x), ops.const(_FEW))
    wide_x = ops.widen(x)
    f, shifted = wide.choose(
        few, lambda: _few_quarter_turns(wide, wide_x), lambda: _quarter_turns(wide, wide_x)
    )
    quadrant = wide.to_bits(shifted)
    square = wide.mul(f, f)
    sine = wide.mul(f, horner(wide, square, _SIN_COEFFICIENTS))
    return sine, horner(wide, square, _COS_COEFFICIENTS), quadrant


def negate_where_bit(wide: VectorOps, bits: Value, bit: int, value: Value) -> Value:
    """`value`, its sign flipped where bit `bit` of the integer is set."""
    sign = wide.shift_left(wide.shift_right(bits, bit), 63)
    return wide.from_bits(wide.int_xor(wide.to_bits(value), sign))


def is_odd(wide: VectorOps, bits: Value) -> Value:
    """The mask of integers whose lowest bit is set."""
    return wide.int_compare("ne", wide.int_and(bits, wide.int_const(1)), wide.int_const(0))


def _few_quarter_turns(wide: VectorOps, x: Value) -> tuple[Value, Value]:
    """Return `_quarter_turns` of |x| < _FEW, where no multiple of 4 is subtracted."""
    high, middle, low = (wide.const(float.fromhex(piece)) for piece in _TWO_OVER_PI[0])
    shifted = wide.fma(x, wide.const(2 / math.pi), wide.const(_ROUND))
    nearest = wide.sub(shifted, wide.const(_ROUND))
    f = wide.fma(x, middle, wide.fma(x, high, wide.neg(nearest)))
    return wide.fma(x, low, f), shifted


def _quarter_turns(wide: VectorOps, x: Value) -> tuple[Value, Value]:
    """(x * 2/pi - k, k + _ROUND): the pieces are exact and cancel exactly, so a tiny remainder keeps its digits."""
    high, middle, low = (wide.mul(x, piece) for piece in _pieces(wide, wide.abs(x)))
    high, middle = _modulo_4(wide, high), _modulo_4(wide, middle)
    total = wide.add(high, wide.add(middle, low))
    shifted = wide.add(total, wide.const(_ROUND))
    nearest = wide.sub(shifted, wide.const(_ROUND))
    f = wide.add(wide.add(wide.sub(high, nearest), middle), low)
    return f, shifted


def _pieces(wide: VectorOps, magnitude: Value) -> list[Value]:
    row = [wide.const(float.fromhex(piece)) for piece in _TWO_OVER_PI[0]]
    for exponent, pieces in zip(_ROW_EXPONENTS, _TWO_OVER_PI[1:], strict=True):
        beyond = wide.compare("ge", magnitude, wide.const(2.0**exponent))
        row = [
            wide.select(beyond, wide.const(float.fromhex(piece)), old)
            for piece, old in zip(pieces, row, strict=True)
        ]
    return row


def _modulo_4(wide: VectorOps, x: Value) -> Value:
    """x less the nearest multiple of 4, exact for |x| < 2**53."""
    quotient = wide.add(wide.mul(x, wide.const(0.25)), wide.const(_ROUND))
    multiple = wide.mul(wide.sub(quotient, wide.const(_ROUND)), wide.const(4.0))
    return wide.sub(x, multiple)
