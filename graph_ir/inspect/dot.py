"""A graph as a Graphviz file: a box per op, a rounded one per input and output, a note per constant."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base.printable import printable
from ..ir.graph import Graph, Op

_SHAPES = {"input": "oval", "output": "oval", "constant": "note"}
_MAX_LETTERS = 40
"""Maximum letters of an attribute's value in a box."""


def write_dot(graph: Graph) -> str:
    """The text: an edge per operand labeled with the tensor's type and, at the consumer, with the operand's name."""
    lines = [f"digraph {_quoted(graph.name)} {{", "  node [shape=box, fontname=Helvetica];"]
    lines += [f"  {_node_id(op)} [label={_label(op)}, shape={_shape(op)}];" for op in graph.ops]
    for op in graph.ops:
        for index, tensor in enumerate(op.inputs):
            source = _node_id(tensor.producer_owner)
            text = _quoted(f"{op.input_name(index)}: {tensor.details}")
            lines.append(f"  {source} -> {_node_id(op)} [label={text}];")
    return "\n".join([*lines, "}"]) + "\n"


def _node_id(op: Op) -> str:
    return f"n{op.logical_op_id}"


def _shape(op: Op) -> str:
    return _SHAPES.get(op.op_name, "box")


def _label(op: Op) -> str:
    lines = [op.name, op.op_name]
    if op.kind == "source":
        lines[1] = str(op.outputs[0].details)
    else:
        lines += [f"{key}={_short(value)}" for key, value in op.attrs.items() if "temp." not in key]
    return _quoted(*lines)


def _short(value: Any) -> str:
    if isinstance(value, Graph):
        text = f"{len(value.ops)} ops"
    else:
        text = f"array {value.shape}" if isinstance(value, np.ndarray) else str(value)
    return text if len(text) <= _MAX_LETTERS else f"{text[: _MAX_LETTERS - 3]}..."


def _quoted(*lines: str) -> str:
    """A string of these lines."""
    escaped = [printable(line).replace("\\", "\\\\").replace('"', '\\"') for line in lines]
    return '"' + "\\n".join(escaped) + '"'
