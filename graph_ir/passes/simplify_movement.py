"""Simplify data movement: remove identities, merge neighbors, and let consumers read transposes and broadcasts
in place."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...base.dims import bounds
from ...base.size_limits import broadcast_sizes
from ...base.size_queries import is_multiple
from ..ir.graph import Graph, GraphTensor, Op
from ..ir.registry import names_where
from ..ops.elementwise import Elementwise
from ..ops.movement import Slice, Transpose
from ..ops.reduce import Reduce, reduced_dims
from ..ops.softmax import ReduceLogSumExp
from ..rewriting.rewrite import Rule, rewrite
from ..schedule.context import LowerContext

_SINGLE_ELEMENT = ("reduce_sum", "reduce_mean", "reduce_max", "reduce_min", "reduce_prod")
_SINGLE_BOOL = ("reduce_any", "reduce_all")


def simplify_movement(graph: Graph, ctx: LowerContext) -> bool:
    """Remove movement ops that move nothing, merge consecutive ones, and use consumers that transpose or
    broadcast themselves.

    %t = transpose(%x, {1, 0}); %y = matmul_core(%t, %w); %r = reshape(reshape(%y)); %z = add(%r, broadcast(%b))
    ->
    %y = matmul_core(%x, %w, transpose_a=true); %r = reshape(%y); %z = add(%r, %b)

    Requires: topological order; plain layouts (before `propagate_layouts`).
    Ensures: topological order; none of the rules below fits any more.
    """
    rules: dict[str, tuple[Rule, ...]] = dict(RULES)
    for name in names_where(_is_elementwise):
        rules[name] = (_read_before_broadcast,)
    return rewrite(graph, rules)


def _is_elementwise(cls: type[Op]) -> bool:
    return issubclass(cls, Elementwise)


def _drop_identity(graph: Graph, op: Op) -> GraphTensor | None:
    """reshape, broadcast, slice, pad or concat to the same shape: x."""
    x = op.inputs[0]
    if len(op.inputs) > 1 or x.details.plain_dims != op.outputs[0].details.plain_dims:
        return None
    if op.op_name == "pad" and any(n != 0 for n in (*op.attr("before"), *op.attr("after"))):
        return None  # a pad may crop on one side and pad on the other
    if op.op_name == "slice" and any(step < 0 for step in op.attr("steps")):
        return None  # reversed
    return x


def _merge(graph: Graph, op: Op) -> GraphTensor | None:
    """reshape(reshape(x)), broadcast(broadcast(x)): the outer one alone."""
    inner = op.inputs[0].producer_owner
    if inner.op_name != op.op_name:
        return None
    op.set_input(0, inner.inputs[0])
    return op.outputs[0]


def _reshape_instead(graph: Graph, op: Op) -> GraphTensor | None:
    """A broadcast that only adds axes of size 1: reshape."""
    x, y = op.inputs[0].details, op.outputs[0].details
    if x.elements != y.elements or x.is_empty:
        return None
    return _reshape(graph, op, op.inputs[0])


def _keep_reduced_axes(graph: Graph, op: Op) -> GraphTensor | None:
    """reshape(reduce_sum(x)) that only puts the reduced axes back: reduce_sum(x, keep_dims)."""
    (x,) = op.inputs
    inner = x.producer_owner
    if not isinstance(inner, (Reduce, ReduceLogSumExp)) or inner.keep_dims:
        return None
    kept = reduced_dims(inner.inputs[0].details.plain_dims, inner.axes, True)
    if kept != op.outputs[0].details.plain_dims or len(x.uses) > 1:
        return None
    attrs = {**inner.attrs, "keep_dims": True}
    name = f"{inner.name}.{inner.op_name}"
    return graph.make(inner.op_name, inner.inputs, attrs, name).outputs[0]


def _reduce_nothing(graph: Graph, op: Op) -> GraphTensor | None:
    """A reduction over axes of size 1: reshape."""
    dims = op.inputs[0].details.plain_dims
    axes = op.axes if isinstance(op, Reduce) else range(len(dims))
    return _reshape(graph, op, op.inputs[0]) if all(dims[axis] == 1 for axis in axes) else None


def _reshape(graph: Graph, op: Op, x: GraphTensor) -> GraphTensor:
    shape = op.outputs[0].details.plain_dims
    if x.details.plain_dims == shape:
        return x
    return graph.make("reshape", [x], {"shape": shape}, f"{op.name}.reshape").outputs[0]


def _simplify_transpose(graph: Graph, op: Op) -> GraphTensor | None:
    """Identity: x; transpose of a transpose: one; where only axes of size 1 move: reshape."""
    if not isinstance(op, Transpose):
        return None
    x = op.inputs[0]
    if op.perm == tuple(range(len(op.perm))):
        return x
    inner = x.producer_owner
    if isinstance(inner, Transpose):
        op.set_attr("perm", tuple(inner.perm[axis] for axis in op.perm))
        op.set_input(0, inner.inputs[0])
        return op.outputs[0]
    moved = [axis for axis in op.perm if x.details.plain_dims[axis] != 1]
    return _reshape(graph, op, x) if moved == sorted(moved) else None


def _merge_slices(graph: Graph, op: Op) -> GraphTensor | None:
    """slice(slice(x)): one slice."""
    inner = op.inputs[0].producer_owner
    if not isinstance(inner, Slice) or op.outputs[0].details.is_empty:
        return None
    first, second = _starts_and_steps(inner), _starts_and_steps(op)
    pairs = list(zip(first, second, strict=True))
    op.set_attr("starts", [start + step * begin for (start, step), (begin, _) in pairs])
    op.set_attr("steps", [step * stride for (_, step), (_, stride) in pairs])
    op.set_input(0, inner.inputs[0])
    return op.outputs[0]


def _split_before_slice(graph: Graph, op: Op) -> GraphTensor | None:
    """reshape(slice(x)) that splits the sliced axis at multiples of its parts: slice(reshape(x)), a view.

    For heads of Q, K and V from one matmul: a consumer that reads the slice transposed then reads the matmul's result.
    """
    inner = op.inputs[0].producer_owner
    if not isinstance(inner, Slice) or op.outputs[0].details.is_empty:
        return None
    source, dims = (x.details.plain_dims for x in (*inner.inputs, *op.outputs))
    sizes, pairs = inner.outputs[0].details.plain_dims, _starts_and_steps(inner)
    cut = [axis for axis, size in enumerate(sizes) if size != source[axis]]
    more = len(dims) - len(sizes)
    if len(cut) != 1 or more < 1 or any(step != 1 for _, step in pairs):
        return None
    (axis,) = cut
    start, parts = pairs[axis][0], dims[axis : axis + more + 1]
    if dims != (*sizes[:axis], *parts, *sizes[axis + 1 :]):
        return None
    width = math.prod(parts[1:])
    if math.prod(parts) != sizes[axis]:
        return None
    if not (is_multiple(start, width) and is_multiple(source[axis], width)):
        return None
    shape = (*source[:axis], source[axis] // width, *parts[1:], *source[axis + 1 :])
    whole = graph.make("reshape", inner.inputs, {"shape": shape}, f"{op.name}.whole").outputs[0]
    starts = tuple(start // width if i == axis else 0 for i in range(len(dims)))
    attrs = {"starts": starts, "steps": (1,) * len(dims), "sizes": dims}
    return graph.make("slice", [whole], attrs, f"{op.name}.slice").outputs[0]


def _add_axes_before_slice(graph: Graph, op: Op) -> GraphTensor | None:
    """reshape(slice(x)) that only adds axes of size 1: slice(reshape(x)), so that who reads it may read x."""
    inner = op.inputs[0].producer_owner
    if not isinstance(inner, Slice):
        return None
    source, dims = (x.details.plain_dims for x in (*inner.inputs, *op.outputs))
    axes = _source_axes(inner.outputs[0].details.plain_dims, dims)
    if axes is None or len(dims) == len(source):
        return None
    pairs = _starts_and_steps(inner)
    shape = tuple(1 if axis is None else source[axis] for axis in axes)
    whole = graph.make("reshape", inner.inputs, {"shape": shape}, f"{op.name}.whole").outputs[0]
    starts, steps = zip(*((0, 1) if axis is None else pairs[axis] for axis in axes), strict=True)
    attrs = {"starts": starts, "steps": steps, "sizes": dims}
    return graph.make("slice", [whole], attrs, f"{op.name}.slice").outputs[0]


def _source_axes(dims: tuple[int, ...], larger: tuple[int, ...]) -> list[int | None] | None:
    """The axis of `dims` that each axis of `larger` is, None for new ones of size 1; None if other axes differ."""
    found: list[int | None] = []
    axis = 0
    for size in larger:
        if axis < len(dims) and dims[axis] == size:
            found.append(axis)
            axis += 1
        elif size == 1:
            found.append(None)
        else:
            return None
    return found if axis == len(dims) else None


def _share_heads(graph: Graph, op: Op) -> GraphTensor | None:
    """Multiply one row by heads that are broadcast copies without materializing the copies.

    %w = reshape(broadcast(%k[b,h,1,t,d], {b,h,g,t,d}), {b,h*g,t,d}); %y = matmul_core(%q[b,h*g,1,d], %w)
    ->
    %y = reshape(matmul_core(reshape(%q, {b,h,g,1,d}), %k))
    """
    q, joined = op.inputs[0], op.inputs[1].producer_owner
    dims, result = q.details.plain_dims, op.outputs[0].details.plain_dims
    if joined.op_name != "reshape" or op.attr("transpose_a") or len(dims) != 4 or dims[2] != 1:
        return None
    wide = joined.inputs[0].producer_owner
    if wide.op_name != "broadcast":
        return None
    heads, apart = wide.inputs[0].details.plain_dims, wide.outputs[0].details.plain_dims
    own = joined.outputs[0].details.plain_dims
    if len(apart) != 5 or len(heads) != 5 or heads != (*apart[:2], 1, *apart[3:]):
        return None
    batch, count, group, *matrix = apart
    if own != (batch, count * group, *matrix) or dims[:2] != own[:2]:
        return None
    shape = (batch, count, group, *dims[2:])
    rows = graph.make("reshape", [q], {"shape": shape}, f"{op.name}.groups").outputs[0]
    made = graph.make("matmul_core", [rows, wide.inputs[0]], op.attrs, f"{op.name}.shared")
    return graph.make("reshape", made.outputs, {"shape": result}, op.name).outputs[0]


def _starts_and_steps(op: Op) -> list[tuple[int, int]]:
    return list(zip(op.attr("starts"), op.attr("steps"), strict=True))


def _drop_empty_parts(graph: Graph, op: Op) -> GraphTensor | None:
    """concat(x, y) where y has no elements: concat(x)."""
    kept = [x for x in op.inputs if bounds(x.details.elements)[1]]
    if not kept or len(kept) == len(op.inputs):
        return None
    return graph.make("concat", kept, op.attrs, f"{op.name}.concat").outputs[0]


def _read_transposed(graph: Graph, op: Op) -> GraphTensor | None:
    """matmul_core(transpose(x), y) where the last two axes are swapped: matmul_core(x, y, transpose_a); also behind a
    reshape of the other axes."""
    for index, flag in enumerate(("transpose_a", "transpose_b")):
        inner = op.inputs[index].producer_owner
        *batch, rows, columns = op.inputs[index].details.plain_dims
        if inner.op_name == "reshape":
            moved = inner.inputs[0].details.plain_dims
            inner = inner.inputs[0].producer_owner if moved[-2:] == (rows, columns) else inner
        if not isinstance(inner, Transpose):
            continue
        rank = len(inner.perm)
        if inner.perm == (*range(rank - 2), rank - 1, rank - 2):
            op.set_attr(flag, not op.attr(flag))
            shape = {"shape": (*batch, columns, rows)}
            operand = graph.make("reshape", inner.inputs, shape, f"{op.name}.operand")
            op.set_input(index, operand.outputs[0])
            return op.outputs[0]
    return None


def _read_before_broadcast(graph: Graph, op: Op) -> GraphTensor | None:
    """add(x, broadcast(y)): add(x, y), where the result has the same shape without it."""
    for index, tensor in enumerate(op.inputs):
        inner = tensor.producer_owner
        if inner.op_name != "broadcast":
            continue
        shapes = [x.details.plain_dims for x in op.inputs]
        shapes[index] = inner.inputs[0].details.plain_dims
        if _common_shape(shapes) == op.outputs[0].details.plain_dims:
            op.set_input(index, inner.inputs[0])
            return op.outputs[0]
    return None


def _common_shape(shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    return broadcast_sizes(*shapes)


RULES: dict[str, tuple[Rule, ...]] = {
    "reshape": (
        _drop_identity,
        _merge,
        _keep_reduced_axes,
        _split_before_slice,
        _add_axes_before_slice,
    ),
    "broadcast": (_drop_identity, _merge, _reshape_instead),
    "transpose": (_simplify_transpose,),
    "slice": (_drop_identity, _merge_slices),
    "pad": (_drop_identity,),
    "concat": (_drop_identity, _drop_empty_parts),
    "matmul_core": (_read_transposed, _share_heads),
    **dict.fromkeys((*_SINGLE_ELEMENT, *_SINGLE_BOOL), (_reduce_nothing,)),
}
