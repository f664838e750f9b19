"""Expands calls of a model's own functions (IR version 8 and later): each call becomes the nodes of the body.

Specification: onnx.proto, FunctionProto. An attribute of the body that refers to one of the function takes the value
that the call gives, else the function's default, else it is left out. A body is of the opset that its function imports,
which its nodes keep (`node_opset`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import count

from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto

from ...base.errors import UnsupportedError, UserError
from .nesting import every_graph, every_node, graphs_in, graphs_of
from .reader import DEFAULT_DOMAINS, check_opset, set_node_opset
from .scope import node_name

MAX_NODES = 1_000_000
"""Maximum number of nodes of a model after its functions are expanded."""

_MAX_DEPTH = 100  # of graphs inside nodes, as protobuf reads them

FunctionKey = tuple[str, str, str]


def expand_functions(model: ModelProto, opset: int, label: str) -> ModelProto:
    """Return the model with every call of its functions expanded; the model itself if it has no calls.

    Raise UserError for functions that call themselves or calls that do not fit, UnsupportedError for too many nodes.
    """
    functions = {(f.domain, f.name, f.overload): f for f in model.functions}
    if not any(_key(node) in functions for node in every_node(model.graph)):
        return model
    _check_growth(functions, model.graph, label)
    expanded = ModelProto()
    expanded.CopyFrom(model)
    del expanded.functions[:]
    _Expansion(functions, expanded.graph, opset, label).expand(expanded.graph, 0)
    return expanded


def _key(node: NodeProto) -> FunctionKey:
    return node.domain, node.op_type, node.overload


class _Expansion:
    """The functions of one model, and the names of values that are taken."""

    def __init__(
        self,
        functions: Mapping[FunctionKey, FunctionProto],
        graph: GraphProto,
        opset: int,
        label: str,
    ) -> None:
        self._functions = functions
        self._opset = opset
        self._label = label
        self._taken: set[str] = set()
        for one in every_graph(graph):
            self._taken.update(_defined(one))
        self._numbers = count()

    def expand(self, graph: GraphProto, depth: int) -> None:
        """Replace the calls in a graph and in those inside it."""
        if depth > _MAX_DEPTH:
            raise UnsupportedError(
                f"{self._label}: its functions stand for graphs that are nested more than {_MAX_DEPTH} deep",
                "export it without functions",
            )
        pending, done = list(reversed(graph.node)), []
        while pending:
            node = pending.pop()
            function = self._functions.get(_key(node))
            if function is not None:
                pending += reversed(self._body(function, node))
                continue
            for inner in graphs_of(node):
                self.expand(inner, depth + 1)
            done.append(node)
        del graph.node[:]
        graph.node.extend(done)

    def _body(self, function: FunctionProto, call: NodeProto) -> list[NodeProto]:
        """Return the nodes of a function for one call."""
        self._check_call(function, call)
        prefix = node_name(call)
        names = dict.fromkeys(function.input, "")
        names |= dict(zip(function.input, call.input, strict=False))
        copies = []
        for formal, actual in zip(function.output, call.output, strict=False):
            if actual and formal in names:  # an input, or a result that is given twice
                copies.append(NodeProto(op_type="Identity", input=[names[formal]], output=[actual]))
            elif actual:
                names[formal] = actual
        given = {a.name: a for a in (*function.attribute_proto, *call.attribute)}
        body = _Body(self._fresh, given, self._opset_of(function, call), prefix)
        names |= body.new_names(x for node in function.node for x in node.output if x not in names)
        return [body.copy(node, names) for node in function.node] + copies

    def _check_call(self, function: FunctionProto, call: NodeProto) -> None:
        for what, actual, formal in (
            ("inputs", call.input, function.input),
            ("outputs", call.output, function.output),
        ):
            if len(actual) > len(formal):
                raise UserError(
                    f"{self._label}: '{node_name(call)}' must have at most the {len(formal)} {what} of its function "
                    f"{_shown(_key(call))}, got {len(actual)}"
                )

    def _opset_of(self, function: FunctionProto, call: NodeProto) -> int | None:
        """The opset of a body; None if it is that of the model."""
        imports = [x.version for x in function.opset_import if x.domain in DEFAULT_DOMAINS]
        if not imports or imports[0] == self._opset:
            return None
        return check_opset(imports[0], f"{self._label}: function {_shown(_key(call))}")

    def _fresh(self, name: str) -> str:
        while name in self._taken:
            name = f"{name}.{next(self._numbers)}"
        self._taken.add(name)
        return name


class _Body:
    """Parameters for copying a function body into one call: attribute values, the opset and the prefix of names."""

    def __init__(
        self,
        fresh: Callable[[str], str],
        given: Mapping[str, AttributeProto],
        opset: int | None,
        prefix: str,
    ) -> None:
        self._fresh = fresh
        self._given = given
        self._opset = opset
        self._prefix = prefix

    def new_names(self, names: Iterable[str]) -> dict[str, str]:
        """Return a new name for each value of the body."""
        return {name: self._fresh(f"{self._prefix}/{name}") for name in names if name}

    def copy(self, node: NodeProto, names: Mapping[str, str]) -> NodeProto:
        """Return a node of the body, its values renamed and its attributes replaced by their values."""
        made = NodeProto(
            op_type=node.op_type, domain=node.domain, overload=node.overload,
            input=[names.get(x, x) for x in node.input],
            output=[names.get(x, x) for x in node.output],
        )  # fmt: skip
        if node.name:
            made.name = f"{self._prefix}/{node.name}"
        made.metadata_props.extend(node.metadata_props)
        if self._opset is not None:
            set_node_opset(made, self._opset)
        for attribute in node.attribute:
            if not attribute.ref_attr_name:
                copied = made.attribute.add()
                copied.CopyFrom(attribute)
                for graph in graphs_in(copied):
                    self._rename(graph, names)
            elif attribute.ref_attr_name in self._given:  # its graphs read values of the caller
                copied = made.attribute.add()
                copied.CopyFrom(self._given[attribute.ref_attr_name])
                copied.name = attribute.name
        return made

    def _rename(self, graph: GraphProto, outer: Mapping[str, str]) -> None:
        """Rename the values of a graph inside a node of the body, and copy its nodes."""
        names = {**outer, **self.new_names(_defined(graph))}
        for info in (*graph.input, *graph.output, *graph.value_info, *graph.initializer):
            info.name = names.get(info.name, info.name)
        nodes = [self.copy(node, names) for node in graph.node]
        del graph.node[:]
        graph.node.extend(nodes)


def _defined(graph: GraphProto) -> list[str]:
    """Return the names of the values that a graph itself defines."""
    names = [str(x.name) for x in (*graph.input, *graph.initializer)]
    return [*names, *(str(x) for node in graph.node for x in node.output if x)]


def _shown(key: FunctionKey) -> str:
    return ".".join(part for part in key if part)


def _check_growth(
    functions: Mapping[FunctionKey, FunctionProto], graph: GraphProto, label: str
) -> None:
    """Raise UserError for a function that calls itself, UnsupportedError for too many nodes: 30 functions may give
    2^30."""
    bodies = {key: [*every_node(function)] for key, function in functions.items()}
    calls = {key: {_key(n) for n in nodes} & bodies.keys() for key, nodes in bodies.items()}
    sizes: dict[FunctionKey, int] = {}
    stack = [key for key in {_key(n) for n in every_node(graph)} if key in bodies]
    begun: set[FunctionKey] = set()
    while stack:
        key = stack[-1]
        missing = [one for one in calls[key] if one not in sizes]
        if not missing or key in sizes:
            sizes.setdefault(key, _nodes(bodies[key], sizes))
            stack.pop()
            continue
        begun.add(key)
        if cycle := [one for one in missing if one in begun]:
            raise UserError(
                f"{label}: its functions cannot be expanded: a function must not call itself, "
                f"but {_shown(cycle[0])} does; export it without functions"
            )
        stack += missing
    if _nodes(every_node(graph), sizes) > MAX_NODES:
        raise UnsupportedError(
            f"{label}: its functions stand for more than {MAX_NODES:,} nodes, the most that graphc expands",
            "export the model in parts",
        )


def _nodes(nodes: Iterable[NodeProto], sizes: Mapping[FunctionKey, int]) -> int:
    return min(sum(sizes.get(_key(n), 1) for n in nodes), MAX_NODES + 1)
