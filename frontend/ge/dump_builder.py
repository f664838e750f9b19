"""A dump in the making: its nodes, and where each tensor of the graph is."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...base.dtypes import BF16, from_numpy
from ...graph_ir.ir.graph import Array, Graph, GraphTensor, Op
from .document import Dump, DumpGraph, Node, Reference, TensorText
from .signatures import signatures

_KEPT = 1e-4  # relative difference of a number and what is printed of it


class InexpressibleError(Exception):
    """What about an op has no node in GE."""


class DumpBuilder:
    """Nodes of a dump, and where each tensor of the graph is."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.nodes: list[Node] = []
        self.references: dict[GraphTensor, Reference] = {}
        self.constants: dict[str, Array] = {}
        self.results: list[Reference] = []
        self.taken = {op.name for op in graph.ops}
        self.inputs = 0

    def dump(self) -> Dump:
        """What was built."""
        name = self.graph.name.replace('"', "'").replace("\n", " ")
        return Dump(name, (DumpGraph(name, tuple(self.nodes), tuple(self.results)),))

    def node(
        self,
        type_name: str,
        name: str,
        inputs: dict[str, Reference],
        attrs: dict[str, Any],
        outputs: int = 1,
    ) -> Reference:
        """Append a node, its attributes completed by the defaults in the order of the IR.

        InexpressibleError for a number of which six decimals, as GE prints it, do not hold enough.
        """
        for key, value in attrs.items():
            is_number = isinstance(value, float) and math.isfinite(value)
            if is_number and abs(round(value, 6) - value) > _KEPT * abs(value):
                raise InexpressibleError(f"{key}={value:g}")
        signature = signatures()[type_name]
        keys = [*signature.required, *signature.defaults]
        full = {key: signature.defaults.get(key) for key in keys}
        full.update((key, value) for key, value in attrs.items() if value is not None)
        shown = {key: value for key, value in full.items() if value not in ((), "")}
        self.nodes.append(Node(name, type_name, tuple(inputs.items()), shown, outputs))
        return Reference(name)

    def const(self, value: Any, owner: Op, what: str) -> Reference:
        """A constant that GE's node takes as an input, named after both."""
        name = f"{owner.name}.{what}"
        while name in self.taken:
            name += "_"
        return self.constant(np.asarray(value), name)

    def constant(self, value: Array, name: str) -> Reference:
        """A Const node; its exact value is kept beside."""
        self.taken.add(name)
        self.constants[name] = value
        missing = "<not_supported>" if from_numpy(value.dtype) == BF16 else ""
        items = () if missing else tuple(value.reshape(-1).tolist())
        self.nodes.append(Node(name, "Const", (), {"value": TensorText(items, missing)}))
        return Reference(name)

    def operands(self, op: Op, *names: str) -> dict[str, Reference]:
        """The op's inputs under GE's names."""
        return {name: self.references[x] for name, x in zip(names, op.inputs, strict=False)}

    def emit(self, op: Op, type_name: str, inputs: dict[str, Reference], **attrs: Any) -> None:
        """Append the node of an op with one output, which takes its name."""
        self.references[op.outputs[0]] = self.node(type_name, op.name, inputs, attrs)

    def part(
        self,
        op: Op,
        type_name: str,
        inputs: dict[str, Reference],
        outputs: int = 1,
        **attrs: Any,
    ) -> Reference:
        """Append a node that the main one of an op needs, named after both; its first output."""
        name = f"{op.name}.{type_name}"
        while name in self.taken:
            name += "_"
        self.taken.add(name)
        return self.node(type_name, name, inputs, attrs, outputs)

    def shaped(self, op: Op, x: Reference, dims: Any) -> dict[str, Reference]:
        """The inputs of a node that gives `x` other sizes."""
        return {"x": x, "shape": self.const(np.array(dims, np.int64), op, "shape")}


Emit = Callable[[DumpBuilder, Op], None]
"""Writes one op of the graph as nodes of the dump."""
