"""Writes ops as ONNX nodes: names of values, initializers, and the element types each operator takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx import GraphProto, NodeProto, TensorProto, ValueInfoProto, defs, helper

from ...base.dims import Dim
from ...base.dtypes import DType, from_numpy
from ...base.printable import encodable
from ...graph_ir.ir.graph import Array, Graph, GraphTensor, Op
from ...graph_ir.ir.logical_tensor import LogicalTensor
from ..correspondence.writing import ExportFrame, InexpressibleError, Named, NameTable, Write
from .tensors import DTYPES

OPSET = 22
"""The opset of written models: the first in which nearly all operators accept bf16."""

_NEEDS = {"RMSNormalization": 23, "Swish": 24}
"""Operators introduced later: a model with one of them uses its opset."""

_TYPES_NEED = {"f4e2m1fn": 23, "f8e8m0fnu": 24, "s2": 25, "u2": 25}
"""Element types likewise."""

ELEMENT_TYPES = {dtype: number for number, dtype in DTYPES.items()}


def reshape_attrs(dims: Sequence[int]) -> dict[str, Any]:
    """Return the attributes of a Reshape to these sizes: a 0 is the operand's size there unless they say otherwise."""
    return {"allowzero": 1} if 0 in dims else {}


class Exporter(ExportFrame[str]):
    """The nodes and initializers written so far, and the name of the value that every tensor is."""

    format_name = "ONNX"
    has_integer_matmuls = True

    def __init__(self, graph: Graph, writers: Mapping[str, Write]) -> None:
        super().__init__(graph, writers)
        self.nodes: list[NodeProto] = []
        self.initializers: dict[str, Array] = {}
        self.opsets = {OPSET}
        self.domains: set[str] = set()  # other than ONNX's, of ops of user code
        self._values: dict[GraphTensor, str] = {}
        self._dtypes: dict[str, DType] = {}
        self._details: dict[str, LogicalTensor] = {}
        self._names = NameTable([op.name for op in graph.inputs])
        self._node_names = NameTable()
        self._results = [
            self._names.unique(encodable(op.attr("temp.result"))) for op in graph.outputs
        ]
        # A result is computed under its own name, unless it is an input, a constant, or a result already.
        self._wanted: dict[GraphTensor, str] = {}
        for op, name in zip(graph.outputs, self._results, strict=True):
            if op.inputs[0].producer_owner.kind != "source":
                self._wanted.setdefault(op.inputs[0], name)

    @property
    def opset(self) -> int:
        """The lowest opset that has all nodes."""
        return max(self.opsets)

    def nested(self) -> Exporter:
        """The writer of a subgraph: it sees all values of this one, and its constants are stored with those of
        the model."""
        inner = Exporter(Graph(), self.writers)
        inner.initializers, inner.opsets = self.initializers, self.opsets
        inner.domains = self.domains
        inner.failures, inner._names, inner._dtypes = self.failures, self._names, self._dtypes
        inner._node_names = self._node_names
        return inner

    def write_op(self, op: Op) -> None:
        """The nodes of one op; inputs and constants are values, outputs are written at the end."""
        if op.kind == "source":
            self.check(op)
            self.source(op)
        elif op.kind != "sink":
            super().write_op(op)

    def bind_unknown(self, op: Op) -> None:
        """Bind outputs that have no node to their own names."""
        for tensor in op.outputs:
            self.bind(tensor, tensor.name)

    def emit(self, op: Op, type_name: str, operands: Named[str], attrs: dict[str, Any]) -> None:
        """The node whose outputs are the op's own; ONNX's inputs go by position."""
        inputs = [value or "" for _, value in operands]
        while inputs and not inputs[-1]:
            inputs.pop()
        self.node(op, type_name, inputs, **attrs)

    def held(self, op: Op, name: str, array: Array) -> str:
        """An initializer for an attribute of the op."""
        return self.constant(op, name, array)

    def attribute(self, kind: str, value: Any) -> Any:
        """Convert an attribute value to the form ONNX stores: flags and element types are integers."""
        if kind == "dtype":
            return ELEMENT_TYPES[value]
        return {"bool": int, "int": int, "float": float}.get(kind, lambda v: v)(value)

    def inline(self, graph: Graph, values: Sequence[str]) -> list[str]:
        """The nodes of a closed graph on these values; the values of its outputs."""
        for op, value in zip(graph.inputs, values, strict=True):
            self._values[op.outputs[0]] = value
        self.write_ops(graph)
        return [self.operand(op.inputs[0]) for op in graph.outputs]

    def formal(self, wanted: str, details: LogicalTensor) -> ValueInfoProto:
        """An input of a subgraph, whose name is then a value."""
        name = self._names.unique(wanted)
        self._dtypes[name] = details.dtype
        return value_info(name, details)

    def subgraph(
        self,
        name: str,
        results: Sequence[tuple[str, LogicalTensor]],
        inputs: Sequence[ValueInfoProto] = (),
    ) -> GraphProto:
        """The graph attribute written; results have their own nodes, since they may be outer values."""
        outputs = []
        for value, details in results:
            result = self._names.unique(f"{name}.result")
            self._add("Identity", result, [value], [result])
            outputs.append(value_info(result, details))
        return helper.make_graph(self.nodes, encodable(name) or "graph", list(inputs), outputs)

    def operand(self, tensor: GraphTensor) -> str:
        """The name of a tensor's value."""
        return self._values[tensor]

    def values(self, op: Op) -> list[str]:
        """The names of the op's inputs."""
        return [self.operand(x) for x in op.inputs]

    def dtype(self, value: str) -> DType:
        """The element type of a value."""
        return self._dtypes[value]

    def source(self, op: Op) -> None:
        """An input, or a constant as an initializer."""
        tensor = op.outputs[0]
        if op.is_input and tensor in self._values:
            return  # of a subgraph: bound already
        name = op.name if op.is_input else self._names.unique(op.name)
        if op.is_constant:
            self.initializers[name] = op.attr("value")
        self.bind(tensor, name)

    def bind(self, tensor: GraphTensor, value: str) -> None:
        """Bind the tensor to the value of that name."""
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
        self, op: Op, op_type: str, inputs: Sequence[str], dtype: DType | None = None, **attrs: Any
    ) -> str:
        """A node the op's own one needs; its only value, of the first input's element type unless given."""
        return self.parts(op, op_type, inputs, [dtype or self._dtypes[inputs[0]]], **attrs)[0]

    def parts(
        self, op: Op, op_type: str, inputs: Sequence[str], dtypes: Sequence[DType], **attrs: Any
    ) -> list[str]:
        """A node with a value of each of these element types."""
        names = [self._names.unique(f"{op.name}.{op_type.lower()}") for _ in dtypes]
        self._append(op, op_type, names[0], inputs, names, attrs)
        self._dtypes.update(zip(names, dtypes, strict=True))
        return names

    def constant(self, op: Op, what: str, value: Any) -> str:
        """An initializer for an array attribute of the op."""
        array = np.asarray(value)
        name = self._names.unique(f"{op.name}.{what}")
        self.initializers[name] = array
        self._dtypes[name] = from_numpy(array.dtype)
        return name

    def scalar(self, op: Op, what: str, value: float, dtype: DType) -> str:
        """A constant without axes."""
        with np.errstate(all="ignore"):
            return self.constant(op, what, np.asarray(value).astype(dtype.numpy))

    def results(self) -> list[ValueInfoProto]:
        """The graph's outputs; a value with a second name gets an Identity node."""
        infos = []
        for op, name in zip(self.graph.outputs, self._results, strict=True):
            tensor = op.inputs[0]
            if self.operand(tensor) != name:
                self._add("Identity", name, [self.operand(tensor)], [name])
            infos.append(value_info(name, tensor.details))
        return infos

    def between(self) -> list[ValueInfoProto]:
        """The types of the ops' values that are neither inputs, constants nor results, for programs that
        display them."""
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
        given = {key: item for key, item in attrs.items() if item is not None}
        domain, is_other, type_name = op_type.rpartition("::")
        if is_other:  # no schema tells what it takes
            self.domains.add(domain)
            given["domain"] = domain
        else:
            self._check_types(op, op_type, inputs)
        self._add(type_name, name, inputs, outputs, **given)

    def _add(
        self,
        type_name: str,
        wanted: str,
        inputs: Sequence[str],
        outputs: Sequence[str],
        **attrs: Any,
    ) -> None:
        """A node of the wanted name, or of one that no other has: a computation may be written more than once."""
        name = self._node_names.unique(wanted)
        self.nodes.append(helper.make_node(type_name, inputs, outputs, name=name, **attrs))

    def _check_types(self, op: Op, op_type: str, inputs: Sequence[str]) -> None:
        types = {self._dtypes[value] for value in inputs if value}
        types |= {tensor.details.dtype for tensor in op.outputs}
        needs = [_NEEDS.get(op_type, 0), *(_TYPES_NEED.get(one.name, 0) for one in types)]
        self.opsets.update(needs)
        schema = defs.get_schema(op_type, max_inclusive_version=max(OPSET, *needs))
        for index, value in enumerate(inputs):
            formal = schema.inputs[min(index, len(schema.inputs) - 1)]
            if value and _type_text(self._dtypes[value]) not in formal.types:
                raise InexpressibleError(f"{op.op_name} of {self._dtypes[value]}")

    def _result(self, tensor: GraphTensor) -> str:
        return self._wanted.get(tensor) or self._names.unique(tensor.name)


def value_info(name: str, details: LogicalTensor) -> ValueInfoProto:
    """The declaration of an input or output."""
    dims = [str(one) if isinstance(one, Dim) else one for one in details.plain_dims]
    return helper.make_tensor_value_info(name, ELEMENT_TYPES[details.dtype], dims)


def _type_text(dtype: DType) -> str:
    """`tensor(float)`, as schemas list what they take."""
    return f"tensor({TensorProto.DataType.Name(ELEMENT_TYPES[dtype]).lower()})"
