"""Models whose nodes call functions of the model: defaults and references of attributes, calls inside of functions,
bodies of one node, graphs inside of bodies, and bodies of another opset than the model.

Every value has the shape of the input, so that any may be an operand of any node.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from typing import Any

from onnx import (
    AttributeProto,
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    helper,
)

from ....base.records import dataclass

OPSETS = (13, 14, 17, 18, 20, 21)
DOMAIN = "graphc.fuzz"
MAX_NODES = 3
"""Maximum number of nodes of a body and of the graph, besides those that a pattern adds."""

Draw = Callable[[random.Random], Any]


def _quarters(source: random.Random) -> float:
    return source.randint(-8, 8) / 4


def _positive(source: random.Random) -> float:
    return source.randint(1, 8) / 4


def _axis(source: random.Random) -> int:
    return source.choice((0, 1, -1))


OPS: dict[str, tuple[int, dict[str, Draw]]] = {
    **dict.fromkeys(("Neg", "Abs", "Relu", "Floor", "Identity"), (1, {})),
    **dict.fromkeys(("Add", "Sub", "Max", "Min"), (2, {})),
    **dict.fromkeys(("LeakyRelu", "ThresholdedRelu"), (1, {"alpha": _quarters})),
    **dict.fromkeys(("Elu", "Celu"), (1, {"alpha": _positive})),
    **dict.fromkeys(("Softmax", "LogSoftmax"), (1, {"axis": _axis})),
    "HardSigmoid": (1, {"alpha": _quarters, "beta": _quarters}),
    "Selu": (1, {"alpha": _positive, "gamma": _positive}),
    "Shrink": (1, {"lambd": _positive, "bias": _quarters}),
}
"""Op -> operands, and what its attributes may be."""

_WITH_ATTRIBUTES = [name for name, (_, draws) in OPS.items() if draws]
_PLAIN = [name for name, (_, draws) in OPS.items() if not draws]


@dataclass
class _Signature:
    """A function that may be called: its attributes, of which some have defaults, and what draws their values."""

    proto: FunctionProto
    draws: dict[str, Draw] = field(default_factory=dict)


class _Writer:
    """Nodes of one graph or body. `own`: the function that is written, whose attributes may be referred to."""

    def __init__(
        self, source: random.Random, functions: Sequence[_Signature], own: _Signature | None = None
    ) -> None:
        self.random = source
        self.nodes: list[NodeProto] = []
        self._functions = functions
        self._own = own

    def extend(self, values: list[str], must_call: bool = False) -> None:
        """Append a node or a pattern that reads some of the values, and the names of its results."""
        step = self.random.random()
        if must_call:
            self._call(self._functions[-1], values)
        elif self._functions and step < (0.3 if self._own else 0.8):
            self._call(self.random.choice(self._functions), values)
        elif step < 0.85:
            self._node(values)
        else:
            self.random.choice((self._constant, self._casts, self._transposes, self._branch))(
                values
            )

    def _node(self, values: list[str]) -> None:
        name = self.random.choice(_PLAIN if self.random.random() < 0.3 else _WITH_ATTRIBUTES)
        operands, draws = OPS[name]
        self._add(name, self._some(values, operands), values, draws)

    def _constant(self, values: list[str]) -> None:
        """A number that is an attribute."""
        self._add("Constant", [], [], {"value_float": _quarters}, must=True)
        self._add("Mul", [self._some(values, 1)[0], self.nodes[-1].output[0]], values)

    def _casts(self, values: list[str]) -> None:
        kinds = (TensorProto.INT32, TensorProto.INT64, TensorProto.DOUBLE)
        self._add("Cast", self._some(values, 1), [], {"to": lambda r: r.choice(kinds)}, must=True)
        back = helper.make_node("Cast", list(self.nodes[-1].output), [self._name()], to=1)
        self._append(back, values)

    def _transposes(self, values: list[str]) -> None:
        """Add a transpose and its inverse."""
        for operands in (self._some(values, 1), None):
            found: list[str] = []
            before = operands or [str(self.nodes[-1].output[0])]
            self._add("Transpose", before, found, {"perm": lambda _: [1, 0]}, must=True)
        values += found

    def _branch(self, values: list[str]) -> None:
        """A graph inside of a node, which reads values and attributes from outside."""
        truth = helper.make_tensor("c", TensorProto.BOOL, [], [self.random.random() < 0.5])
        self.nodes.append(helper.make_node("Constant", [], [self._name()], value=truth))
        condition, graphs = str(self.nodes[-1].output[0]), []
        for way in ("then", "else"):
            inner = _Writer(self.random, (), self._own)
            inner._prefix = f"{self._name()}_{way}"
            found: list[str] = []
            inner._add("LeakyRelu", self._some(values, 1), found, OPS["LeakyRelu"][1])
            info = helper.make_tensor_value_info(found[0], TensorProto.FLOAT, None)
            graphs.append(helper.make_graph(inner.nodes, way, [], [info]))
        node = helper.make_node(
            "If", [condition], [self._name()], then_branch=graphs[0], else_branch=graphs[1]
        )
        self._append(node, values)

    def _call(self, function: _Signature, values: list[str]) -> None:
        """A call that leaves out some attributes."""
        proto = function.proto
        results = [self._name(i) for i in range(len(proto.output))]
        node = helper.make_node(
            proto.name, self._some(values, len(proto.input)), results, domain=proto.domain
        )
        for name, draw in function.draws.items():
            self._attribute(node, name, draw, name in proto.attribute)
        self._append(node, values)

    _prefix = "v"

    def _name(self, result: int = 0) -> str:
        return f"{self._prefix}{len(self.nodes)}_{result}"

    def _some(self, values: Sequence[str], count: int) -> list[str]:
        """Operands, the newest value often among them."""
        return [self.random.choice((values[-1], self.random.choice(values))) for _ in range(count)]

    def _add(
        self, op: str, operands: Sequence[str], values: list[str], draws: dict[str, Draw] | None = None,
        must: bool = False,
    ) -> None:  # fmt: skip
        node = helper.make_node(op, operands, [self._name()])
        for name, draw in (draws or {}).items():
            self._attribute(node, name, draw, must)
        self._append(node, values)

    def _append(self, node: NodeProto, values: list[str]) -> None:
        self.nodes.append(node)
        values += node.output

    def _attribute(self, node: NodeProto, name: str, draw: Draw, must: bool) -> None:
        """Give an attribute a value or a reference, or leave it out unless it must be there."""
        ways = ("value", *("reference",) * 3) if self._own else ("value",)
        way = self.random.choice(ways + ("absent",) * (not must))
        if way == "absent":
            return
        value = helper.make_attribute(name, draw(self.random))
        if way == "reference":
            value = self._reference(name, value.type, draw, must)
        node.attribute.append(value)

    def _reference(self, name: str, kind: Any, draw: Draw, must: bool) -> AttributeProto:
        """Return a reference to a new attribute of the function, which has a default or must be given."""
        assert self._own is not None
        proto, outer = self._own.proto, f"{name}{len(self._own.draws)}"
        self._own.draws[outer] = draw
        if self.random.random() < 0.7:
            proto.attribute_proto.append(helper.make_attribute(outer, draw(self.random)))
        else:
            proto.attribute.append(outer)
        return AttributeProto(name=name, ref_attr_name=outer, type=kind)


def random_functions(source: random.Random) -> ModelProto:
    """Return a model of one to three functions and calls of them."""
    opset = source.choice(OPSETS)
    functions: list[_Signature] = []
    for number in range(source.randint(1, 3)):
        functions.append(_function(source, functions, f"f{number}", opset))
    writer, values = _Writer(source, functions), ["x"]
    for number in range(source.randint(1, MAX_NODES)):
        writer.extend(values, must_call=number == 0)
    graph = _graph(writer, values, [source.randint(1, 5), source.randint(1, 19)])
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid(DOMAIN, 1)]
    protos = [one.proto for one in functions]
    return helper.make_model(graph, opset_imports=opsets, functions=protos, ir_version=10)


def _function(
    source: random.Random, known: Sequence[_Signature], name: str, opset: int
) -> _Signature:
    """Return a function that may call those before it."""
    used = opset if source.random() < 0.6 else source.choice(OPSETS)
    opsets = [helper.make_opsetid("", used), helper.make_opsetid(DOMAIN, 1)]
    inputs = ["a", "b"][: source.randint(1, 2)]
    proto = helper.make_function(DOMAIN, name, inputs, [], [], opsets)
    made = _Signature(proto)
    writer, values = _Writer(source, known, made), list(inputs)
    for _ in range(source.choice((1, 1, *range(1, MAX_NODES + 1)))):
        writer.extend(values)
    proto.node.extend(writer.nodes)
    unread = [*_unread(writer.nodes, [v for v in values if v not in inputs])]
    proto.output.extend(unread[:3])
    return made


def _unread(nodes: Sequence[NodeProto], values: Sequence[str]) -> Iterator[str]:
    read = {name for node in nodes for name in node.input}
    return (value for value in values if value not in read)


def _graph(writer: _Writer, values: Sequence[str], dims: Sequence[int]) -> GraphProto:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, dims)
    results = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, dims)
        for name in _unread(writer.nodes, [v for v in values if v != "x"])
    ]
    return helper.make_graph(writer.nodes, "functions", [x], results)
