"""Recognizes vectors of indices that advance by the same step from lane to lane."""

from __future__ import annotations

from ..tensor_ir.nodes import Binary, Broadcast, Const, Expr, Ramp

MAX_STRIDE = 4
"""Up to this many elements apart, whole vectors and shuffles are faster than a gather."""


def lane_stride(index: Expr) -> tuple[int, Expr] | None:
    """(step from lane to lane, the index in lane 0) of a vector of indices; None if there is no constant step."""
    if isinstance(index, Ramp):
        return 1, index.base
    if isinstance(index, Broadcast):
        return 0, index.operand
    if not isinstance(index, Binary) or index.op not in ("add", "mul"):
        return None
    left, right = lane_stride(index.left), lane_stride(index.right)
    if left is None or right is None:
        return None
    if index.op == "add":
        return left[0] + right[0], left[1] + right[1]
    if not left[0]:
        left, right = right, left
    factor = right[1]
    if right[0] or not isinstance(factor, Const):
        return None
    return left[0] * int(factor.value), left[1] * factor
