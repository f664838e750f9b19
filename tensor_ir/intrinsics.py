"""The intrinsics a `Call` may name: signature and meaning. Codegen holds one emitter for each.

The meaning is NumPy on arrays of the argument's dtype, computed in float64 and rounded once where the function is
transcendental, so that the interpreter is the reference the native code is measured against.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..base.dtypes import BF16, F16, F32, S8, S16, S32, U8, DType
from ..base.records import dataclass

Meaning = Callable[..., Any]


@dataclass(frozen=True)
class Intrinsic:
    """One callable: `arity` arguments, all of the result's dtype and lanes unless `reduces` (vector to scalar).

    `retypes`: the argument has another dtype, all its lanes together as many bits as the result, and the meaning gets
    the result's NumPy dtype as well. `group` > 0: a dot product (acc, a, b), where a and b have `group` lanes for each
    of the accumulator's and `operands` lists the types (a, b, acc) it takes. `index`: the type of the last argument, of
    another type than the others. `narrows`: the arguments are f32 and s32, the result an integer of 8 or 16 bits, and
    the meaning gets its NumPy dtype as well. `no_f64`: no library has it for f64.
    """

    name: str
    arity: int
    meaning: Meaning
    reduces: bool = False
    float_only: bool = True
    retypes: bool = False
    group: int = 0
    operands: tuple[tuple[DType, DType, DType], ...] = ()
    index: DType | None = None
    narrows: bool = False
    no_f64: bool = False


def _through_f64(function: Meaning) -> Meaning:
    def meaning(*args: Any) -> Any:
        dtype = np.asarray(args[0]).dtype
        with np.errstate(all="ignore"):
            wide = [np.asarray(a).astype(np.float64) for a in args]
            return np.asarray(function(*wide)).astype(dtype)

    return meaning


_erf = np.vectorize(math.erf, otypes=[np.float64])
_erfc = np.vectorize(math.erfc, otypes=[np.float64])


def _sigmoid(x: Any) -> Any:
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e, 1) / (1 + e)


def _gate(x: Any, y: Any) -> Any:
    """X times the sigmoid of y, which has the sign of x."""
    e = np.exp(-np.abs(y))
    return np.where(x < 0, x * e, x) / (1 + e)


def _gelu_tanh(x: Any) -> Any:
    return _gate(x, math.sqrt(8 / math.pi) * (x + 0.044715 * x**3))


def _mish(x: Any) -> Any:
    w = np.exp(np.minimum(x, 20))  # the factor of x is 1 from there on
    v = w + w * w / 2
    return x * (v / (1 + v))


def _fma(a: Any, b: Any, c: Any) -> Any:
    return a * b + c


def _pick(table: Any, index: Any) -> Any:
    """Lane i is table[index[i] modulo the lanes]."""
    return np.asarray(table)[np.asarray(index) % len(table)]


def _bitcast(x: Any, dtype: np.dtype) -> Any:
    return np.atleast_1d(x).view(dtype)


WIDEST_ZERO = 1 << 17
"""The largest magnitude of what `quantize` adds, more than differences of 16-bit integers have."""


def _quantize(x: Any, zero: Any, dtype: np.dtype) -> Any:
    """x as the nearest integer, ties to even, plus the literal `zero`, as the nearest number of `dtype`.

    NaN, and numbers of 2^31 or more, become its smallest number, as they do for `cvtps2dq`.
    """
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    with np.errstate(all="ignore"):
        whole = np.rint(np.asarray(x, np.float64))
        inside = np.asarray(x) < 2.0**31
    return np.where(inside, np.clip(whole + zero, low, high), low).astype(dtype)


def _dot(group: int) -> Meaning:
    """acc[i] + the sum over j < group of a[group * i + j] * b[group * i + j].

    Integers wrap, but the sum of the terms saturates if it has 16 bits. Floats: the last term of a group is
    added first; multiplications are exact, each sum is rounded to f32.
    That is what `vdpbf16ps` does, except that it may treat a subnormal operand or sum as zero.
    """

    def meaning(acc: Any, a: Any, b: Any) -> Any:
        acc = np.asarray(acc)
        wide = np.float64 if acc.dtype.kind == "f" else np.int64
        terms = (np.asarray(a, wide) * np.asarray(b, wide)).reshape(*acc.shape, group)
        if acc.dtype == np.int16:
            total = np.clip(terms.sum(-1), -(1 << 15), (1 << 15) - 1)
            return (acc.astype(wide) + total).astype(acc.dtype)
        for j in reversed(range(group)):
            acc = (acc.astype(wide) + terms[..., j]).astype(acc.dtype)
        return acc

    return meaning


_UNARY_MATH: dict[str, Meaning] = {
    "exp": np.exp,
    "exp_nonpositive": np.exp,
    "exp_weight": lambda x: np.where(x < -126.5 * math.log(2), 0, np.exp(x)),
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
    "sigmoid": _sigmoid,
    "silu": lambda x: _gate(x, x),
    "gelu": lambda x: 0.5 * x * _erfc(-math.sqrt(0.5) * x),
    "gelu_tanh": _gelu_tanh,
    "mish": _mish,
    "softplus": lambda x: np.logaddexp(x, 0),
    "erfc": _erfc,
}

_REDUCTIONS: dict[str, Meaning] = {
    "reduce_add": np.sum,
    "reduce_mul": np.prod,
    "reduce_min": np.min,
    "reduce_max": np.max,
    "reduce_larger": np.fmax.reduce,
    "reduce_and": np.bitwise_and.reduce,
    "reduce_or": np.bitwise_or.reduce,
}

_OWN = ("exp_nonpositive", "exp_weight", "sigmoid", "silu", "gelu", "gelu_tanh", "mish", "softplus")
"""Functions of `codegen.math` that are in no library."""

CHAINS = frozenset(("pow", "atan2", *_UNARY_MATH)) - {"erfc"}
"""Functions that are a chain of 15 to 100 operations in f32: of one vector alone, a CPU sees too few of them ahead."""

INTRINSICS: dict[str, Intrinsic] = {
    **{n: Intrinsic(n, 1, _through_f64(f), no_f64=n in _OWN) for n, f in _UNARY_MATH.items()},
    # Not np.power, which takes the root of a single number to the power 0.5 and so gives NaN for -inf.
    "pow": Intrinsic("pow", 2, _through_f64(np.float_power)),
    "atan2": Intrinsic("atan2", 2, _through_f64(np.arctan2)),
    "fmod": Intrinsic("fmod", 2, _through_f64(np.fmod)),
    "fma": Intrinsic("fma", 3, _through_f64(_fma)),
    **{n: Intrinsic(n, 1, f, reduces=True, float_only=False) for n, f in _REDUCTIONS.items()},
    "pick": Intrinsic("pick", 2, _pick, index=S32),
    "quantize": Intrinsic("quantize", 2, _quantize, float_only=False, narrows=True),
    "bitcast": Intrinsic("bitcast", 1, _bitcast, float_only=False, retypes=True),
    "dot2": Intrinsic(
        "dot2",
        3,
        _dot(2),
        float_only=False,
        group=2,
        operands=((BF16, BF16, F32), (F16, F16, F32), (S16, S16, S32), (U8, S8, S16)),
    ),  # fmt: skip
    "dot4": Intrinsic(
        "dot4", 3, _dot(4), float_only=False, group=4, operands=((U8, S8, S32), (S8, S8, S32))
    ),
}
