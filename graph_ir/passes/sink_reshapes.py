"""Move the reshape after a product past elementwise ops, so that they can fuse into the product's epilogue."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..ir.graph import Graph, GraphTensor, Op
from ..ops.compose import Composer
from ..rewriting.groups import comes_from_tunable, elementwise_names
from ..rewriting.rewrite import Rule, rewrite
from ..schedule.context import LowerContext


def sink_reshapes(graph: Graph, ctx: LowerContext) -> bool:
    """Compute elementwise ops on [N, O, pixels] rather than on [N, O, height, width].

    %c = reshape(matmul_core(%w, %p)); %y = relu(add(%c, %bias))
    ->
    %y = reshape(relu(add(matmul_core(%w, %p), reshape(%bias))))

    Requires: plain layouts, topological order.
    Ensures: topological order; only reshapes that split the last axis of a product's result have moved; no reshape
    undoes the one before it.
    """
    rules: dict[str, list[Rule]] = {
        name: [_past] for name in elementwise_names() if name != "broadcast"
    }
    return rewrite(graph, {**rules, "reshape": [_join]})


def _join(graph: Graph, op: Op) -> GraphTensor | None:
    """A reshape that undoes a reshape becomes the original tensor, such as between two convolutions of kernel 1."""
    inner = op.inputs[0].producer_owner
    if inner.op_name != "reshape":
        return None
    source = inner.inputs[0]
    return source if source.details.plain_dims == op.outputs[0].details.plain_dims else None


def _past(graph: Graph, op: Op) -> GraphTensor | None:
    dims = op.outputs[0].details.plain_dims
    merged = next((m for x in op.inputs if (m := _source_dims(x, dims)) is not None), None)
    if merged is None:
        return None
    shapes = [_merged(x.details.plain_dims, dims, merged) for x in op.inputs]
    if any(shape is None for shape in shapes):
        return None
    make = Composer(graph, op)
    inputs = [_reshaped(make, x, shape or ()) for x, shape in zip(op.inputs, shapes, strict=True)]
    result = graph.make(op.op_name, inputs, op.attrs, op.name).outputs[0]
    return make("reshape", result, shape=dims)


def _source_dims(tensor: GraphTensor, dims: tuple[int, ...]) -> tuple[int, ...] | None:
    """The shape before the reshape that made `tensor`, if it split the last axis of a product's result."""
    op = tensor.producer_owner
    if op.op_name != "reshape" or tensor.details.plain_dims != dims:
        return None
    source = op.inputs[0].details.plain_dims
    lead = len(source) - 1
    if not 0 < lead < len(dims) - 1 or source[:lead] != dims[:lead]:
        return None
    return source if comes_from_tunable(op.inputs[0].producer_owner) else None


def _merged(
    dims: Sequence[int], full: Sequence[int], merged: Sequence[int]
) -> tuple[int, ...] | None:
    """An operand's shape with the split axes merged; None if it is broadcast along only some of them."""
    split = len(full) - len(merged) + 1  # axes that were one
    tail = tuple(dims[-split:]) if dims else ()
    if all(size == 1 for size in tail):
        return (*dims[: max(len(dims) - split, 0)], *((1,) if dims else ()))
    whole = tail == tuple(full[-split:])
    return (*dims[:-split], math.prod(tail)) if whole else None


def _reshaped(make: Composer, x: GraphTensor, dims: tuple[int, ...]) -> GraphTensor:
    if x.details.plain_dims == dims:
        return x
    producer = x.producer_owner
    if producer.op_name == "reshape" and producer.inputs[0].details.plain_dims == dims:
        return producer.inputs[0]
    return make("reshape", x, shape=dims)
