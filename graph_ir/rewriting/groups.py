"""Read-only predicates on ops: what they may fuse with, and which layouts they follow."""

from __future__ import annotations

from typing import TypeGuard

from ..ir.computation import Pointwise
from ..ir.format import Format, plain
from ..ir.graph import GraphTensor, Op
from ..ir.op_kinds import FusibleOp, TunableOp, reduction
from ..ir.registry import names_where
from ..ir.reshape_layout import reshaped_formats
from ..ops.reduce import Reduce


def is_pointwise(op: Op) -> bool:
    """Return whether each output element is a function of single input elements (elementwise or movement)."""
    return (
        isinstance(op, FusibleOp)
        and op.kind == "fusible"
        and isinstance(op.computation(), Pointwise)
    )


def is_reduction(op: Op) -> bool:
    """Return whether the op combines many input elements into one output element."""
    return op.kind == "fusible" and reduction(op) is not None


def is_elementwise(op: Op) -> bool:
    """Return whether output element i reads only element i (or the broadcast of it) of every input."""
    return isinstance(op, FusibleOp) and op.elementwise


FOLLOWERS = (
    "byte_table",
    "concat",
    "pad",
    "repeat",
    "slice",
    "max_pool",
    "min_pool",
    "sum_pool",
    "prod_pool",
)


def follows_layout(op: Op) -> bool:
    """Return whether the op runs equally well in any layout; its result then takes the layout of its input.

    Elementwise ops, and ops that read other elements but keep the meaning of every axis.
    """
    if is_elementwise(op) or op.op_name in FOLLOWERS:
        return True
    if op.op_name == "gather":  # along one axis, as resize does
        return op.inputs[1].details.rank == 1
    if not keeps_axes(op):
        return False
    # Rows of a plain tensor have a loop of their own, which keeps them in cache.
    return op.axes != (op.x.details.rank - 1,)


def keeps_axes(op: Op) -> TypeGuard[Reduce]:
    """Return whether the op is a reduction whose result has an axis for each of its input."""
    return isinstance(op, Reduce) and op.keep_dims


def sums_images(op: Op, fmt: Format) -> bool:
    """Return whether a reduction gives one value per image and channel, from a layout with channels innermost.

    Its loop then goes through whole vectors, where rows of a plain tensor would first have to be made.
    """
    if not keeps_axes(op) or fmt.is_plain:
        return False
    blocked = {axis for axis, block in zip(fmt.order, fmt.blocks, strict=True) if block}
    inner = blocked | {fmt.order[-1]}
    return op.axes == tuple(range(2, fmt.rank)) and inner.isdisjoint(op.axes)


def elementwise_names() -> tuple[str, ...]:
    """The registered ops that are elementwise."""
    return names_where(_is_elementwise_class)


def _is_elementwise_class(cls: type[Op]) -> bool:
    return issubclass(cls, FusibleOp) and bool(cls.elementwise)


def comes_from_tunable(op: Op, reshaped: bool = False) -> bool:
    """Return whether the op is tunable, or a chain of elementwise ops (at most 100) on the result of one; perhaps with
    reshapes between them, if `reshaped`."""
    for _ in range(100):
        if reshaped and op.op_name == "reshape":
            op = op.inputs[0].producer_owner
            continue
        if op.kind == "tunable" or not is_elementwise(op):
            break
        same = [x for x in op.inputs if x.details.plain_dims == op.outputs[0].details.plain_dims]
        if not same:
            break
        op = same[0].producer_owner
    return op.kind == "tunable"


def is_tuned(op: Op) -> bool:
    """Return whether the op has its own loop template, which runs the elementwise ops after it on its accumulators."""
    return isinstance(op, TunableOp) and op.is_tuned


def is_view(op: Op) -> bool:
    """Return whether the output is a view of the input's memory: no code runs for it."""
    if op.op_name not in ("reshape", "reorder", "transpose"):
        return False
    source, result = op.inputs[0].details, op.outputs[0].details
    if op.op_name == "transpose":
        return transposed_format(op, source.format) == result.format
    if op.op_name == "reshape":
        if source.format.is_plain:
            return result.format.is_plain
        kept = reshaped_formats(source.plain_dims, result.plain_dims, source.format)
        return kept == (source.format, result.format)
    return source.format.is_view_of(result.format, source.plain_dims)


def transposed_format(op: Op, source: Format) -> Format:
    """The layout in which the result of a transpose is the memory of its input, which lies in layout `source`."""
    perm = op.attr("perm")
    order = tuple(perm.index(axis) for axis in source.order)
    return Format(plain(source.rank).axes, order, source.blocks)


def storage_root(tensor: GraphTensor) -> GraphTensor:
    """The tensor that owns this one's memory, looking through views."""
    while is_view(tensor.producer_owner):
        tensor = tensor.producer_owner.inputs[0]
    return tensor


def reduces_rows(op: Op) -> bool:
    """Return whether the op reduces exactly the last axis of a plain tensor, so that one row gives one value."""
    if not is_reduction(op) or len(op.inputs) != 1:
        return False
    source, result = op.inputs[0].details, op.outputs[0].details
    axes = getattr(op, "axes", None)
    return axes == (source.rank - 1,) and source.format.is_plain and result.format.is_plain
