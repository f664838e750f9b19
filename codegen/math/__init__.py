"""Vector math: one function a file, written once against `VectorOps`. `MATH` names them for f32."""

from __future__ import annotations

from collections.abc import Callable

from ..vector_ops import Value
from .erf import erf
from .exp import exp
from .log import log
from .tanh import tanh

MATH: dict[str, Callable[..., Value]] = {
    "exp": exp,
    "log": log,
    "tanh": tanh,
    "erf": erf,
}
"""Intrinsic name -> function(ops, *arguments) for f32."""
