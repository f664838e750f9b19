"""Sequences and optional values: lists of values whose length is known while the model is read.

A sequence is not a tensor, it is what the nodes that take it apart see. An input that is a sequence becomes an input
for each element, `x.0`, `x.1`, ..., an output likewise.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import numpy as np
from onnx import GraphProto, TypeProto, ValueInfoProto, numpy_helper

from ...base.dims import Dim
from ...base.errors import UserError
from ...base.size_limits import at_least
from ...graph_ir.ir.graph import GraphTensor
from ...graph_ir.rewriting.size_values import settled
from ...graph_ir.rewriting.values import uniform_value
from ..correspondence.compositions.axes import move_axes
from ..correspondence.compositions.counted import repeat_rows
from ..correspondence.compositions.movement import insert_axes
from ..op_builder import Value
from ..refusals import FIXED
from ..shape_spec import InputSpecs
from .nesting import reads
from .scope import Handler, Listed, NodeContext, Scope


def read_inputs(
    infos: Iterable[ValueInfoProto], specs: InputSpecs, constants: Mapping[str, Any], label: str
) -> tuple[list[ValueInfoProto], dict[str, list[str] | None]]:
    """The inputs as tensors; for each one that is not a tensor, its elements' names, or None where it is left out."""
    plain: list[ValueInfoProto] = []
    listed: dict[str, list[str] | None] = {}
    for info in infos:
        kind, name = info.type, info.name
        if kind.WhichOneof("value") == "optional_type":
            if name in constants and constants[name] is None:
                listed[name] = None
                continue
            kind = kind.optional_type.elem_type
        if kind.WhichOneof("value") != "sequence_type":
            plain.append(ValueInfoProto(name=name, type=kind))
            continue
        names = _element_names(name, specs, constants, label)
        listed[name] = names
        each = TypeProto()
        each.CopyFrom(kind.sequence_type.elem_type)
        for dim in each.tensor_type.shape.dim:
            dim.ClearField("dim_param")  # elements may differ in dynamic sizes
        plain += [ValueInfoProto(name=one, type=each) for one in names]
    return plain, listed


def _element_names(
    name: str, specs: InputSpecs, constants: Mapping[str, Any], label: str
) -> list[str]:
    given = 0
    while f"{name}.{given}" in specs:
        given += 1
    if not given and name not in constants:
        raise UserError(
            f"{label}: input '{name}' is a sequence: its elements must be given, as in "
            f"--input '{name}.0=f32[8,13]' '{name}.1=f32[5,13]'; none is constants={{'{name}': []}}"
        )
    return [f"{name}.{i}" for i in range(given)]


def elements_of(scope: Scope, listed: Mapping[str, list[str] | None]) -> dict[str, Value]:
    """The values of inputs that are not tensors, once their elements have values."""
    found = {}
    for name, names in listed.items():
        items = () if names is None else tuple(scope.values[one] for one in names)
        found[name] = cast(Value, Listed(items, is_absent=names is None))
    return found


def is_listed(kind: TypeProto) -> bool:
    """Return whether a type is of sequences or optional values."""
    return kind.WhichOneof("value") in ("sequence_type", "optional_type")


def named_results(scope: Scope, name: str) -> list[tuple[str, GraphTensor]]:
    """The tensors of an output by their names; none of an optional value that there is not."""
    value: object = scope.values[name]
    if not isinstance(value, Listed):
        return [(name, scope.tensor(name))]
    if value.is_absent:
        return []
    return [(f"{name}.{i}", scope.as_tensor(x)) for i, x in enumerate(value.items)]


def as_rows(body: GraphProto, listed: Sequence[int]) -> GraphProto | None:
    """The body of a loop that collects the elements that it appends to its sequences; None where it does more.

    `listed`: which of its state are sequences.
    """
    plain = GraphProto()
    plain.CopyFrom(body)
    for i in listed:
        name, result = body.input[2 + i].name, body.output[1 + i].name
        users = [node for node in body.node if name in reads(node)]
        later = [node for node in body.node if result in reads(node)]
        is_appended = len(users) == 1 and [*users[0].output] == [result] and not later
        if not is_appended or users[0].op_type != "SequenceInsert" or len(users[0].input) > 2:
            return None
        plain.node.remove(users[0])
        plain.output.append(ValueInfoProto(name=users[0].input[1]))
    for i in reversed(listed):
        del plain.input[2 + i], plain.output[1 + i]
    return plain


_REPEATS = (
    "SequenceAt", "SequenceAt", "Unsqueeze", "Concat", "Shape", "ConstantOfShape", "Mul", "Equal", "Where", "Expand",
    "Reshape", "SequenceInsert", "Cast",
)  # fmt: skip
"""The loop body that the TorchScript exporter writes for `repeat_interleave` with a number for each element."""


def repeated_elements(node: NodeContext, body: GraphProto) -> Value | None:
    """The sequence of a loop that appends each slice of an axis as often as its number says; None for other loops."""
    nodes = [each for each in body.node if each.op_type != "Constant"]
    if tuple(each.op_type for each in nodes) != _REPEATS or len(body.input) != 3:
        return None
    given: list[object] = [node.scope.values.get(each.input[0]) for each in nodes[:2]]
    repeats, slices = (one.rows if isinstance(one, Listed) else None for one in given)
    if repeats is None or slices is None or repeats.details.rank != 2:
        return None
    constants = {
        each.output[0]: numpy_helper.to_array(each.attribute[0].t).tolist()
        for each in body.node
        if each.op_type == "Constant" and each.attribute[0].name == "value"
    }
    before, _, after = (constants.get(name, []) for name in nodes[3].input)
    axis, dims = len(before) - 1, slices.details.plain_dims[1:]
    wanted = [*before, *after], constants.get(nodes[10].input[1], [])
    kept = (*dims[:axis], 1, *dims[axis + 1 :]), (*dims[:axis], -1, *dims[axis + 1 :])
    for sizes, own, free in zip(wanted, kept, (-1, 0), strict=True):
        pairs = itertools.zip_longest(sizes, own)
        if not all(isinstance(size, int) and size in (one, free) for size, one in pairs):
            return None
    numbers = node.reshaped(repeats, repeats.details.plain_dims[:1])
    x = move_axes(node, slices, (axis + 1,), (1,))
    x = node.reshaped(x, (slices.details.plain_dims[0], *x.details.plain_dims[2:]))
    return cast(Value, Listed((), rows=repeat_rows(node, x, numbers, 0), joined=axis))


def appended(sequence: Value, rows: GraphTensor) -> Value:
    """A sequence with further elements."""
    found: object = sequence
    assert isinstance(found, Listed)
    return cast(Value, Listed(found.items, rows=rows))


def _sequence(node: NodeContext, index: int = 0) -> Listed:
    value: object = node.scope.values[node.key_of(index)]
    if not isinstance(value, Listed) or value.is_absent:
        raise node.rule(f"input {index} must be a sequence", f"'{node.key_of(index)}'")
    return value


def _items(node: NodeContext, index: int = 0) -> tuple[Value, ...]:
    found = _sequence(node, index)
    if found.rows is not None:
        raise node.unsupported("a sequence whose length a run decides", FIXED)
    return found.items


def _length(node: NodeContext) -> Value:
    found = _sequence(node)
    if found.joined is not None:
        _items(node)
    more = 0 if found.rows is None else found.rows.details.plain_dims[0]
    return settled(np.array(len(found.items) + more, object))


def _listed(items: Iterable[Value]) -> Value:
    """A sequence as a result of a handler."""
    return cast(Value, Listed(tuple(items)))


def _position(node: NodeContext, index: int, length: int, last: int) -> int:
    """A position in a sequence, from the end if it is negative; `last` is the highest."""
    if not node.has(index):
        return last
    position = node.integer(index, "a position")
    if not -length <= position <= last:
        raise node.rule(f"the position must be in -{length}..{last}", str(position))
    return position + length if position < 0 else position


def _construct(node: NodeContext) -> Value:
    return _listed(node.value(i) for i in range(node.count))


def _at(node: NodeContext) -> Value:
    found = _sequence(node)
    if found.rows is not None and not found.items and found.joined is None:
        size, known = found.rows.details.plain_dims[0], node.known(1)
        position = 0 if known is None else int(known.reshape(()))
        if not at_least(size, max(position + 1, -position)):
            raise node.rule(f"the position must be less than {size}", str(position))
        return node.make("gather", found.rows, node.reshaped(node.tensor(1), ()), axis=0)
    items = _items(node)
    return items[_position(node, 1, len(items), len(items) - 1)]


def _insert(node: NodeContext) -> Value:
    items = list(_items(node))
    items.insert(_position(node, 2, len(items), len(items)), node.value(1))
    return _listed(items)


def _erase(node: NodeContext) -> Value:
    items = list(_items(node))
    del items[_position(node, 1, len(items), len(items) - 1)]
    return _listed(items)


def _split(node: NodeContext) -> Value:
    x = node.tensor(0)
    axis = node.axis(node.attr_int("axis", 0), x.details.rank)
    size = x.details.plain_dims[axis]
    if isinstance(size, Dim) and (not node.has(1) or uniform_value(node.tensor(1)) == 1):
        rows = move_axes(node, x, (axis,), (0,))
        if node.has(1) or node.attr_int("keepdims", 1):
            rows = insert_axes(node, rows, axis + 1)
        return cast(Value, Listed((), rows=rows))
    if node.has(1):
        given = node.array(1, "sizes")
        whole, rest = divmod(size, max(int(given.reshape(-1)[0]), 1)) if given.ndim == 0 else (0, 0)
        parts = [*[int(given)] * whole, *[rest] * bool(rest)] if given.ndim == 0 else given.tolist()
    else:
        parts = [1] * size
    if sum(parts) != size:
        raise node.rule(f"sizes must add up to {size}", str(parts))
    ends = np.cumsum([0, *parts])
    found = [node.sliced(x, axis, int(at), part) for at, part in zip(ends[:-1], parts, strict=True)]
    if not node.has(1) and not node.attr_int("keepdims", 1):
        dims = x.details.plain_dims
        found = [node.reshaped(part, (*dims[:axis], *dims[axis + 1 :])) for part in found]
    return _listed(found)


def _concat(node: NodeContext) -> Value:
    found = _sequence(node)
    items = [node.scope.as_tensor(x) for x in found.items]
    is_new = node.attr_int("new_axis", 0) != 0
    if not items and found.rows is None:
        raise node.unsupported("joining no tensors, whose shape is then never told,")
    rank = items[0].details.rank if found.rows is None else found.rows.details.rank - 1
    rank += found.joined is not None
    axis = node.axis(node.attr_int("axis"), rank + is_new)
    if is_new:
        items = [insert_axes(node, x, axis) for x in items]
    if found.joined is not None and found.rows is not None:
        if is_new or axis != found.joined:
            raise node.unsupported("joining elements of unequal sizes along another axis")
        return move_axes(node, found.rows, (0,), (axis,))
    if found.rows is not None:
        rows = move_axes(node, found.rows, (0,), (axis,))
        dims = rows.details.plain_dims
        joined = (*dims[:axis], math.prod(dims[axis : axis + 2]), *dims[axis + 2 :])
        items.append(rows if is_new else node.reshaped(rows, joined))
    return items[0] if len(items) == 1 else node.make("concat", *items, axis=axis)


def _has_element(node: NodeContext) -> Value:
    value: object = node.value(0) if node.has(0) else Listed((), is_absent=True)
    return np.array(not (isinstance(value, Listed) and value.is_absent))


def _element(node: NodeContext) -> Value:
    value: object = node.value(0)
    if isinstance(value, Listed) and value.is_absent:
        raise node.rule("there must be an element", f"'{node.key_of(0)}' is left out")
    return node.value(0)


HANDLERS: dict[str, Handler] = {
    "SequenceConstruct": _construct, "SequenceEmpty": lambda node: _listed(()), "SequenceAt": _at,
    "SequenceInsert": _insert, "SequenceErase": _erase, "SequenceLength": _length, "SplitToSequence": _split,
    "ConcatFromSequence": _concat,
    "Optional": lambda node: (node.value(0) if node.has(0) else cast(Value, Listed((), is_absent=True))),
    "OptionalHasElement": _has_element, "OptionalGetElement": _element,
}  # fmt: skip
