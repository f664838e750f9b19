"""Control flow of programs: `cond` and `while_loop`, whose parts are graphs that close over nothing."""

from __future__ import annotations

from collections.abc import Sequence

from ...base.dtypes import BOOL, S64
from ...graph_ir.ir.graph import GraphTensor
from ..correspondence.compositions.control import choice
from ..torch_calls.call import Value
from .node import Node, Read


def _tensors(node: Node, values: Value) -> list[GraphTensor]:
    listed = values if isinstance(values, list) else []
    found = [x for x in listed if isinstance(x, GraphTensor)]
    if len(found) != len(listed):
        raise node.unsupported("a number that is passed to a part of the graph")
    return found


def _read_choice(node: Node) -> Sequence[GraphTensor]:
    holds, *parts, operands = node.bound.values()
    if isinstance(holds, bool):
        holds = node.constant(holds, BOOL)
    outside = _tensors(node, operands)
    first, second = node.constant(0, S64), node.constant(1, S64)
    index = node.reshaped(node.helper("select", holds, first, second), ())
    return choice(node, index, [part.read(node, outside) for part in parts], outside)


def _read_loop(node: Node) -> Sequence[GraphTensor]:
    condition, body, state, fixed = node.bound.values()
    taken = [*_tensors(node, state), *_tensors(node, fixed)]
    parts = {"condition": condition.read(node, taken), "body": body.read(node, taken)}
    return node.outputs("while", *taken, **parts)


HANDLERS: dict[str, Read] = {"cond": _read_choice, "while_loop": _read_loop}
