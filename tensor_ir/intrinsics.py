"""The intrinsics a `Call` may name: signature and meaning. Codegen holds one emitter for each.

The meaning is NumPy on arrays of the argument's dtype, computed in float64 and rounded once where the function is
transcendental, so that the interpreter is the reference the native code is measured against.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Meaning = Callable[..., Any]


@dataclass(frozen=True)
class Intrinsic:
    """One callable: `arity` arguments, all of the result's dtype and lanes unless `reduces` (vector to scalar).

    `retypes`: the argument has another dtype of as many bits, and the meaning gets the result's NumPy dtype as well.
    """

    name: str
    arity: int
    meaning: Meaning
    reduces: bool = False
    float_only: bool = True
    retypes: bool = False


def _through_f64(function: Meaning) -> Meaning:
    def meaning(*args: Any) -> Any:
        dtype = np.asarray(args[0]).dtype
        with np.errstate(all="ignore"):
            wide = [np.asarray(a).astype(np.float64) for a in args]
            return np.asarray(function(*wide)).astype(dtype)

    return meaning


_erf = np.vectorize(math.erf, otypes=[np.float64])


def _fma(a: Any, b: Any, c: Any) -> Any:
    return a * b + c


def _bitcast(x: Any, dtype: np.dtype) -> Any:
    return np.asarray(x).view(dtype)


_UNARY_MATH: dict[str, Meaning] = {
    "exp": np.exp,
    "expm1": np.expm1,
    "log": np.log,
    "log1p": np.log1p,
    "tanh": np.tanh,
    "erf": _erf,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
}

_REDUCTIONS: dict[str, Meaning] = {
    "reduce_add": np.sum,
    "reduce_mul": np.prod,
    "reduce_min": np.min,
    "reduce_max": np.max,
    "reduce_and": np.bitwise_and.reduce,
    "reduce_or": np.bitwise_or.reduce,
}

INTRINSICS: dict[str, Intrinsic] = {
    **{n: Intrinsic(n, 1, _through_f64(f)) for n, f in _UNARY_MATH.items()},
    # Not np.power, which takes the root of a single number to the power 0.5 and so gives NaN for -inf.
    "pow": Intrinsic("pow", 2, _through_f64(np.float_power)),
    "atan2": Intrinsic("atan2", 2, _through_f64(np.arctan2)),
    "fma": Intrinsic("fma", 3, _through_f64(_fma)),
    **{n: Intrinsic(n, 1, f, reduces=True, float_only=False) for n, f in _REDUCTIONS.items()},
    "bitcast": Intrinsic("bitcast", 1, _bitcast, float_only=False, retypes=True),
}
