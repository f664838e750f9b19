"""Recognises attention: a product, row work with reductions on its result, and a product that reads only that."""

from __future__ import annotations

from .graph import GraphTensor, Op
from .groups import is_elementwise, reduces_rows
from .ops.matmul import MatmulCore

PACKED_BYTES = 2 << 20
"""Most bytes of packed keys and values kept on a thread's stack; beyond, the products run apart."""


def attention_group(second: Op) -> list[Op] | None:
    """The ops of the group whose second product is `second`, in topological order; None if there is no such group."""
    if not _is_plain_product(second) or second.attrs.get("transpose_a"):
        return None
    weights = second.inputs[0]
    if second.inputs[1] is weights:
        return None
    first, between = _row_work_before(weights)
    if first is None or not any(map(reduces_rows, between)):
        return None
    if first.outputs[0].details.plain_dims[:-2] != second.outputs[0].details.plain_dims[:-2]:
        return None
    if _packed_bytes(first) + _packed_bytes(second) > PACKED_BYTES:
        return None
    group = [first, *sorted(between, key=lambda op: op.logical_op_id), second]
    last = _transpose_after(second)
    return [*group, last] if last is not None else group


def _is_plain_product(op: Op) -> bool:
    """A tuned product whose operands are all plain."""
    return (
        isinstance(op, MatmulCore)
        and op.is_tuned
        and all(x.details.format.is_plain for x in op.inputs)
    )


def _packed_bytes(op: Op) -> int:
    assert isinstance(op, MatmulCore)
    _, n, k = op.sizes
    return 4 * n * k


def _row_work_before(weights: GraphTensor) -> tuple[Op | None, list[Op]]:
    """(the product, ops between it and `weights`) if those ops are read by nobody else and read no other product."""
    dims = weights.details.plain_dims
    shapes = {dims, (*dims[:-1], 1)}
    between: list[Op] = []
    product: Op | None = None
    work = [weights]
    while work:
        op = work.pop().producer_owner
        if op in between or op is product:
            continue
        if _is_plain_product(op) and op.outputs[0].details.plain_dims == dims and product is None:
            product = op
        elif (is_elementwise(op) or reduces_rows(op)) and op.outputs[
            0
        ].details.plain_dims in shapes:
            between.append(op)
            work.extend(x for x in op.inputs if x.details.plain_dims in shapes and _computed(x))
        else:
            return None, []
    inside = {*between} | ({product} if product is not None else set())
    closed = all(
        user in inside
        for op in inside
        for y in op.outputs
        for _, user in y.uses
        if y is not weights
    )
    return (product, between) if closed and len({op for _, op in weights.uses}) == 1 else (None, [])


def _computed(tensor: GraphTensor) -> bool:
    return tensor.producer_owner.kind not in ("source", "fused")


def _transpose_after(product: Op) -> Op | None:
    """The only reader of the product, if it permutes all axes but the last."""
    result = product.outputs[0]
    readers = {user for _, user in result.uses}
    if len(readers) != 1:
        return None
    (reader,) = readers
    if (
        reader.op_name != "transpose"
        or reader.outputs[0].details.format != reader.inputs[0].details.format
    ):
        return None
    perm = getattr(reader, "perm")  # noqa: B009 - Op does not declare it
    return reader if perm[-1] == len(perm) - 1 else None
