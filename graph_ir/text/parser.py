"""Reads the annotated text of a graph back: the inverse of `print_graph(graph, full=True)`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...base.errors import UserError
from ..ir.graph import Array, Graph, GraphTensor, Op
from ..ir.logical_tensor import LogicalTensor
from .text_grammar import Element, GraphName, GraphText, Node, Untyped, read_records, read_tensor

ReadConstant = Callable[[str, LogicalTensor], Array]
"""The plain array of a constant, from its text and type."""


def parse_graph(text: str, read_constant: ReadConstant = read_tensor) -> Graph:
    """The graph `print_graph(graph, full=True)` was printed from. `read_constant` may know other texts of constants.

    UserError, with the line, for text outside the grammar, an undefined or doubly defined name, an elided constant, or
    a type that is not what the op infers.
    """
    records = read_records(text)
    graphs: dict[str, Graph] = {}
    for record in reversed(records):  # a subgraph is printed after the graph that uses it
        if record.name in graphs:
            raise UserError(f"graph text: graph names must be unique, got '{record.name}' twice")
        graphs[record.name] = _Maker(record, graphs, read_constant).make()
    return graphs[records[0].name]


class _Maker:
    """Makes the graph of one record; `graphs` holds those printed after it."""

    def __init__(
        self, record: GraphText, graphs: dict[str, Graph], read_constant: ReadConstant
    ) -> None:
        self.record = record
        self.read_constant = read_constant
        self.graphs = graphs
        self.graph = Graph(
            record.name, {key: self.value(value) for key, value in record.attrs.items()}
        )
        self.ops: dict[str, Op] = {}
        self.tensors: dict[str, GraphTensor] = {}

    def make(self) -> Graph:
        for line in self.record.lines:
            if isinstance(line, Element):
                self.add_element(line)
            else:
                self.add_node(line)
        for name, reference in self.record.results:
            self.graph.make_output(self.tensor(reference, "return"), name)
        return self.graph

    def add_node(self, node: Node) -> None:
        where = f"line {node.line}"
        if node.name in self.ops:
            raise UserError(
                f"graph text {where}: names of ops must differ, got '{node.name}' twice"
            )
        inputs = [self.tensor(reference, where) for _, reference in node.inputs]
        try:
            op = self.graph.make(node.op_name, inputs, self.node_attrs(node), node.name)
        except UserError as error:
            raise UserError(f"graph text {where}: {error}") from error
        op.schedule = node.schedule
        self.ops[node.name] = op
        names = [op.input_name(index) for index in range(len(inputs))]
        if names != [name for name, _ in node.inputs]:
            raise UserError(
                f"graph text {where}: the inputs of {node.op_name} must be {', '.join(names)}, in this order"
            )
        if len(op.outputs) == 1:
            self.tensors[node.name] = self.annotate(op.outputs[0], node.details, where)

    def node_attrs(self, node: Node) -> dict[str, Any]:
        attrs = {key: self.value(value) for key, value in node.attrs.items()}
        if node.op_name not in ("input", "constant"):
            return attrs
        if node.details is None:
            raise UserError(
                f"graph text line {node.line}: {node.op_name} '{node.name}' needs a type after ->"
            )
        if node.op_name == "input":
            return {**attrs, "details": node.details}
        value = attrs.pop("value", None)
        if not isinstance(value, Untyped):
            raise UserError(f"graph text line {node.line}: constant '{node.name}' needs a value")
        format = None if node.details.format.is_plain else node.details.format
        return {**attrs, "value": self.read_constant(value.text, node.details), "format": format}

    def add_element(self, line: Element) -> None:
        op = self.ops.get(line.node)
        if op is None or not 0 <= line.index < len(op.outputs):
            raise UserError(
                f"graph text line {line.line}: '{line.node}' must be defined above, with an output {line.index}"
            )
        self.tensors[line.name] = self.annotate(
            op.outputs[line.index], line.details, f"line {line.line}"
        )

    def annotate(
        self, tensor: GraphTensor, details: LogicalTensor | None, where: str
    ) -> GraphTensor:
        """Take the layout from the annotation, which must agree with what was inferred."""
        inferred = tensor.details
        if details is None or (details.dtype, details.plain_dims) != (
            inferred.dtype,
            inferred.plain_dims,
        ):
            raise UserError(
                f"graph text {where}: '{tensor.name}' must be {inferred}, got {details}"
            )
        tensor.details = details
        return tensor

    def tensor(self, reference: str, where: str) -> GraphTensor:
        if reference not in self.tensors:
            raise UserError(f"graph text {where}: %{reference} must be defined above")
        return self.tensors[reference]

    def value(self, value: Any) -> Any:
        """An attribute value with the graphs it names put in."""
        if isinstance(value, tuple):
            return tuple(self.value(item) for item in value)
        if not isinstance(value, GraphName):
            return value
        if value.name not in self.graphs:
            raise UserError(
                f"graph text: graph '{value.name}' is used, so it must be defined below"
            )
        return self.graphs[value.name]
