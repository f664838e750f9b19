"""Chains of ops that make floats of bytes: a cast and arithmetic with constants."""

from __future__ import annotations

from ...base.dtypes import F32
from ..ir.graph import Op
from ..ops.pool import WindowReduce
from .groups import is_pointwise, is_reduction, is_view

_ARITHMETIC = ("sub", "mul", "add")
MAX_STEPS = 3
"""A cast, the zero point and the scale."""


def widening_of(last: Op) -> list[Op] | None:
    """The ops from a cast of bytes to f32 up to `last`, in order, if that is all they are and the last has no successor
    of that kind alone."""
    chain = _chain(last)
    if chain is None or last.outputs[0].details.dtype != F32:
        return None
    users = [user for _, user in last.outputs[0].uses]
    goes_on = len(users) == 1 and _chain(users[0]) is not None
    return None if goes_on else chain


def reads_widened(op: Op) -> bool:
    """Return whether a consumer computes the chain itself at no loss: it reads each element about once, in
    plain loops."""
    if isinstance(op, WindowReduce) or is_view(op) or op.op_name == "concat":
        return False
    return is_pointwise(op) or is_reduction(op)


def _chain(op: Op) -> list[Op] | None:
    found: list[Op] = []
    for _ in range(MAX_STEPS):
        found.insert(0, op)
        x = op.inputs[0] if op.inputs else None
        if x is None:
            return None
        if op.op_name == "cast":
            return (
                found if x.details.dtype.bits == 8 and op.outputs[0].details.dtype == F32 else None
            )
        is_scaling = op.op_name in _ARITHMETIC and op.inputs[1].is_constant
        if not is_scaling or x.details.plain_dims != op.outputs[0].details.plain_dims:
            return None
        op = x.producer_owner
    return None
