"""Evaluation of a polynomial, shared by the functions of this folder."""

from __future__ import annotations

from collections.abc import Sequence

from ..vector_ops import Value, VectorOps


def horner(ops: VectorOps, x: Value, coefficients: Sequence[float]) -> Value:
    """c[0] + c[1] * x + c[2] * x**2 + ..., by Horner's rule: one fma per degree."""
    result = ops.const(coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        result = ops.fma(result, x, ops.const(coefficient))
    return result
