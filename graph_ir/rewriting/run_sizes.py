"""Sizes that the data decide: small integer tensors of a graph as arrays of expressions.

    %longest = reduce_max(%lengths)          its element is counted: a symbol K
    %shape = concat([2], %longest + 1)       [2, K+1]

What shape arithmetic gives is followed back to what it computes with; an element that nothing else says is counted by
each run, once however often it is read.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...base.dims import Size, UndecidedSize
from ..ir.contents import attribute_tokens
from ..ir.graph import Array, Graph, GraphTensor, Op
from ..ir.note import Note
from .size_values import NoExpressionError, is_arithmetic, value_of

CountSize = Callable[[GraphTensor, str], Size]
"""Makes a number (one element of an integer tensor) a size that a run counts and that is called like a text."""

_MAX_COUNTED = 8
"""Elements of a tensor that are counted: a shape has as many."""

_MAX_FOLLOWED = 64
"""Elements of a tensor that is followed back."""

_CHOICES = ("max", "min", "reduce_max", "reduce_min")
"""Ops whose result is one of their operands' elements."""

_FOUND: Note[dict[GraphTensor, Array]] = Note("run_sizes", dict)


def run_sizes(graph: Graph, x: GraphTensor, count: CountSize | None) -> Array | None:
    """The elements of an integer tensor as sizes; None where it has too many, or is no tensor of integers.

    Without `count`, None as well where a run would have to count some.
    """
    details, found = x.details, _FOUND.of(graph)
    if details.dtype.kind not in ("int", "uint") or not details.is_known:
        return None
    if x in found or details.elements > _MAX_FOLLOWED:
        return found.get(x)
    value = _followed(graph, x, count)
    if value is None and count is not None:
        value = _counted(graph, x, count)
    if value is not None:
        found[x] = value
    return value


def whole_number(graph: Graph, x: GraphTensor, count: CountSize | None) -> Array | None:
    """`run_sizes` of a tensor of integers, or of floats that were integers."""
    made = x.producer_owner
    is_float = x.details.dtype.is_float and made.op_name == "cast"
    return run_sizes(graph, made.inputs[0] if is_float else x, count)


def _followed(graph: Graph, x: GraphTensor, count: CountSize | None) -> Array | None:
    """Return the result of shape arithmetic as expressions; None if the op is not shape arithmetic."""
    op = x.producer_owner
    if op.op_name in ("constant", "dynamic_sizes"):
        return op.reference([])[0]
    if not op.inputs or len(op.outputs) > 1 or not is_arithmetic(op):
        return None
    # The larger of two numbers that a run counts is counted itself.
    count = None if op.op_name in _CHOICES else count
    operands = [run_sizes(graph, operand, count) for operand in op.inputs]
    arrays = [one for one in operands if one is not None]
    if len(arrays) < len(operands):
        return None
    try:
        return value_of(op, arrays)[0]
    except (UndecidedSize, NoExpressionError):
        return None


def _counted(graph: Graph, x: GraphTensor, count: CountSize) -> Array | None:
    """Each element as a size that a run counts."""
    if x.details.elements > _MAX_COUNTED:
        return None
    same = _same_before(graph, x)
    if same is not None:
        return same
    sizes, name = np.empty(x.details.elements, object), x.producer_owner.name
    flat = graph.make("reshape", [x], {"shape": (len(sizes),)}, f"{name}.flat").outputs
    for number in range(len(sizes)):
        one = graph.make("slice", flat, {"starts": (number,), "sizes": (1,)}, f"{name}.{number}")
        sizes[number] = count(one.outputs[0], f"{name}_{number}" if len(sizes) > 1 else name)
    return sizes.reshape(x.details.plain_dims)


def _same_before(graph: Graph, x: GraphTensor) -> Array | None:
    """The sizes of a tensor that an equal op computes of the same operands: exporters write those again."""
    made, found = x.producer_owner, _FOUND.of(graph)
    for op in graph.ops if made.inputs else ():
        if op is made or op.op_name != made.op_name or op.outputs[0] not in found:
            continue
        same = all(a is b for a, b in zip(op.inputs, made.inputs, strict=True))
        if same and _tokens(op) == _tokens(made):
            return found[op.outputs[0]]
    return None


def _tokens(op: Op) -> list[bytes]:
    return [bytes(token) for token in attribute_tokens([op.attrs])]
