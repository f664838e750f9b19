"""Writes control flow as GE nodes that name graphs: case as If or Case, counted loops as For, others as While."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from ...base.dtypes import BOOL, S32
from ...graph_ir.ir.graph import GraphTensor, Op
from ...graph_ir.ir.logical_tensor import LogicalTensor
from ...graph_ir.ops.control import Case, While
from ...graph_ir.rewriting.values import constant_value
from .document import GraphName, Reference
from .dump_builder import DumpBuilder, Emit
from .enumerations import dtype_number


def _case(builder: DumpBuilder, op: Op) -> None:
    branches = cast(Case, op).branches
    inputs = _numbered(builder, op.inputs[1:], 0)
    source = op.inputs[0].producer_owner
    if len(branches) == 2 and source.op_name == "cast" and _is_flag(source):
        condition = builder.operand(source.inputs[0])
        names = {"then_branch": branches[1], "else_branch": branches[0]}
        graphs: dict[str, Any] = {name: builder.subgraph(graph) for name, graph in names.items()}
        builder.whole(op, "If", {"cond": condition, **inputs}, **graphs)
        return
    # GE's index is s32; what is out of range stays so.
    ends = (builder.const(np.array(end, np.int64), op, "end") for end in (-1, len(branches)))
    names_of_ends = ("clip_value_min", "clip_value_max")
    clipped = {"x": builder.operand(op.inputs[0]), **dict(zip(names_of_ends, ends, strict=True))}
    index = builder.part(op, "ClipByValue", clipped)
    index = builder.part(op, "Cast", {"x": index}, dst_type=dtype_number(S32))
    numbered: dict[str, Any] = {
        f"branches{i}": builder.subgraph(graph) for i, graph in enumerate(branches)
    }
    builder.whole(op, "Case", {"branch_index": index, **inputs}, **numbered)


def _is_flag(cast_op: Op) -> bool:
    return cast_op.inputs[0].details == LogicalTensor(BOOL, ())


def _numbered(
    builder: DumpBuilder, tensors: Sequence[GraphTensor], first: int
) -> dict[str, Reference]:
    return {f"input_{first + i}": builder.operand(x) for i, x in enumerate(tensors)}


def _while(builder: DumpBuilder, op: Op) -> None:
    """Write a loop; GE's loops carry everything, so the body returns loop invariants unchanged."""
    loop = cast(While, op)
    heads, limit = _count(loop)
    if limit is None:
        names: dict[str, Any] = {
            "cond": builder.subgraph(loop.condition),
            "body": _body(builder, loop, 0),
        }
        builder.whole(op, "While", _numbered(builder, op.inputs, 0), len(op.inputs), **names)
        return
    numbers = {"start": 0, "limit": limit, "delta": 1}
    inputs = {
        name: builder.operand(x) if isinstance(x, GraphTensor) else _int(builder, op, name, x)
        for name, x in numbers.items()
    }
    inputs.update(_numbered(builder, op.inputs[heads:], 1))
    count = len(op.inputs) - heads
    builder.whole(op, "For", inputs, count, body=_body(builder, loop, heads))
    for index, tensor in enumerate(op.outputs[heads:]):
        builder.references[tensor] = Reference(op.name, index)


def _int(builder: DumpBuilder, op: Op, name: str, value: int) -> Reference:
    return builder.const(np.array(value, np.int64), op, name)


def _body(builder: DumpBuilder, loop: While, heads: int) -> GraphName:
    """The body's graph, which returns all but the first `heads` of its inputs, constant ones as they are."""
    known = {1: np.array(True)} if heads > 1 else {}
    fixed = range(loop.carried, len(loop.inputs))
    return builder.subgraph(loop.body, known, skipped=heads, returned=fixed)


def _count(loop: While) -> tuple[int, GraphTensor | int | None]:
    """(how much of the state counts, how often the body runs) of a loop that counts from 0; None for other loops.

    The state begins with the number of the iteration, then maybe with a flag that stays true.
    """
    condition, body = loop.condition.outputs[0].inputs[0].producer_owner, loop.body
    heads = 1
    if condition.op_name == "and" and loop.carried > 1 and _stays_true(loop, condition.inputs[1]):
        heads, condition = 2, condition.inputs[0].producer_owner
    following = body.outputs[0].inputs[0].producer_owner
    counts = (
        condition.op_name == "lt"
        and condition.inputs[0].producer_owner is loop.condition.inputs[0]
        and following.op_name == "add"
        and following.inputs[0].producer_owner is body.inputs[0]
        and _is(following.inputs[1], 1)
        and _is(loop.inputs[0], 0)
        and not any(y.uses for y in loop.outputs[:heads])
        and len(loop.inputs) > heads
    )
    if not counts:
        return 0, None
    limit = condition.inputs[1]
    if (value := constant_value(limit)) is not None:
        return heads, int(value)
    index = next((i for i, x in enumerate(loop.condition.inputs) if x.outputs[0] is limit), -1)
    return (heads, loop.inputs[index]) if index >= loop.carried else (0, None)


def _stays_true(loop: While, flag: GraphTensor) -> bool:
    returned = loop.body.outputs[1].inputs[0].producer_owner
    return (
        flag.producer_owner is loop.condition.inputs[1]
        and returned is loop.body.inputs[1]
        and _is(loop.inputs[1], 1)
    )


def _is(tensor: GraphTensor, number: int) -> bool:
    value = constant_value(tensor)
    return value is not None and value.shape == () and int(value) == number


EXPORTERS: dict[str, Emit] = {"case": _case, "while": _while}
"""Ops of this file to how they are written."""
