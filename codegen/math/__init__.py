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
from .circular_f64 import cos_f64, sin_f64, tan_f64
from .cos import cos
from .cosh import cosh
from .erf import erf
from .erf_f64 import erf_f64, erfc_f64
from .exp import exp
from .exp_f64 import exp_f64
from .exp_nonpositive import exp_nonpositive, exp_weight
from .expm1 import expm1
from .fmod import fmod, fmod_f64
from .gelu import gelu
from .gelu_tanh import gelu_tanh
from .hyperbolic_f64 import cosh_f64, expm1_f64, sinh_f64, tanh_f64
from .inverse_f64 import acos_f64, asin_f64, atan2_f64, atan_f64
from .log import log
from .log1p import log1p
from .log1p_f64 import acosh_f64, asinh_f64, atanh_f64, log1p_f64
from .log_f64 import log_f64
from .mish import mish
from .pow import pow
from .pow_f64 import pow_f64
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
    "exp_weight": exp_weight,
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

MATH_F64: dict[str, Callable[..., Value]] = {
    "exp": exp_f64,
    "expm1": expm1_f64,
    "log": log_f64,
    "log1p": log1p_f64,
    "pow": pow_f64,
    "fmod": fmod_f64,
    "erf": erf_f64,
    "erfc": erfc_f64,
    "sin": sin_f64,
    "cos": cos_f64,
    "tan": tan_f64,
    "asin": asin_f64,
    "acos": acos_f64,
    "atan": atan_f64,
    "atan2": atan2_f64,
    "sinh": sinh_f64,
    "cosh": cosh_f64,
    "tanh": tanh_f64,
    "asinh": asinh_f64,
    "acosh": acosh_f64,
    "atanh": atanh_f64,
}
"""The same for f64, with ops of f64; f32 uses those that it lacks."""
