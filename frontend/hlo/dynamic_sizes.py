"""Opcodes that read or set the size of an axis, of which the type has only a bound."""

from __future__ import annotations

from ...base.dims import Size, is_known
from ...base.dtypes import S32
from ...graph_ir.ir.graph import GraphTensor
from ..correspondence.compositions.indexing import dynamic_size
from .scope import Handler, Step
from .values import shape_of


def _dimension_size(step: Step) -> GraphTensor:
    (x,) = step.tensors(1)
    size = x.details.plain_dims[step.one_axis("dimensions", x.details.rank)]
    if is_known(size):
        return step.constant(size, S32)
    return step.converted(dynamic_size(step, size), S32)


def _set_dimension_size(step: Step) -> GraphTensor:
    """The first elements of an axis; their number must be known, or the size of another."""
    x, size = step.tensors(2)
    axis = step.one_axis("dimensions", x.details.rank)
    if shape_of(size).logical() != "s32[]":
        raise step.rule("operand 1 must be s32[]", step.shown(size))
    known, most = step.known(size), x.details.plain_dims[axis]
    requested = _requested_size(size)
    if requested is not None:
        return step.cut(x, [requested if i == axis else d for i, d in enumerate(step.dims(0))])
    if known is None:
        raise step.unsupported(
            "a size that depends on the model's inputs", "make it a constant of the module"
        )
    if not 0 <= int(known) <= most:
        raise step.rule(f"the size of axis {axis} must be in [0, {most}]", str(int(known)))
    return step.sliced(x, axis, 0, int(known))


def _requested_size(number: GraphTensor) -> Size | None:
    """The dynamic size that `get-dimension-size` gave, through conversions and reshapes."""
    producer = number.producer_owner
    while producer.op_name in ("cast", "reshape"):
        producer = producer.inputs[0].producer_owner
    if producer.op_name != "dynamic_sizes":
        return None
    (size,) = producer.attr("values")
    found: Size = size
    return found


def _dynamic_reshape(step: Step) -> GraphTensor:
    """A reshape to sizes given as operands: known ones."""
    step.count(1, -1)
    x, *sizes = step.tensors()
    known = [step.known(size) for size in sizes]
    if any(size is None for size in known):
        raise step.unsupported(
            "sizes that depend on the model's inputs", "make it a constant of the module"
        )
    return step.make("reshape", x, shape=tuple(int(size) for size in known if size is not None))


HANDLERS: dict[str, Handler] = {
    "get-dimension-size": _dimension_size,
    "set-dimension-size": _set_dimension_size,
    "dynamic-reshape": _dynamic_reshape,
}
