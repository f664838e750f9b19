"""Move the reshape after a matmul past elementwise ops, so that they can fuse into the matmul's epilogue."""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.graph import Graph, GraphTensor, Op
from ..ir.reshape_layout import reshape_groups
from ..ops.compose import Composer
from ..rewriting.groups import comes_from_tunable, elementwise_names, is_elementwise
from ..rewriting.rewrite import Rule, rewrite
from ..schedule.context import LowerContext


def sink_reshapes(graph: Graph, ctx: LowerContext) -> bool:
    """Compute elementwise ops in the shape of the matmul or convolution, rather than in that of its consumers.

    %c = reshape(matmul_core(%w, %p)); %y = relu(add(%c, %bias))
    ->
    %y = reshape(relu(add(matmul_core(%w, %p), reshape(%bias))))

    Where an operand is broadcast along only some of the axes that were one before, the reshape stays; so it does where
    a reduction reads it too, whose rows the elementwise ops then share.
    Requires: plain layouts, topological order.
    Ensures: topological order; only reshapes of results of tunable ops, or of elementwise ops on these, have moved; no
    reshape of a reshape.
    """
    rules: dict[str, list[Rule]] = {
        name: [_past] for name in elementwise_names() if name != "broadcast"
    }
    return rewrite(graph, {**rules, "reshape": [_join]})


def _join(graph: Graph, op: Op) -> GraphTensor | None:
    """A reshape of a reshape is one; it is the original tensor if that has its shape, such as between two convolutions
    of kernel 1."""
    inner, dims = op.inputs[0].producer_owner, op.outputs[0].details.plain_dims
    if op.inputs[0].details.plain_dims == dims:
        return op.inputs[0]
    if inner.op_name != "reshape":
        return None
    return _reshaped(Composer(graph, op), inner.inputs[0], dims)


def _past(graph: Graph, op: Op) -> GraphTensor | None:
    dims = op.outputs[0].details.plain_dims
    if not any(_is_free(x, dims) for x in op.inputs):
        return None  # before any search for matmuls, which long chains of residuals make long
    sources = {_source_dims(x) for x in op.inputs if x.details.plain_dims == dims} - {None}
    if len(sources) != 1:
        return None  # several matmuls of different shapes: no reshape suits all of them
    source = sources.pop()
    if source is None or source == dims:
        return None
    shapes = [_merged(x.details.plain_dims, dims, source) for x in op.inputs]
    if any(shape is None for shape in shapes):
        return None
    make = Composer(graph, op)
    inputs = [_reshaped(make, x, shape or ()) for x, shape in zip(op.inputs, shapes, strict=True)]
    result = graph.remake(op, inputs).outputs[0]
    return make("reshape", result, shape=dims)


def _source_dims(tensor: GraphTensor) -> tuple[int, ...] | None:
    """Return the shape in which a matmul computed a tensor, before a reshape if there is one; None if no matmul did."""
    op = tensor.producer_owner
    source = op.inputs[0] if op.op_name == "reshape" else tensor
    is_found = comes_from_tunable(source.producer_owner, reshaped=True)
    return source.details.plain_dims if is_found else None


def _is_free(tensor: GraphTensor, dims: tuple[int, ...]) -> bool:
    """Return whether only elementwise ops that do not need it read a matmul's reshape of the full shape."""
    is_full = tensor.details.plain_dims == dims and 0 not in dims
    if tensor.producer_owner.op_name != "reshape" or not is_full or _source_dims(tensor) is None:
        return False
    return all(user.kind == "sink" or is_elementwise(user) for _, user in tensor.uses)


def _merged(
    dims: Sequence[int], full: Sequence[int], source: Sequence[int]
) -> Sequence[int] | None:
    """The shape of an operand `dims` of a result `full` where the result has the shape `source`.

    None if the operand is broadcast along only some of the axes that are one axis of the source, or the reverse.
    """
    wide = (1,) * (len(full) - len(dims)) + tuple(dims)
    found = [1] * len(source)
    for old, new in reshape_groups(source, full):
        sizes = [wide[axis] for axis in new]
        if sizes == [full[axis] for axis in new]:
            for axis in old:
                found[axis] = source[axis]
        elif any(size != 1 for size in sizes):
            return None
    while len(dims) < len(full) and found[:1] == [1]:
        found.pop(0)
    return tuple(found)


def _reshaped(make: Composer, x: GraphTensor, dims: Sequence[int]) -> GraphTensor:
    if x.details.plain_dims == dims:
        return x
    producer = x.producer_owner
    if producer.op_name == "reshape" and producer.inputs[0].details.plain_dims == dims:
        return producer.inputs[0]
    return make("reshape", x, shape=dims)
