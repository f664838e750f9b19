"""The layout changes left in an optimized graph: how many, how many bytes, and where."""

from __future__ import annotations

from collections.abc import Iterator

from ...base.records import dataclass
from ..ir.graph import Graph, GraphTensor, Op
from ..rewriting.groups import is_view, storage_root


@dataclass(frozen=True)
class Reorder:
    """One reorder that runs: the bytes it reads and writes. `at_edge`: it reads an input of the model or writes an
    output, whose layouts the caller decides."""

    name: str
    bytes: int
    at_edge: bool


def remaining_reorders(graph: Graph) -> list[Reorder]:
    """Every reorder that is neither a view nor a constant; in a fused op it runs with the others of its kernel."""
    results = {storage_root(op.inputs[0]) for op in graph.outputs}
    found = []
    for op, kernel, sources in _all_ops(graph):
        if op.op_name != "reorder" or is_view(op):
            continue
        source, result = op.inputs[0], op.outputs[0]
        given = sources.get(source, source)
        at_edge = storage_root(given).producer_owner.is_input
        is_result = result is kernel.outputs[0] or _ends(kernel, result)
        at_edge |= is_result and kernel.outputs[0] in results
        found.append(
            Reorder(
                op.name,
                source.details.typical.size_bytes + result.details.typical.size_bytes,
                at_edge,
            )
        )
    return found


def has_layouts(graph: Graph) -> bool:
    """Return whether any activation has a layout other than the plain one."""
    return any(
        not y.details.format.is_plain
        for op, _, _ in _all_ops(graph)
        if op.kind not in ("source", "sink") and op.op_name != "reorder"
        for y in op.outputs
    )


def _all_ops(graph: Graph) -> Iterator[tuple[Op, Op, dict[GraphTensor, GraphTensor]]]:
    """(op, the op of `graph` it is in or is, what the inputs of its subgraph stand for)."""
    for op in graph.ops:
        if op.kind != "fused":
            yield op, op, {}
            continue
        body: Graph = op.attr("graph")
        sources = {x.outputs[0]: y for x, y in zip(body.inputs, op.inputs, strict=True)}
        for inner in body.ops:
            yield inner, op, sources


def _ends(kernel: Op, result: GraphTensor) -> bool:
    if kernel.kind != "fused":
        return False
    return any(op.inputs[0] is result for op in kernel.attr("graph").outputs)
