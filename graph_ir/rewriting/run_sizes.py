"""Sizes that the data decide: small integer tensors of a graph as arrays of expressions.

    %longest = reduce_max(%lengths)          its element is counted: a symbol K
    %shape = concat([2], %longest + 1)       [2, K+1]

What shape arithmetic gives is followed back to what it computes with; an element that nothing else says is counted by
each run, once however often it is read.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ...base.dims import Size, UndecidedSize, symbols_of
from ..ir.contents import attribute_tokens
from ..ir.graph import Array, Graph, GraphTensor, Op
from ..ir.note import Note
from ..ops.movement import Movement
from .size_values import NoExpressionError, is_arithmetic, value_of, whole

CountSize = Callable[[GraphTensor, str], Size]
"""Makes a number (one element of an integer tensor) a size that a run counts and that is called like a text."""

_MAX_COUNTED = 8
"""Elements of a tensor that are counted: a shape has as many."""

_MAX_FOLLOWED = 64
"""Elements of a tensor that is followed back."""

_CHOICES = ("max", "min", "reduce_max", "reduce_min")
"""Ops whose result is one of their operands' elements."""

_FOUND: Note[dict[GraphTensor, Array]] = Note("run_sizes", dict)


class Reading(NamedTuple):
    """The reading of a number that may be no size, such as a negative end of a slice, and a key of it.

    `of` gives one s64 of one s64. Several readings of one number count the number itself, and a negative
    one is then an error of the run.
    """

    key: tuple[Hashable, ...]
    of: Callable[[GraphTensor], GraphTensor]


Readings = Sequence[Reading | None]
"""Readings of the elements of a list."""

_READINGS: Note[dict[str, tuple[Reading, GraphTensor, GraphTensor]]] = Note("readings", dict)
"""(reading, number, what it makes of the number) of the sizes that only one reading has counted, by name."""


def run_sizes(
    graph: Graph, x: GraphTensor, count: CountSize | None, reading: Reading | None = None
) -> Array | None:
    """The elements of a tensor as sizes; None where it has too many, or is not a tensor of numbers.

    Without `count`, None as well where a run would have to count some.
    """
    details, found = x.details, _FOUND.of(graph)
    if details.dtype.kind not in ("int", "uint", "float") or not details.is_known:
        return None
    count = None if details.dtype.is_float else count  # they are sizes times numbers at most
    if x not in found and details.elements <= _MAX_FOLLOWED:
        value = _followed(graph, x, count, reading)
        if value is None and count is not None:
            value = _counted(graph, x, count, reading)
        if value is not None:
            found[x] = value
    if x in found and count is not None:
        _agree(graph, found[x], reading)
    return found.get(x)


def run_list(
    graph: Graph, x: GraphTensor, count: CountSize | None, readings: bool | Readings
) -> Array | None:
    """Return `run_sizes` of a list, with a separate reading for each of its elements, if there are any."""
    if count is None or isinstance(readings, bool) or x.details.elements != len(readings):
        return run_sizes(graph, x, count)
    parts = zip(_elements(graph, x), readings, strict=True)
    found = [run_sizes(graph, part, count, reading) for part, reading in parts]
    arrays = [one.reshape(-1) for one in found if one is not None]
    return np.concatenate(arrays) if len(arrays) == len(readings) else None


def _elements(graph: Graph, x: GraphTensor) -> Iterator[GraphTensor]:
    """The elements of a list as tensors of one each, those of joined lists as these have them."""
    op = x.producer_owner
    if op.op_name in ("concat", "reshape"):
        for part in op.inputs:
            yield from _elements(graph, part)
    elif x.details.elements == 1:
        yield x
    else:
        yield from _sliced(graph, x)


def _sliced(graph: Graph, x: GraphTensor) -> Iterator[GraphTensor]:
    count, name = x.details.elements, x.producer_owner.name
    flat = graph.make("reshape", [x], {"shape": (count,)}, f"{name}.flat").outputs
    for number in range(count):
        attrs = {"starts": (number,), "sizes": (1,)}
        yield graph.make("slice", flat, attrs, f"{name}.{number}").outputs[0]


def _agree(graph: Graph, value: Array, reading: Reading | None) -> None:
    """Count the number itself where another reading has counted it."""
    readings = _READINGS.of(graph)
    for symbol in symbols_of(value.reshape(-1)):
        if symbol.name in readings and (
            reading is None or readings[symbol.name][0].key != reading.key
        ):
            _, number, read = readings.pop(symbol.name)
            read.replace_uses(number)


def integer_value(
    graph: Graph, x: GraphTensor, count: CountSize | None, reading: Reading | None
) -> Array | None:
    """`run_sizes` of a tensor of integers, or of floats that are integers."""
    made = x.producer_owner
    is_float = x.details.dtype.is_float and made.op_name == "cast"
    found = run_sizes(graph, made.inputs[0] if is_float else x, count, reading)
    return found if found is None else whole(found)


def size_in(graph: Graph, x: GraphTensor) -> Size | None:
    """The size that a tensor of one element holds; None where it is not an expression of sizes."""
    found = integer_value(graph, x, None, None) if x.details.plain_dims == () else None
    return None if found is None else found.item()


def _followed(
    graph: Graph, x: GraphTensor, count: CountSize | None, reading: Reading | None
) -> Array | None:
    """Return the result of shape arithmetic as expressions; None if the op is not shape arithmetic."""
    op = x.producer_owner
    if op.op_name in ("constant", "dynamic_sizes"):
        return op.reference([])[0]
    if not op.inputs or len(op.outputs) > 1 or not is_arithmetic(op):
        return None
    # The larger of two numbers that a run counts is counted itself.
    count = None if op.op_name in _CHOICES else count
    # One of several numbers is counted by its own reading, not with the others by theirs.
    is_part = reading and op.op_name == "slice" and x.details != op.inputs[0].details
    count = None if is_part else count
    reading = reading if isinstance(op, Movement) or op.op_name == "cast" else None
    operands = [run_sizes(graph, operand, count, reading) for operand in op.inputs]
    arrays = [one for one in operands if one is not None]
    if len(arrays) < len(operands):
        return None
    try:
        return value_of(op, arrays)[0]
    except (UndecidedSize, NoExpressionError):
        return None


def _counted(
    graph: Graph, x: GraphTensor, count: CountSize, reading: Reading | None
) -> Array | None:
    """Each element as a size that a run counts."""
    if x.details.elements > _MAX_COUNTED:
        return None
    same = _same_before(graph, x)
    if same is not None:
        return same
    sizes, name = np.empty(x.details.elements, object), x.producer_owner.name
    for number, one in enumerate(_sliced(graph, x)):
        called = f"{name}_{number}" if len(sizes) > 1 else name
        one = graph.make("cast", [one], {"dtype": "s64"}, f"{one.name}.cast").outputs[0]
        read = one if reading is None else reading.of(one)
        sizes[number] = count(read, called)
        if reading is not None:
            _READINGS.of(graph)[str(sizes[number])] = reading, one, read
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
