"""Natural logarithm in f64."""

from __future__ import annotations

import math

from ..vector_ops import Value, VectorOps
from ._double_double import Pair
from ._logarithm_f64 import log_of_parts, parts, rounded_log_of_parts

_SMALLEST_NORMAL = 2.0**-1022
_SCALE = 54


def log_f64(wide: VectorOps, x: Value) -> Value:
    """Natural logarithm of every f64, error <= 0.53 ULP; -inf at +-0, NaN below.

    Method: as `log`, with the first term of the series in a pair of f64 (_logarithm_f64.py).
    """
    result = rounded_log_of_parts(wide, *_parts(wide, x))
    result = wide.select(wide.compare("lt", x, wide.const(math.inf)), result, x)
    result = wide.select(wide.compare("lt", x, wide.const(0.0)), wide.const(math.nan), result)
    return wide.select(wide.compare("eq", x, wide.const(0.0)), wide.const(-math.inf), result)


def log_pair(wide: VectorOps, x: Value) -> Pair:
    """Return the logarithm of a positive finite f64 as a pair."""
    return log_of_parts(wide, *_parts(wide, x))


def _parts(wide: VectorOps, x: Value) -> tuple[Value, Pair]:
    """(e, m - 1) with x = 2**e m."""
    is_denormal = wide.compare("lt", x, wide.const(_SMALLEST_NORMAL))
    normal = wide.select(is_denormal, wide.mul(x, wide.const(2.0**_SCALE)), x)
    exponent, mantissa, _ = parts(wide, normal)
    scale = wide.select(is_denormal, wide.const(float(-_SCALE)), wide.const(0.0))
    f = wide.sub(mantissa, wide.const(1.0))
    return wide.add(exponent, scale), (f, wide.const(0.0))
