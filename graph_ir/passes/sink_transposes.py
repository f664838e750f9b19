"""Move the transpose after a convolution past elementwise ops, so that they can fuse into its epilogue."""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.graph import Graph, GraphTensor, Op
from ..ops.compose import Composer
from ..rewriting.groups import comes_from_tunable, elementwise_names
from ..rewriting.rewrite import Rule, rewrite
from ..schedule.context import LowerContext


def sink_transposes(graph: Graph, ctx: LowerContext) -> bool:
    """Compute elementwise ops on [N, O, H, W], the op's own shape, rather than on [N, H, W, O].

    %c = transpose(convolution(%x, %w)); %y = relu(add(%c, %bias))
    ->
    %y = transpose(relu(add(convolution(%x, %w), transpose(%bias))))

    Requires: plain layouts, topological order.
    Ensures: topological order; only transposes of results of tunable ops, or of elementwise ops on these, perhaps
    reshaped, have moved; no transpose undoes the one before it.
    """
    rules: dict[str, list[Rule]] = {
        name: [_past] for name in elementwise_names() if name != "broadcast"
    }
    return rewrite(graph, {**rules, "transpose": [_join]})


def _join(graph: Graph, op: Op) -> GraphTensor | None:
    """A transpose of a transpose: one, or none."""
    inner = op.inputs[0].producer_owner
    if inner.op_name != "transpose":
        return None
    outer, first = _perm(op), _perm(inner)
    perm = tuple(first[axis] for axis in outer)
    source = inner.inputs[0]
    if perm == tuple(range(len(perm))):
        return source
    return Composer(graph, op)("transpose", source, perm=perm)


def _past(graph: Graph, op: Op) -> GraphTensor | None:
    """All operands of the full shape must be transposed the same way; others are small and are transposed back."""
    dims = op.outputs[0].details.plain_dims
    full = [x for x in op.inputs if x.details.plain_dims == dims]
    perms = {_moved_by(x) for x in full}
    perm = next(iter(perms)) if len(perms) == 1 else None
    sources = [x.producer_owner.inputs[0].producer_owner for x in full] if perm else []
    if perm is None or not any(comes_from_tunable(op, reshaped=True) for op in sources):
        return None
    make = Composer(graph, op)
    inputs = [
        x.producer_owner.inputs[0] if x in full else _untransposed(make, x, perm) for x in op.inputs
    ]
    result = graph.remake(op, inputs).outputs[0]
    return make("transpose", result, perm=perm)


def _perm(op: Op) -> tuple[int, ...]:
    return op.attr("perm")


def _moved_by(tensor: GraphTensor) -> tuple[int, ...] | None:
    op = tensor.producer_owner
    return _perm(op) if op.op_name == "transpose" else None


def _untransposed(make: Composer, x: GraphTensor, perm: Sequence[int]) -> GraphTensor:
    """A broadcast operand with its axes in the order before the transpose."""
    dims = x.details.plain_dims
    if x.details.elements == 1 or not dims:
        return make("reshape", x, shape=()) if dims else x
    wide = (1,) * (len(perm) - len(dims)) + dims
    back = tuple(perm.index(axis) for axis in range(len(perm)))
    moved = [axis for axis in back if wide[axis] != 1]
    if moved == sorted(moved):  # only axes of size 1 move, which costs nothing
        return make("reshape", x, shape=tuple(wide[axis] for axis in back))
    if wide != dims:
        x = make("reshape", x, shape=wide)
    return make("transpose", x, perm=back)
