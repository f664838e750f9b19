"""The context of a node's importer: the values known so far, and one node of the file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from onnx import AttributeProto, GraphProto, NodeProto, defs, helper

from ...base.errors import UnsupportedError
from ...base.records import dataclass
from ...base.symbols import Limits
from ...graph_ir.ir.graph import Array, Graph, GraphTensor
from ..correspondence.scoped import ScopedReader, ValueScope
from ..correspondence.spelling import Formal
from ..correspondence.values import MUST_BE_GIVEN
from ..op_builder import Value
from ..refusals import FIXED
from .reader import node_opset
from .tensors import to_array, to_dtype

ImportGraph = Callable[[GraphProto, "Scope"], list[Value]]

Handler = Callable[["NodeContext"], "Value | list[Value]"]
"""Imports one kind of node: the values of its outputs, in order (or the only one)."""


@dataclass(frozen=True)
class Listed:
    """A sequence among the values of a scope, or an optional value that is left out."""

    items: tuple[Value, ...]
    is_absent: bool = False
    rows: GraphTensor | None = None
    """Further elements, as rows of a tensor, of which a run knows the number."""
    joined: int | None = None
    """The axis of elements of unequal sizes, which are joined along it in `rows`, if there are such."""


class Scope(ValueScope[str]):
    """Values by their ONNX names, and the graph they are built into.

    `import_graph(proto, scope)` imports the nodes of a graph into a scope that has its inputs, and returns its results.
    """

    def __init__(
        self,
        graph: Graph,
        opset: int,
        folder: Path | None,
        import_graph: ImportGraph,
        values: dict[str, Value] | None = None,
        declared: Mapping[str, tuple[int, ...]] | None = None,
    ) -> None:
        self.graph = graph
        self.opset = opset
        self.folder = folder
        self.import_graph = import_graph
        self.values: dict[str, Value] = values if values is not None else {}
        self.constants: dict[str, GraphTensor] = {}
        # The shapes that the file says values have, and what must hold at run time so that they do, with messages; None
        # in a graph that cannot check anything.
        self.declared = declared or {}
        # The shapes of values as the file writes them, sizes by their names.
        self.written_shapes: Mapping[str, tuple[int | str, ...]] = {}
        # How many channels are in a block of weights that ONNX Runtime reordered; 0 where the file leaves it open.
        self.channel_block = 0
        self.checks: list[tuple[GraphTensor, str]] | None = None if declared is None else []
        # True in the graph of the model, where a run may count sizes without a limit.
        self.may_count = declared is not None
        # The names of dynamic sizes, in this graph and in all around it and inside it.
        self.size_names: set[str] = set()
        # What ops need of sizes, by name.
        self.limits: Limits = {}

    def as_tensor(self, value: Value) -> GraphTensor:
        """A value as a tensor of the graph. Raise UnsupportedError for a sequence."""
        given: object = value
        if isinstance(given, Listed):
            raise UnsupportedError(
                "a sequence or an optional value where a tensor is wanted, or in a branch or loop that only a run "
                "decides on, is not supported",
                FIXED,
            )
        return super().as_tensor(value)

    def tensor(self, key: str) -> GraphTensor:
        """A value as a tensor of the graph; an array becomes one constant. Raise UnsupportedError for a sequence."""
        given: object = self.values[key]
        return (
            self.as_tensor(self.values[key]) if isinstance(given, Listed) else super().tensor(key)
        )

    def require(self, holds: GraphTensor, message: str) -> None:
        """Have each run check that a condition (bool[]) holds."""
        assert self.checks is not None
        if message not in {known for _, known in self.checks}:
            self.checks.append((holds, message))

    def inside(
        self,
        graph: Graph,
        values: Mapping[str, Value] | None = None,
        seen: Mapping[str, Value] | None = None,
    ) -> Scope:
        """A scope for a graph of one of the nodes, which sees all values of this one, or only those `seen`; it is built
        into `graph`."""
        known = {**(self.values if seen is None else seen), **(values or {})}
        inner = Scope(graph, self.opset, self.folder, self.import_graph, known)
        inner.size_names, inner.limits = self.size_names, self.limits
        inner.channel_block = self.channel_block
        return inner

    def inline(self, proto: GraphProto, values: Mapping[str, Value]) -> list[Value]:
        """Import a graph of one of the nodes for these inputs into the same graph; return its results."""
        inner = self.inside(self.graph, values)
        inner.checks, inner.may_count = self.checks, self.may_count
        return self.import_graph(proto, inner)


class NodeContext(ScopedReader[str, int]):
    """One node: its inputs by position, its attributes with their types checked, and what to make of them."""

    def __init__(self, node: NodeProto, scope: Scope) -> None:
        super().__init__(scope.graph, node.op_type, node_name(node))
        self.node = node
        self.scope = scope
        self.opset = node_opset(node, scope.opset)
        self.size_names, self.limits = scope.size_names, scope.limits
        self.may_count = scope.may_count
        self._attributes: dict[str, AttributeProto] = {a.name: a for a in node.attribute}

    # Inputs and outputs.

    def has(self, index: int) -> bool:
        """Return whether optional input `index` is given."""
        return index < len(self.node.input) and self.node.input[index] != ""

    @property
    def count(self) -> int:
        """Number of inputs."""
        return len(self.node.input)

    def wants(self, index: int) -> bool:
        """Return whether optional output `index` is used."""
        return index < len(self.node.output) and self.node.output[index] != ""

    def tensors(self) -> list[GraphTensor]:
        """All inputs, at least one."""
        return [self.tensor(i) for i in range(max(self.count, 1))]

    def key_of(self, index: int) -> str:
        """The name of input `index`. Raise UserError if it is not given."""
        if not self.has(index):
            raise self.rule(f"input {index} must be given", f"{self.count} inputs")
        return str(self.node.input[index])

    def require(self, holds: GraphTensor, message: str) -> None:
        """Have each run check a condition (bool[]). UnsupportedError in a loop that only a run ends."""
        if self.scope.checks is None:
            raise self.unsupported("an error of the run, inside a loop,", FIXED)
        self.scope.require(holds, f"{self.type} '{self.name}': {message}")

    def counted_name(self, index: int, axis: int) -> str:
        """Return the file's name for the size of an axis of output `index`, which a run counts; empty if it
        has none."""
        name = self.node.output[index] if self.wants(index) else ""
        written = self.scope.written_shapes.get(name, ())
        found = written[axis] if axis < len(written) else ""
        return found if isinstance(found, str) else ""

    # Attributes.

    def given(self, name: str) -> bool:
        """Return whether the node has the attribute."""
        return name in self._attributes

    def must_be_plain(self, plain: Mapping[str, int]) -> None:
        """Raise UnsupportedError for an attribute of another value."""
        for name, value in plain.items():
            if self.attr_int(name, value) != value:
                raise self.unsupported(f"{name}={self.attr_int(name)}")

    def attr_floats(self, name: str) -> tuple[float, ...]:
        """A list of floats."""
        return tuple(self._attribute(name, AttributeProto.FLOATS, MUST_BE_GIVEN))

    def attr_texts(self, name: str) -> tuple[str, ...]:
        """A list of strings, empty where it is not given."""
        if not self.given(name):
            return ()
        values = self._attribute(name, AttributeProto.STRINGS, MUST_BE_GIVEN)
        return tuple(value.decode(errors="replace") for value in values)

    def attr_array(self, name: str) -> Array:
        """A tensor attribute."""
        proto = self._attribute(name, AttributeProto.TENSOR, MUST_BE_GIVEN)
        return to_array(proto, f"{self.type} '{self.name}', attribute '{name}'", self.scope.folder)

    def attr_graph(self, name: str) -> GraphProto:
        """A graph attribute."""
        graph: GraphProto = self._attribute(name, AttributeProto.GRAPH, MUST_BE_GIVEN)
        return graph

    def _attribute(self, name: str, kind: int, default: Any) -> Any:
        """Return the value of an attribute, or ONNX's default, or `default`; raise UserError if that is
        MUST_BE_GIVEN."""
        given = self._attributes.get(name)
        attribute = given or default_attribute(self.type, name, self.opset)
        if attribute is None:
            if default is MUST_BE_GIVEN or is_required(self.type, name, self.opset):
                raise self.rule(
                    f"attribute '{name}' must be given", f"only {sorted(self._attributes)}"
                )
            return default
        if attribute.type != kind:
            wanted, got = (AttributeProto.AttributeType.Name(n) for n in (kind, attribute.type))
            raise self.rule(f"attribute '{name}' must be of kind {wanted}", got)
        value = getattr(attribute, _FIELDS[kind])
        is_rounded = given is None and kind == AttributeProto.FLOAT
        return _shortest(value) if is_rounded else value

    # The interface used by rows.

    def locate(self, formal: Formal) -> int:
        """The operand's position."""
        return formal.index

    def read_variadic(self, formal: Formal) -> list[GraphTensor]:
        """All inputs from the operand's position on."""
        return [self.tensor(i) for i in range(formal.index, max(self.count, 1))]

    def is_given(self, formal: Formal) -> bool:
        """Return whether there is an input at the operand's position, or an attribute as old models have instead."""
        return super().is_given(formal) or bool(formal.holds and self.given(formal.name))

    def read_known(self, formal: Formal) -> Array:
        """The input at the operand's position, which must be known at import; in old models an attribute."""
        if not self.has(formal.index) and self.given(formal.name):
            return np.asarray(helper.get_attribute_value(self._attributes[formal.name]))
        return super().read_known(formal)

    def read_attribute(self, name: str, kind: str, default: Any) -> Any:
        """An attribute of the type ONNX gives values of that kind."""
        value = self._attribute(name, _KINDS[kind], default)
        if isinstance(value, bytes):
            return value.decode(errors="replace")
        if kind == "dtype":
            return to_dtype(f"{self.type} '{self.name}'", value)
        plural = kind in ("ints", "floats") and value is not None
        return tuple(value) if plural else bool(value) if kind == "bool" else value


_FIELDS: dict[int, str] = {
    AttributeProto.INT: "i", AttributeProto.FLOAT: "f", AttributeProto.STRING: "s", AttributeProto.INTS: "ints",
    AttributeProto.FLOATS: "floats", AttributeProto.STRINGS: "strings", AttributeProto.TENSOR: "t",
    AttributeProto.GRAPH: "g",
}  # fmt: skip
_KINDS: dict[str, int] = {
    "float": AttributeProto.FLOAT,
    "text": AttributeProto.STRING,
    "ints": AttributeProto.INTS,
    "floats": AttributeProto.FLOATS,
    **dict.fromkeys(("int", "bool", "dtype"), AttributeProto.INT),
}


@cache
def default_attribute(op_type: str, name: str, opset: int) -> AttributeProto | None:
    """ONNX's default of an attribute in an opset; None if it has none.

    An attribute introduced later has its default in the newest opset.
    """
    for version in (opset, defs.onnx_opset_version()):
        known = defs.has(op_type, version) and defs.get_schema(op_type, version).attributes
        if known and name in known:
            default = known[name].default_value
            return default if default.type else None
    return None


@cache
def is_required(op_type: str, name: str, opset: int) -> bool:
    """Return whether ONNX says that an attribute must be given in an operator set."""
    known = defs.get_schema(op_type, opset).attributes if defs.has(op_type, opset) else {}
    return name in known and known[name].required


def _shortest(value: float) -> float:
    """A float32 default as it was written: 1e-05, not 9.99999974e-06."""
    return float(str(np.float32(value)))


def node_name(node: NodeProto) -> str:
    """The node's name; the name of its first output where it has none, which is unique in the graph."""
    return node.name or next((str(name) for name in node.output if name), str(node.op_type))
