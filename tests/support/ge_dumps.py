"""Small readable dumps, as texts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from graphc.frontend import load
from graphc.graph_ir.ir.graph import Array

RETURN = "\n  return (%r)\n"


def run(
    lines: str,
    inputs: Mapping[str, str],
    *arrays: Array,
    constants: Mapping[str, Any] | None = None,
    graphs: str = "",
) -> list[Array]:
    """Results of a main graph of these lines; Data nodes are x, y, ... in order."""
    data = "".join(
        f"  %{name} : [#users=1] = Node[type=Data] (attrs = {{index: {i}}})\n"
        for i, name in enumerate(inputs)
    )
    text = f'graph("g"):\n{data}{lines}{graphs}'
    return load(text.encode(), inputs, constants).evaluate(list(arrays))


def node(type_name: str, inputs: str, attrs: str = "", name: str = "r", users: int = 1) -> str:
    """The line of a node."""
    tail = f", attrs = {{{attrs}}}" if attrs else ""
    return f"  %{name} : [#users={users}] = Node[type={type_name}] (inputs = ({inputs}){tail})\n"


def const(name: str, value: str) -> str:
    """The line of a constant."""
    return f"  %{name} : [#users=1] = Node[type=Const] (attrs = {{value: {value}}})\n"


def outputs(count: int) -> str:
    """The lines that take a node's outputs apart, as ret, ret_1, ..., and return them."""
    names = [f"ret_{i}" if i else "ret" for i in range(count)]
    lines = [
        f"  %{name} : [#users=1] = get_element[node=%r]({i})\n" for i, name in enumerate(names)
    ]
    values = ", ".join(f"output_{i}=%{name}" for i, name in enumerate(names))
    return "".join(lines) + f"\n  return ({values})\n"
