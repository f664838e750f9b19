"""Graphs of one output from an expression, and back: what rewriting passes are tested with."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from graphc.base.dtypes import DType, by_name
from graphc.graph_ir.ir.graph import Graph, GraphTensor
from graphc.graph_ir.ir.logical_tensor import LogicalTensor


class _Scope(dict[str, Any]):
    """Names of ops are functions; a trailing underscore keeps Python's keywords apart."""

    def __init__(self, graph: Graph, **names: Any) -> None:
        super().__init__(names)
        self.graph = graph

    def __missing__(self, name: str) -> Any:
        def make(*inputs: GraphTensor, **attrs: Any) -> GraphTensor:
            return self.graph.make(name.rstrip("_"), inputs, attrs).outputs[0]

        return make


def graph_from(text: str, dtype: str = "f32", **inputs: tuple[int, ...]) -> Graph:
    """The graph of nested calls such as `add(x, c(1.0))`; `inputs` gives shapes, `c(v)` is a constant of `dtype`."""
    graph = Graph("g")
    element = by_name(dtype)
    made = {n: graph.make_input(LogicalTensor(element, shape), n) for n, shape in inputs.items()}

    def constant(value: Any) -> GraphTensor:
        return graph.make_constant(np.asarray(value).astype(element.numpy), "c")

    scope = _Scope(graph, **made, c=constant, inf=math.inf, sqrt2=math.sqrt(2), pi=math.pi)
    result = eval(text, {"__builtins__": {}}, scope)
    graph.make_output(result, "result")
    return graph


def expression_of(graph: Graph) -> str:
    """The expression the first output computes, attributes in the order they are stored."""

    def text(tensor: GraphTensor) -> str:
        op = tensor.producer_owner
        if op.op_name == "input":
            return op.name
        if op.op_name == "constant":
            return f"c({op.attrs['value'].tolist()})"
        attrs = [f"{key}={_shown(value)}" for key, value in op.attrs.items()]
        return f"{op.op_name}({', '.join([*map(text, op.inputs), *attrs])})"

    return text(graph.outputs[0].inputs[0])


def _shown(value: object) -> str:
    return repr(value.name if isinstance(value, DType) else value)
