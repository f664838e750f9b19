"""What a node's importer works with: the values known so far, and one node of the file."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from onnx import AttributeProto, GraphProto, NodeProto

from ...base.dtypes import DType, from_numpy
from ...base.errors import UnsupportedError, UserError
from ...graph_ir.ir.graph import Array, Graph, GraphTensor
from ...graph_ir.ir.logical_tensor import LogicalTensor
from ..op_builder import OpBuilder
from .tensors import to_array

_MOST_ELEMENTS = 1 << 27
"""Of an array made at import: 1 GiB of the widest type."""

Value = GraphTensor | Array
"""A tensor of the graph, or an array known at import that no op of the graph has needed yet."""

ImportGraph = Callable[[GraphProto, "Scope"], list[Value]]

Handler = Callable[["NodeContext"], "Value | list[Value]"]
"""Imports one kind of node: the values of its outputs, in order (or the only one)."""


class Scope:
    """Values by their ONNX names, and the graph they are built into.

    `import_graph(proto, scope)` imports the nodes of a graph into a scope that has its inputs; what it returns.
    """

    def __init__(
        self,
        graph: Graph,
        opset: int,
        folder: Path | None,
        import_graph: ImportGraph,
        values: dict[str, Value] | None = None,
    ) -> None:
        self.graph = graph
        self.opset = opset
        self.folder = folder
        self.import_graph = import_graph
        self.values: dict[str, Value] = values if values is not None else {}
        self._constants: dict[str, GraphTensor] = {}

    def inside(self, graph: Graph, values: Mapping[str, Value] | None = None) -> Scope:
        """A scope for a graph of one of the nodes, which sees all that is known here; it is built into `graph`."""
        known = {**self.values, **(values or {})}
        return Scope(graph, self.opset, self.folder, self.import_graph, known)

    def inline(self, proto: GraphProto, values: Mapping[str, Value]) -> list[Value]:
        """What a graph of one of the nodes returns for these inputs, imported into the same graph."""
        return self.import_graph(proto, self.inside(self.graph, values))

    def as_tensor(self, value: Value) -> GraphTensor:
        """A value as a tensor of the graph."""
        return value if isinstance(value, GraphTensor) else self.graph.make_constant(value)

    def tensor(self, name: str) -> GraphTensor:
        """The value as a tensor of the graph; an array becomes one constant, however often it is read."""
        value = self.values[name]
        if isinstance(value, GraphTensor):
            return value
        if name not in self._constants:
            self._constants[name] = self.graph.make_constant(value, name)
        return self._constants[name]

    def known(self, name: str) -> Array | None:
        """The value, if it is known at import."""
        value = self.values[name]
        return None if isinstance(value, GraphTensor) else value


class NodeContext:
    """One node: its inputs, its attributes with their types checked, and what to make of them."""

    def __init__(self, node: NodeProto, scope: Scope) -> None:
        self.node = node
        self.scope = scope
        self.opset = scope.opset
        self.op_type: str = node.op_type
        self.name = node_name(node)
        self._attributes: dict[str, AttributeProto] = {a.name: a for a in node.attribute}

    # Inputs and outputs.

    def has(self, index: int) -> bool:
        """Whether optional input `index` is given."""
        return index < len(self.node.input) and self.node.input[index] != ""

    @property
    def count(self) -> int:
        """Number of inputs."""
        return len(self.node.input)

    def wants(self, index: int) -> bool:
        """Whether optional output `index` is asked for."""
        return index < len(self.node.output) and self.node.output[index] != ""

    def tensor(self, index: int) -> GraphTensor:
        """Input `index` as a tensor of the graph."""
        return self.scope.tensor(self._input(index))

    def value(self, index: int) -> Value:
        """Input `index`, as it is known."""
        return self.scope.values[self._input(index)]

    def tensors(self) -> list[GraphTensor]:
        """All inputs, at least one."""
        return [self.tensor(i) for i in range(max(self.count, 1))]

    def known(self, index: int) -> Array | None:
        """Input `index` if it is given and known at import."""
        return self.scope.known(self._input(index)) if self.has(index) else None

    def details(self, index: int) -> LogicalTensor:
        """dtype and shape of input `index`."""
        value = self.scope.values[self._input(index)]
        if isinstance(value, GraphTensor):
            return value.details
        return LogicalTensor(from_numpy(value.dtype), value.shape)

    def array(self, index: int, what: str) -> Array:
        """Input `index`, which must be known at import. UnsupportedError where it depends on the model's inputs."""
        value = self.known(index)
        if value is None:
            raise self.unsupported(
                f"{what} ('{self._input(index)}') that depends on the model's inputs"
            )
        return value

    def ints(self, index: int, what: str) -> tuple[int, ...]:
        """Input `index` as integers known at import: a shape, axes, positions."""
        value = self.array(index, what)
        if value.dtype.kind not in "iu" or value.ndim > 1:
            raise self.rule(
                f"{what} must be a list of integers", f"{value.dtype.name}{list(value.shape)}"
            )
        return tuple(int(v) for v in value.reshape(-1))

    def _input(self, index: int) -> str:
        if not self.has(index):
            raise self.rule(f"input {index} must be given", f"{self.count} inputs")
        return str(self.node.input[index])

    # Attributes.

    def given(self, name: str) -> bool:
        """Whether the node has the attribute."""
        return name in self._attributes

    def attr_int(self, name: str, default: int | None = None) -> int:
        """An integer attribute; it must be given where there is no default."""
        return int(self._attribute(name, AttributeProto.INT, "i", default))

    def attr_float(self, name: str, default: float | None = None) -> float:
        """A float attribute, as stored: rounded to f32."""
        return float(self._attribute(name, AttributeProto.FLOAT, "f", default))

    def attr_text(self, name: str, default: str | None = None) -> str:
        """A string attribute."""
        value = self._attribute(name, AttributeProto.STRING, "s", default)
        return value.decode(errors="replace") if isinstance(value, bytes) else str(value)

    def attr_ints(self, name: str) -> tuple[int, ...] | None:
        """A list of integers, None where it is not given."""
        if not self.given(name):
            return None
        return tuple(self._attribute(name, AttributeProto.INTS, "ints", None))

    def attr_floats(self, name: str) -> tuple[float, ...]:
        """A list of floats."""
        return tuple(self._attribute(name, AttributeProto.FLOATS, "floats", None))

    def attr_texts(self, name: str) -> tuple[str, ...]:
        """A list of strings, empty where it is not given."""
        if not self.given(name):
            return ()
        values = self._attribute(name, AttributeProto.STRINGS, "strings", None)
        return tuple(value.decode(errors="replace") for value in values)

    def attr_array(self, name: str) -> Array:
        """A tensor attribute."""
        proto = self._attribute(name, AttributeProto.TENSOR, "t", None)
        return to_array(
            proto, f"{self.op_type} '{self.name}', attribute '{name}'", self.scope.folder
        )

    def attr_graph(self, name: str) -> GraphProto:
        """A graph attribute."""
        graph: GraphProto = self._attribute(name, AttributeProto.GRAPH, "g", None)
        return graph

    def _attribute(self, name: str, kind: int, field: str, default: Any) -> Any:
        attribute = self._attributes.get(name)
        if attribute is None:
            if default is None:
                raise self.rule(
                    f"attribute '{name}' must be given", f"only {sorted(self._attributes)}"
                )
            return default
        if attribute.type != kind:
            names = {number: text for text, number in AttributeProto.AttributeType.items()}
            raise self.rule(
                f"attribute '{name}' must be of kind {names[kind]}",
                names.get(attribute.type, str(attribute.type)),
            )
        return getattr(attribute, field)

    # Building.

    @property
    def build(self) -> OpBuilder:
        """What the forms shared with other formats build with: ops named after the node."""
        return OpBuilder(self.scope.graph, self.op_type, self.name)

    def make(
        self, op_name: str, inputs: Sequence[GraphTensor], attrs: dict[str, Any] | None = None
    ) -> GraphTensor:
        """Append the node's main op, which takes its name."""
        return self.scope.graph.make(op_name, inputs, attrs, self.name).outputs[0]

    def helper(
        self, op_name: str, inputs: Sequence[GraphTensor], attrs: dict[str, Any] | None = None
    ) -> GraphTensor:
        """Append an op that the main one needs, named after both."""
        return self.scope.graph.make(op_name, inputs, attrs, f"{self.name}.{op_name}").outputs[0]

    def constant(self, value: Any, dtype: DType) -> GraphTensor:
        """A constant of a value that is no input of the node, converted to `dtype`."""
        with np.errstate(all="ignore"):
            array = np.asarray(value).astype(dtype.numpy)
        return self.scope.graph.make_constant(array, f"{self.name}.constant")

    def reshaped(self, x: GraphTensor, dims: Sequence[int]) -> GraphTensor:
        """X in another shape; x itself where that is its shape."""
        if x.details.plain_dims == tuple(dims):
            return x
        return self.helper("reshape", [x], {"shape": tuple(dims)})

    def converted(self, x: GraphTensor, dtype: DType) -> GraphTensor:
        """X in another dtype; x itself where that is its dtype."""
        return x if x.details.dtype == dtype else self.helper("cast", [x], {"dtype": dtype.name})

    # Checks and messages.

    def check_array(self, dims: Sequence[int]) -> None:
        """UnsupportedError where an array of these sizes is too large to be made while reading a model."""
        if math.prod(dims) > _MOST_ELEMENTS:
            raise self.unsupported(
                f"a computed constant of more than {_MOST_ELEMENTS} elements ({list(dims)})"
            )

    def axis(self, axis: int, rank: int, inclusive: bool = False) -> int:
        """`axis` counted from the front. UserError outside [-rank, rank), or [-rank, rank] if `inclusive`."""
        last = rank + 1 if inclusive else rank
        if not -rank <= axis < last:
            raise self.rule(f"axis must be in [{-rank}, {last})", str(axis))
        return axis + rank if axis < 0 else axis

    def rule(self, rule: str, values: str, remedy: str = "") -> UserError:
        """An error in the house form: who, rule, values, remedy."""
        text = f"{self.op_type} '{self.name}': {rule}, got {values}"
        return UserError(text + (f"; {remedy}" if remedy else ""))

    def unsupported(self, what: str) -> UnsupportedError:
        """The error for something valid that graphc does not handle."""
        return UnsupportedError(f"{self.op_type} '{self.name}': {what} is not supported")


def node_name(node: NodeProto) -> str:
    """The node's name; the name of its first output where it has none, which is unique in the graph."""
    return node.name or next((str(name) for name in node.output if name), str(node.op_type))
