"""Vector math: one function per file, written once against `VectorOps`. `MATH` lists f32's, `MATH_F64` f64's."""

from __future__ import annotations

from collections.abc import Callable

from ..vector_ops import Value
from .acos import acos
from .acosh import acosh
from .asin import asin
from .asinh import asinh
from .atan import atan
from .atan2 import atan2
from .atanh import atanh
from .cos import cos
from .cosh import cosh
from .erf import erf
from .exp import exp
from .exp_f64 import exp_f64
from .exp_nonpositive import exp_nonpositive
from .expm1 import expm1
from .fmod import fmod, fmod_f64
from .gelu import gelu
from .gelu_tanh import gelu_tanh
from .log import log
from .log1p import log1p
from .mish import mish
from .pow import pow
from .sigmoid import sigmoid
from .silu import silu
from .sin import sin
from .sinh import sinh
from .softplus import softplus
from .tan import tan
from .tanh import tanh

MATH: dict[str, Callable[..., Value]] = {
    "exp": exp,
    "exp_nonpositive": exp_nonpositive,
    "expm1": expm1,
    "log": log,
    "log1p": log1p,
    "pow": pow,
    "tanh": tanh,
    "erf": erf,
    "sin": sin,
    "cos": cos,
    "tan": tan,
    "asin": asin,
    "acos": acos,
    "atan": atan,
    "atan2": atan2,
    "fmod": fmod,
    "sinh": sinh,
    "cosh": cosh,
    "asinh": asinh,
    "acosh": acosh,
    "atanh": atanh,
    "sigmoid": sigmoid,
    "silu": silu,
    "gelu": gelu,
    "gelu_tanh": gelu_tanh,
    "mish": mish,
    "softplus": softplus,
}
"""Intrinsic name -> function(ops, *arguments) for f32."""

MATH_F64: dict[str, Callable[..., Value]] = {"exp": exp_f64, "fmod": fmod_f64}
"""The same for f64, with ops of f64; functions that are not here are those of libm."""
