"""Graph to ONNX nodes: names of values, initializers, and the element types each operator takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import GraphProto, NodeProto, TensorProto, ValueInfoProto, defs, helper

from ...base.dtypes import DType, from_numpy
from ...base.errors import UnsupportedError
from ...graph_ir.ir.graph import Array, Graph, GraphTensor, Op
from ...graph_ir.ir.logical_tensor import LogicalTensor
from .tensors import DTYPES

OPSET = 22
"""The operator set a model is written for: the first in which bf16 is allowed nearly everywhere."""

_NEEDS = {"RMSNormalization": 23, "Swish": 24}
"""Operators that came later: a model with one of them is of that set."""

ELEMENT_TYPES = {dtype: number for number, dtype in DTYPES.items()}


class InexpressibleError(Exception):
    """ONNX has no form for an op; the text says what."""


class Exporter:
    """The nodes and initializers written so far, and the value that every tensor is."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.nodes: list[NodeProto] = []
        self.initializers: dict[str, Array] = {}
        self.opsets = {OPSET}
        self.failures: Counter[str] = Counter()
        self._values: dict[GraphTensor, str] = {}
        self._dtypes: dict[str, DType] = {}
        self._details: dict[str, LogicalTensor] = {}
        self._names = {op.name for op in graph.inputs}
        self._results = [self._unique(op.attrs.get("temp.result", op.name)) for op in graph.outputs]
        # A result is computed under its own name, unless it is an input, a constant, or a result already.
        self._wanted: dict[GraphTensor, str] = {}
        for op, name in zip(graph.outputs, self._results, strict=True):
            if op.inputs[0].producer_owner.kind != "source":
                self._wanted.setdefault(op.inputs[0], name)

    @property
    def opset(self) -> int:
        """The first operator set that has all nodes."""
        return max(self.opsets)

    def nested(self) -> Exporter:
        """What writes a subgraph: it sees all values of this one, and its constants lie with those of the model."""
        inner = Exporter(Graph())
        inner.initializers, inner.opsets, inner.failures = (
            self.initializers,
            self.opsets,
            self.failures,
        )
        inner._names, inner._dtypes = self._names, self._dtypes
        return inner

    def write_ops(self, graph: Graph) -> None:
        """The nodes of every op of a graph whose inputs are bound; what has no form is counted in `failures`."""
        from .export_table import EXPORTERS

        for op in graph.ops:
            try:
                if not all(y.details.format.is_plain for y in op.outputs):
                    raise InexpressibleError(f"{op.op_name} in a blocked layout")
                if op.kind == "source":
                    self.source(op)
                elif op.kind != "sink":
                    if op.op_name not in EXPORTERS:
                        raise InexpressibleError(op.op_name)
                    EXPORTERS[op.op_name](self, op)
            except InexpressibleError as failure:
                self.failures[str(failure)] += 1
                for tensor in op.outputs:  # so that what follows is looked at too
                    self.bind(tensor, tensor.name)

    def inline(self, graph: Graph, values: Sequence[str]) -> list[str]:
        """The nodes of a closed graph on these values; the values of its outputs."""
        for op, value in zip(graph.inputs, values, strict=True):
            self._values[op.outputs[0]] = value
        self.write_ops(graph)
        return [self.value(op.inputs[0]) for op in graph.outputs]

    def formal(self, wanted: str, details: LogicalTensor) -> ValueInfoProto:
        """An input of a subgraph, whose name is then a value."""
        name = self._unique(wanted)
        self._dtypes[name] = details.dtype
        return value_info(name, details)

    def subgraph(
        self,
        name: str,
        results: Sequence[tuple[str, LogicalTensor]],
        inputs: Sequence[ValueInfoProto] = (),
    ) -> GraphProto:
        """What was written as an attribute; results have nodes of their own, for they may be values from outside."""
        outputs = []
        for value, details in results:
            result = self._unique(f"{name}.result")
            self.nodes.append(helper.make_node("Identity", [value], [result], name=result))
            outputs.append(value_info(result, details))
        return helper.make_graph(self.nodes, name or "graph", list(inputs), outputs)

    def value(self, tensor: GraphTensor) -> str:
        """The name of a tensor's value."""
        return self._values[tensor]

    def values(self, op: Op) -> list[str]:
        """The names of the op's inputs."""
        return [self.value(x) for x in op.inputs]

    def dtype(self, value: str) -> DType:
        """The element type of a value."""
        return self._dtypes[value]

    def source(self, op: Op) -> None:
        """An input, or a constant as an initializer."""
        tensor = op.outputs[0]
        if op.op_name == "input" and tensor in self._values:
            return  # of a subgraph: bound already
        name = op.name if op.op_name == "input" else self._unique(op.name)
        if op.op_name == "constant":
            self.initializers[name] = np.asarray(op.attrs["value"])
        self.bind(tensor, name)

    def bind(self, tensor: GraphTensor, value: str) -> None:
        """From now on the tensor is the value of that name."""
        self._values[tensor] = value
        self._dtypes[value] = tensor.details.dtype
        self._details[value] = tensor.details

    def node(self, op: Op, op_type: str, inputs: Sequence[str], **attrs: Any) -> None:
        """The node whose outputs are the op's own."""
        outputs = [self._result(tensor) for tensor in op.outputs]
        self._append(op, op_type, op.name, inputs, outputs, attrs)
        for tensor, name in zip(op.outputs, outputs, strict=True):
            self.bind(tensor, name)

    def part(
        self,
        op: Op,
        op_type: str,
        inputs: Sequence[str],
        dtype: DType | None = None,
        **attrs: Any,
    ) -> str:
        """A node the op's own one needs; its only value, of the first input's element type unless given."""
        return self.parts(op, op_type, inputs, [dtype or self._dtypes[inputs[0]]], **attrs)[0]

    def parts(
        self, op: Op, op_type: str, inputs: Sequence[str], dtypes: Sequence[DType], **attrs: Any
    ) -> list[str]:
        """A node with a value of each of these element types."""
        names = [self._unique(f"{op.name}.{op_type.lower()}") for _ in dtypes]
        self._append(op, op_type, names[0], inputs, names, attrs)
        self._dtypes.update(zip(names, dtypes, strict=True))
        return names

    def constant(self, op: Op, what: str, value: Any) -> str:
        """An initializer for an array the op has as an attribute."""
        array = np.asarray(value)
        name = self._unique(f"{op.name}.{what}")
        self.initializers[name] = array
        self._dtypes[name] = from_numpy(array.dtype)
        return name

    def scalar(self, op: Op, what: str, value: float, dtype: DType) -> str:
        """A constant without axes."""
        with np.errstate(all="ignore"):
            return self.constant(op, what, np.asarray(value).astype(dtype.numpy))

    def results(self) -> list[ValueInfoProto]:
        """The graph's outputs; one that is another value under a second name gets a node of its own."""
        infos = []
        for op, name in zip(self.graph.outputs, self._results, strict=True):
            tensor = op.inputs[0]
            if self.value(tensor) != name:
                node = helper.make_node("Identity", [self.value(tensor)], [name], name=name)
                self.nodes.append(node)
            infos.append(value_info(name, tensor.details))
        return infos

    def between(self) -> list[ValueInfoProto]:
        """The types of the ops' values that are neither inputs, constants nor results, for readers that show them."""
        known = {op.name for op in self.graph.inputs} | {*self._results, *self.initializers}
        return [value_info(name, d) for name, d in self._details.items() if name not in known]

    def _append(
        self,
        op: Op,
        op_type: str,
        name: str,
        inputs: Sequence[str],
        outputs: Sequence[str],
        attrs: dict[str, Any],
    ) -> None:
        self.opsets.add(_NEEDS.get(op_type, 0))
        schema = defs.get_schema(op_type, max_inclusive_version=max(OPSET, _NEEDS.get(op_type, 0)))
        for index, value in enumerate(inputs):
            formal = schema.inputs[min(index, len(schema.inputs) - 1)]
            if value and _type_text(self._dtypes[value]) not in formal.types:
                raise InexpressibleError(f"{op.op_name} of {self._dtypes[value]}")
        given = {key: item for key, item in attrs.items() if item is not None}
        self.nodes.append(helper.make_node(op_type, inputs, outputs, name=name, **given))

    def _result(self, tensor: GraphTensor) -> str:
        return self._wanted.get(tensor) or self._unique(tensor.name)

    def _unique(self, wanted: str) -> str:
        base = name = wanted or "value"
        number = 0
        while name in self._names:
            number += 1
            name = f"{base}_{number}"
        self._names.add(name)
        return name


def export_graph(graph: Graph) -> Exporter:
    """All nodes of a graph. UnsupportedError lists everything that ONNX cannot express."""
    exporter = Exporter(graph)
    exporter.write_ops(graph)
    if exporter.failures:
        failures = sorted(exporter.failures.items())
        counted = ", ".join(f"{what} ({count}x)" for what, count in failures)
        raise UnsupportedError(f"graph '{graph.name}': ONNX cannot express: {counted}")
    return exporter


def value_info(name: str, details: LogicalTensor) -> ValueInfoProto:
    """The declaration of an input or output."""
    return helper.make_tensor_value_info(name, ELEMENT_TYPES[details.dtype], details.plain_dims)


def _type_text(dtype: DType) -> str:
    """`tensor(float)`, as schemas list what they take."""
    return f"tensor({TensorProto.DataType.Name(ELEMENT_TYPES[dtype]).lower()})"
