"""The error function and its complement in f64."""

from __future__ import annotations

from ..vector_ops import Value, VectorOps
from ._double_double import Pair, exact_mul, two_sum
from ._exponential_f64 import exponential_pair
from ._polynomial import horner

_TWO_OVER_ROOT_PI = (1.1283791670955126, 1.533545961316588e-17)
# (erf(x) / x - 2 / sqrt(pi)) / x**2 in x**2, interpolated on [0, 1] at Chebyshev nodes: 2**-56.
_SMALL = (
    -0.37612638903183754,
    0.11283791670955126,
    -0.026866170645131252,
    0.005223977625442186,
    -0.0008548327023450544,
    0.0001205533298176089,
    -1.4925650356656707e-05,
    1.6462114292902008e-06,
    -1.636584253801154e-07,
    1.4807147150533316e-08,
    -1.2289855746585177e-09,
    9.41507214265476e-11,
    -6.652074187842492e-12,
    4.1558617352790287e-13,
    -1.7988652209572032e-14,
)
# (1 + 2 x) e**(x**2) erfc(x) on [0.5, 28], in (x - 4) / (x + 4) moved to [-1, 1], interpolated likewise: 2**-55.
_LARGE = (
    1.2349370813045701,
    -0.10695041876258433,
    0.007249019654828385,
    0.03293852647857811,
    -0.036687054557804966,
    0.02585805262228839,
    -0.013914922457125322,
    0.005919748148560194,
    -0.001951680284922403,
    0.00045479247787305924,
    -4.907685025864508e-05,
    -1.1613602101644307e-05,
    6.1121971018108994e-06,
    -6.665064458637727e-07,
    -2.857081828911721e-07,
    9.889319711225843e-08,
    6.567797875971118e-09,
    -8.573290389769606e-09,
    3.727259651089649e-10,
    6.469619751253937e-10,
    -7.096363477352756e-11,
    -3.585559280675007e-11,
    5.266469213538428e-12,
)
_SCALE, _SHIFT = 1.309090909090909, 0.01818181818181818
_ZERO_FROM = 27.5  # erfc rounds to 0 from here up


def erf_f64(wide: VectorOps, x: Value) -> Value:
    """Error function of every f64, error <= 1 ULP; zeros keep their sign.

    Method: a polynomial up to 1, then 1 - erfc.
    """
    size = wide.abs(x)
    high, low = _series(wide, wide.min(wide.const(1.0), size))
    small = wide.add(high, low)
    large = wide.sub(wide.const(1.0), _complement(wide, size))
    result = wide.select(wide.compare("gt", size, wide.const(1.0)), large, small)
    return wide.copysign(wide.select(wide.compare("eq", x, x), result, x), x)


def erfc_f64(wide: VectorOps, x: Value) -> Value:
    """Complementary error function of every f64, error <= 3 ULP; denormal results are rounded, not flushed.

    Method: e ** -x**2 times a rational function from 1/2 up, 1 - erf(x) around 0, 2 - erfc(-x) below -1.
    """
    size = wide.abs(x)
    high, low = _series(wide, wide.max(wide.const(-1.0), wide.min(wide.const(1.0), x)))
    total, error = two_sum(wide, wide.const(1.0), wide.neg(high))
    middle = wide.add(total, wide.sub(error, low))
    far = _complement(wide, size)
    below = wide.compare("lt", x, wide.const(0.0))
    far = wide.select(below, wide.sub(wide.const(2.0), far), far)
    is_middle = wide.mask_or(
        wide.compare("lt", size, wide.const(0.5)),
        wide.mask_and(below, wide.compare("lt", size, wide.const(1.0))),
    )
    result = wide.select(is_middle, middle, far)
    return wide.select(wide.compare("eq", x, x), result, x)


def _series(wide: VectorOps, x: Value) -> Pair:
    """The error function for |x| <= 1 as a pair."""
    square = wide.mul(x, x)
    high, low = exact_mul(wide, x, wide.const(_TWO_OVER_ROOT_PI[0]))
    rest = wide.mul(wide.mul(x, square), horner(wide, square, _SMALL))
    low = wide.add(wide.add(low, wide.mul(x, wide.const(_TWO_OVER_ROOT_PI[1]))), rest)
    return two_sum(wide, high, low)


def _complement(wide: VectorOps, x: Value) -> Value:
    """The complementary error function for x >= 1/2."""
    x = wide.max(wide.const(0.5), wide.min(wide.const(_ZERO_FROM), x))
    square, low = exact_mul(wide, x, x)
    power = exponential_pair(wide, (wide.neg(square), wide.neg(low)))
    t = wide.div(wide.sub(x, wide.const(4.0)), wide.add(x, wide.const(4.0)))
    u = wide.fma(t, wide.const(_SCALE), wide.const(_SHIFT))
    below = wide.add(wide.const(1.0), wide.add(x, x))
    return wide.mul(power, wide.div(horner(wide, u, _LARGE), below))
