"""Recognizes attention: a matmul, row operations with reductions on its result, and a second matmul of that."""

from __future__ import annotations

from collections.abc import Sequence

from ...base.dims import Size, bounds, is_known
from ..ir.graph import GraphTensor, Op
from ..ops.matmul import MatmulCore
from .groups import is_elementwise, reduces_rows
from .operand_rows import sliced_operands
from .pattern import Capture, match, node

MAX_OPS = 64
"""Maximum number of ops between the two matmuls."""

PACKED_BYTES = 2 << 20
"""Limit for packed keys and values kept on a thread's stack; beyond it, only a softmax can be computed in blocks."""

_LARGEST = Capture("largest", node("reduce_max", Capture("x")))
_POWERS = node("exp", node("sub", Capture("x"), _LARGEST))
_TOTAL = Capture("total", node("reduce_sum", Capture("powers")))
_SHARE = node("div", Capture("powers", node("exp", Capture("y"))), _TOTAL)
_SOFTMAX = node("div", Capture("powers", _POWERS), _TOTAL)
"""A decomposed softmax, and the division at its end."""


def attention_group(second: Op) -> list[Op] | None:
    """Return the ops of the group whose second matmul is `second`, in topological order; None if there is no
    such group."""
    if not _is_float_matmul(second) or second.attr("transpose_a"):
        return None
    weights = second.inputs[0]
    if second.inputs[1] is weights:
        return None
    first, between = _row_work_before(weights)
    if first is None or not any(map(reduces_rows, between)):
        return None
    matmuls = [op.outputs[0].details for op in (first, second)]
    if matmuls[0].plain_dims[:-2] != matmuls[1].plain_dims[:-2]:
        return None
    groups = panel_groups((first, second))
    if matmuls[0].dtype != matmuls[1].dtype or len(groups) > 1:
        return None  # one microkernel runs both
    if groups - {1} and first.attr("transpose_a"):
        return None
    if not has_dynamic_sizes(first, second):
        if packed_bytes(first, second) > PACKED_BYTES and not is_online([*between, second]):
            return None
    elif bounds(packed_bytes(first, second))[1] > PACKED_BYTES:
        return None  # the number of keys would decide how sums are rounded
    read = sliced_operands((first, second))
    group = [*read, first, *sorted(between, key=lambda op: op.logical_op_id), second]
    last = _transpose_after(second)
    return [*group, last] if last is not None else group


def _is_float_matmul(op: Op) -> bool:
    """Return whether `op` is a tuned float matmul with plain rows; its right-hand side may be packed in panels."""
    if not isinstance(op, MatmulCore) or not op.is_tuned or not op.contraction.result.is_float:
        return False
    if op.could_weigh_rows or op.could_dot_rows:
        return False
    types = op.contraction
    # What is narrower is converted in blocks of known sizes.
    any_size = min(types.a.bits, types.b.bits) >= 32
    return op.inputs[0].details.format.is_plain and (any_size or is_known(*op.sizes))


def has_dynamic_sizes(first: Op, second: Op) -> bool:
    """Return whether rows or columns are known at run time."""
    assert isinstance(first, MatmulCore) and isinstance(second, MatmulCore)
    return not is_known(*first.sizes, *second.sizes)


def panel_groups(matmuls: Sequence[Op]) -> set[int]:
    """Return the k group sizes of the panels that right-hand sides of matmuls are packed in."""
    formats = [op.inputs[1].details.format for op in matmuls]
    return {
        fmt.blocks[-1] if len(fmt.blocks) > fmt.rank + 1 else 1 for fmt in formats if fmt.is_blocked
    }


def packed_bytes(first: Op, second: Op) -> Size:
    """Bytes of the keys and values of one head."""
    assert isinstance(first, MatmulCore) and isinstance(second, MatmulCore)
    size = first.contraction.accumulator.size
    (_, columns, depth), (_, width, _) = first.sizes, second.sizes
    return columns * (size * (depth + width))


def is_online(ops: Sequence[Op]) -> bool:
    """Return whether a group's row operations are elementwise ops followed by a softmax, so that it can be computed
    in blocks."""
    matmuls = [op for op in ops if isinstance(op, MatmulCore)]
    plain = all(op.inputs[1].details.format.is_plain for op in matmuls)
    return plain and is_softmax(ops)


def is_softmax(ops: Sequence[Op]) -> bool:
    """Return whether a group's row operations are elementwise ops followed by a softmax."""
    second = [op for op in ops if isinstance(op, MatmulCore)][-1]
    only = sum(map(reduces_rows, ops)) == 2
    return only and softmax_scores(second.inputs[0]) is not None


def softmax_scores(weights: GraphTensor) -> GraphTensor | None:
    """The input of the softmax over the last axis that gives `weights`; None if it is not one."""
    found = match(_SOFTMAX, before_narrowing(weights))
    if found is None:
        return None
    reductions = (found[name].producer_owner for name in ("largest", "total"))
    return found["x"] if all(map(reduces_rows, reductions)) else None


def division_by_sum(tensor: GraphTensor) -> tuple[GraphTensor, GraphTensor] | None:
    """Return (exponentials, their sum) if a tensor is the quotient of these; else None."""
    found = match(_SHARE, tensor)
    return (found["powers"], found["total"]) if found else None


def before_narrowing(weights: GraphTensor) -> GraphTensor:
    """The tensor that was computed, where `weights` are that rounded to 16 bits; else the weights."""
    op = weights.producer_owner
    is_rounded = (
        op.op_name == "cast" and weights.details.dtype.accumulator == op.inputs[0].details.dtype
    )
    return op.inputs[0] if is_rounded else weights


def _row_work_before(weights: GraphTensor) -> tuple[Op | None, list[Op]]:
    """Return (matmul, ops between it and `weights`) if those ops have no other consumers and read no other matmul."""
    dims = weights.details.plain_dims
    shapes = {dims, (*dims[:-1], 1)}
    between: list[Op] = []
    matmul: Op | None = None
    work = [weights]
    while work:
        if len(between) > MAX_OPS:
            return None, []
        op = work.pop().producer_owner
        if op in between or op is matmul:
            continue
        if _is_float_matmul(op) and op.outputs[0].details.plain_dims == dims and matmul is None:
            matmul = op
        elif _is_row_work(op, dims) and op.outputs[0].details.plain_dims in shapes:
            between.append(op)
            work.extend(x for x in op.inputs if x.details.plain_dims in shapes and _computed(x))
        else:
            return None, []
    if matmul is not None and any(x.producer_owner in between for x in matmul.inputs):
        return None, []  # operands of the matmul cannot be computed after it
    inside = {*between} | ({matmul} if matmul is not None else set())
    closed = all(
        user in inside
        for op in inside
        for y in op.outputs
        for _, user in y.uses
        if y is not weights
    )
    return (matmul, between) if closed and len({op for _, op in weights.uses}) == 1 else (None, [])


def _is_row_work(op: Op, dims: tuple[Size, ...]) -> bool:
    """Return whether `op` is elementwise, or a reduction of rows as long as the matmul's."""
    return is_elementwise(op) or (reduces_rows(op) and op.inputs[0].details.plain_dims == dims)


def _computed(tensor: GraphTensor) -> bool:
    return tensor.producer_owner.kind not in ("source", "fused")


def _transpose_after(matmul: Op) -> Op | None:
    """Return the only consumer of the matmul, if it permutes all axes but the last."""
    result = matmul.outputs[0]
    consumers = {user for _, user in result.uses}
    if len(consumers) != 1:
        return None
    (consumer,) = consumers
    if (
        consumer.op_name != "transpose"
        or consumer.outputs[0].details.format != consumer.inputs[0].details.format
    ):
        return None
    perm = getattr(consumer, "perm")  # noqa: B009 - Op does not declare it
    return consumer if perm[-1] == len(perm) - 1 else None
