"""Facts about a tensor's values that are known without running the graph. Read-only."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ..ir.graph import Array, GraphTensor, Op

_COPIES = ("broadcast", "reshape", "transpose", "reorder", "copy")
_NEVER_NEGATIVE = ("abs", "square", "exp", "sigmoid", "softmax")
_KEEP_NON_NEGATIVE = (
    *("add", "mul", "div", "max", "min", "sqrt", "floor", "ceil", "round", "trunc"),
    *("reduce_sum", "reduce_mean", "reduce_min", "reduce_prod"),  # reduce_max of nothing is -inf
    *_COPIES,
)


def constant_value(tensor: GraphTensor) -> Array | None:
    """The plain array of a constant; None for any other tensor."""
    op = tensor.producer_owner
    return op.attr("value") if op.is_constant else None


def constant_values(tensors: Iterable[GraphTensor]) -> list[Array] | None:
    """The plain arrays of constants; None if any of the tensors is not one."""
    values = [constant_value(tensor) for tensor in tensors]
    known = [value for value in values if value is not None]
    return known if len(known) == len(values) else None


def uniform_value(tensor: GraphTensor) -> Any | None:
    """The NumPy scalar that all elements of a constant equal bit for bit, looking through movement ops; None if
    they differ."""
    while tensor.producer_owner.op_name in _COPIES:
        tensor = tensor.producer_owner.inputs[0]
    value = constant_value(tensor)
    if value is None or not value.size:
        return None
    flat = value.reshape(-1)
    first = flat[0]
    # Comparing the last element first avoids the full comparison for most weights.
    if flat[-1] != first or not np.all(flat == first):
        return None
    if tensor.details.dtype.is_float and not first and np.ptp(np.signbit(flat).astype(np.int8)):
        return None
    return first


def is_finite(tensor: GraphTensor) -> bool:
    """Return whether every element times zero is zero: integers, and constants without infinities and NaN."""
    value = constant_value(tensor)
    if value is None:
        return not tensor.details.dtype.is_float
    return bool(np.isfinite(value.astype(np.float64)).all())


def never_below_zero(tensor: GraphTensor, most: int = 32) -> bool:
    """Return whether every element is +0, positive or NaN, never negative and never -0. Looks at `most` ops at most."""
    pending = [tensor]
    for _ in range(most):
        if not pending:
            return True
        tensor = pending.pop()
        op = tensor.producer_owner
        is_float = tensor.details.dtype.is_float  # signed integers may wrap to below zero
        if tensor.details.dtype.kind in ("uint", "bool") or (
            is_float and op.op_name in _NEVER_NEGATIVE
        ):
            continue
        if is_float and op.op_name in _KEEP_NON_NEGATIVE:
            pending.extend(op.inputs)
        elif not _is_never_negative_leaf(op):
            return False
    return not pending


def _is_never_negative_leaf(op: Op) -> bool:
    if op.is_constant:
        value = op.attr("value")
        return not np.any(np.signbit(value.astype(np.float64)))
    if op.op_name != "cast":
        return False
    source, target = op.inputs[0].details.dtype, op.outputs[0].details.dtype
    return source.kind == "bool" or (source.kind == "uint" and target.is_float)
