"""Explains why ops share a kernel and why neighbors do not: recorded by the pass `fuse` before it changes anything."""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.graph import Graph, GraphTensor, Op
from .attention import attention_group
from .decisions import record
from .groups import is_elementwise, is_pointwise, is_reduction, is_tuned, is_view, reduces_rows


def record_fusion(graph: Graph, groups: Sequence[Sequence[Op]]) -> None:
    """Record each group, and each edge between kernels with the rule that prevents fusion."""
    group_of = {op: group for group in groups for op in group}
    for group in groups:
        members = sorted(group, key=lambda op: op.logical_op_id)
        record(
            graph, "fused", [op.name for op in members], [f"{members[-1].name}.fused"], _why(group)
        )
    for op in graph.ops:
        for tensor in op.inputs:
            producer = tensor.producer_owner
            if "source" in (producer.kind, op.kind) or op.kind == "sink":
                continue
            if op in group_of and group_of[op] is group_of.get(producer):
                continue
            reason = refusal(tensor, op, group_of.get(producer), group_of.get(op))
            record(graph, "not fused", [producer.name, op.name], (), reason)


def anchor_text(op: Op) -> str:
    """The anchor a group grew from."""
    if is_tuned(op):
        return "a matmul: the others run on its accumulators, before the store"
    if reduces_rows(op):
        return "a reduction of rows: the others run while the row is in cache"
    if is_reduction(op):
        return "a reduction: the others run on each result, or on the values as they are read"
    return "an elementwise op: one loop computes all of them, values stay in registers"


def _why(group: Sequence[Op]) -> str:
    if any(attention_group(op) for op in group):
        return f"attention around {group[0].name}: scores stay in cache, one row block at a time"
    return f"anchor {group[0].name}, {anchor_text(group[0])}"


def refusal(
    tensor: GraphTensor,
    consumer: Op,
    producer_group: Sequence[Op] | None,
    consumer_group: Sequence[Op] | None,
) -> str:
    """The first rule that prevents the producer of `tensor` and a consumer from sharing a group."""
    producer = tensor.producer_owner
    anchor = producer_group[0] if producer_group else producer
    for end in (producer, consumer):
        if is_view(end):
            return f"{end.name} is a view: no code runs for it"
    if producer.op_name == "reorder" or consumer.op_name == "reorder":
        return "a change of layout is a separate kernel"
    if consumer.kind == "tunable":
        return f"operands of the matmul {consumer.name} are read many times, so they are stored"
    if not is_pointwise(consumer) and not is_reduction(consumer):
        return f"{consumer.op_name} has a separate kernel"
    if consumer_group and producer_group:
        return f"{consumer.name} belongs to the group of {consumer_group[0].name}"
    return _shape_refusal(tensor, consumer, anchor)


def _shape_refusal(tensor: GraphTensor, consumer: Op, anchor: Op) -> str:
    made, wanted = consumer.outputs[0].details, anchor.outputs[0].details
    if len(tensor.uses) > 1:
        readers = ", ".join(sorted({user.name for _, user in tensor.uses}))
        return f"its result is read by {readers}: more than one tensor would leave the group"
    if not is_elementwise(consumer):
        return f"{consumer.name} ({consumer.op_name}) does not map element to element"
    if made.plain_dims != wanted.plain_dims:
        return f"{consumer.name} makes {made}, the group of {anchor.name} {wanted}"
    if made.format != wanted.format:
        return f"layouts differ: {made} and {wanted}"
    return "it would make the group depend on itself, or compute values more than once"
