"""Builds a dump: its nodes, and the reference of each tensor of the graph."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from ...base.dtypes import BF16, from_numpy
from ...base.printable import printable
from ...graph_ir.ir.graph import Array, Graph, GraphTensor, Op
from ...graph_ir.rewriting.written_out import with_exact_matmuls, with_names, written_out
from ..correspondence.writing import ExportFrame, InexpressibleError, Named, NameTable, Write
from .document import Dump, DumpGraph, GraphName, Node, Reference, TensorText
from .enumerations import dtype_number
from .signatures import signatures

_SEPARATOR = re.compile(r'[\s"%]')
_MAX_LETTERS = 2000
_KEPT = 1e-4  # relative difference between a number and its printed form


def expressed(graph: Graph) -> Graph:
    """Return the graph without quantize, dequantize and byte matmuls that wrap, which GE lacks."""
    return with_exact_matmuls(written_out(graph))


def written_names(graph: Graph) -> Graph:
    """The graph with names that a dump, which does not quote them, can hold."""
    return with_names(graph, lambda name: _SEPARATOR.sub("_", printable(name))[:_MAX_LETTERS])


class DumpBuilder(ExportFrame[Reference]):
    """Nodes of a dump, and where each tensor of the graph is."""

    format_name = "GE"
    has_integer_matmuls = True

    def __init__(
        self, graph: Graph, writers: Mapping[str, Write], outer: DumpBuilder | None = None
    ) -> None:
        super().__init__(written_names(graph), writers)
        self.nodes: list[Node] = []
        self.references: dict[GraphTensor, Reference] = {}
        self.constants: dict[str, Array] = {}
        self.results: list[Reference] = []
        self.names = NameTable((op.name for op in self.graph.ops), ".")
        self.inputs = 0
        self.inner: list[DumpGraph] = []
        self.graph_names: NameTable = outer.graph_names if outer else NameTable()
        self.name = self.graph_names.unique(printable(graph.name.replace('"', "'")))
        if outer:
            self.failures = outer.failures

    def dump(self) -> Dump:
        """Return the finished dump."""
        own = DumpGraph(self.name, tuple(self.nodes), tuple(self.results))
        return Dump(self.name, (own, *self.inner))

    def subgraph(
        self,
        graph: Graph,
        known: Mapping[int, Array] | None = None,
        skipped: int = 0,
        returned: Iterable[int] = (),
    ) -> GraphName:
        """Write a graph that a node names; its name.

        `known`: inputs that are constants there; `skipped`: how many of the first results are left out; `returned`:
        inputs that it returns after its own results.
        """
        inner = DumpBuilder(expressed(graph), self.writers, self)
        inputs = [op.outputs[0] for op in inner.graph.inputs]
        for number, value in (known or {}).items():
            name = inner.names.unique(f"{inputs[number].name}.known")
            inner.references[inputs[number]] = inner.constant(value, name)
        inner.write_ops(inner.graph)
        inner.results = [*inner.results[skipped:], *(inner.references[inputs[i]] for i in returned)]
        self.inner += inner.dump().graphs
        for key, value in inner.constants.items():
            self.constants[key if "/" in key else f"{inner.name}/{key}"] = value
        return GraphName(inner.name)

    def node(
        self,
        type_name: str,
        name: str,
        inputs: dict[str, Reference],
        attrs: dict[str, Any],
        outputs: int = 1,
    ) -> Reference:
        """Append a node, its attributes completed by the defaults in the order of the IR.

        Raise InexpressibleError for a number that loses too much precision in the six decimals that GE prints.
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
        return self.constant(np.asarray(value), self.names.unique(f"{owner.name}.{what}"))

    def constant(self, value: Array, name: str) -> Reference:
        """A Const node; its exact value is kept beside."""
        self.constants[name] = value
        missing = "<not_supported>" if from_numpy(value.dtype) == BF16 else ""
        items = () if missing else tuple(value.reshape(-1).tolist())
        self.nodes.append(Node(name, "Const", (), {"value": TensorText(items, missing)}))
        return Reference(name)

    def operands(self, op: Op, *names: str) -> dict[str, Reference]:
        """The op's inputs under GE's names."""
        return {name: self.references[x] for name, x in zip(names, op.inputs, strict=False)}

    def whole(
        self, op: Op, type_name: str, inputs: dict[str, Reference], outputs: int = 0, **attrs: Any
    ) -> None:
        """Append the node of an op, which takes its name."""
        count = outputs or len(op.outputs)
        self.node(type_name, op.name, inputs, attrs, count)
        self.bind_unknown(op)

    # The interface used by rows.

    def emit(
        self, op: Op, type_name: str, operands: Named[Reference], attrs: dict[str, Any]
    ) -> None:
        """Append the node of an op, which takes its name; the inputs of a dynamic one are numbered and counted."""
        signature = signatures()[type_name]
        inputs: dict[str, Reference] = {}
        for name, x in operands:
            if x is not None:
                dynamic = f"{name}*" in signature.inputs
                inputs[f"{name}_{len(inputs)}" if dynamic else name] = x
                if dynamic and "N" in signature.defaults:
                    attrs["N"] = len(inputs)
        self.whole(op, type_name, inputs, **attrs)

    def operand(self, tensor: GraphTensor) -> Reference:
        """The reference of a tensor."""
        return self.references[tensor]

    def held(self, op: Op, name: str, array: Array) -> Reference:
        """A constant that holds an attribute of the op."""
        return self.const(array, op, name)

    def attribute(self, kind: str, value: Any) -> Any:
        """Element types are GE's numbers."""
        return dtype_number(value) if kind == "dtype" else (value,) if kind == "single" else value

    def bind_unknown(self, op: Op) -> None:
        """The outputs of an op are those of a node of its name."""
        for index, tensor in enumerate(op.outputs):
            self.references[tensor] = Reference(op.name, index)

    def part(
        self, op: Op, type_name: str, inputs: dict[str, Reference], outputs: int = 1, **attrs: Any
    ) -> Reference:
        """Append a node that the main one of an op needs, named after both; its first output."""
        name = self.names.unique(f"{op.name}.{type_name}")
        return self.node(type_name, name, inputs, attrs, outputs)

    def shaped(self, op: Op, x: Reference, dims: Any) -> dict[str, Reference]:
        """The inputs of a node that gives `x` other sizes."""
        return {"x": x, "shape": self.const(np.array(dims, np.int64), op, "shape")}


Emit = Callable[[DumpBuilder, Op], None]
"""Writes one op of the graph as nodes of the dump."""
