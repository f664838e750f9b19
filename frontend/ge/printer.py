"""Writes a dump as GE does: numbers with 6 decimals, constants elided, strings raw."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from typing import Any

from .document import Dump, DumpGraph, GraphName, Reference, TensorText, TypeName

SHOWN = 6
"""Constants with more elements are elided in the middle."""


def print_ge(dump: Dump, *, full: bool = False) -> str:
    """Text of a dump. `full`: constants are not elided, which `read_ge` accepts and GE's own tools show as well."""
    return "\n".join("\n".join(_graph(graph, full)) + "\n" for graph in dump.graphs)


def _graph(graph: DumpGraph, full: bool) -> Iterator[str]:
    taken = {node.name for node in graph.nodes}
    names = {Reference(node.name): node.name for node in graph.nodes if node.outputs < 2}
    consumers = Counter(ref for node in graph.nodes for _, ref in node.inputs)
    consumers.update(graph.results)
    fresh = _ret_names(taken)
    yield f'graph("{graph.name}"):'
    for node in graph.nodes:
        inputs = ", ".join(
            f"{key}=%{names[ref]}" if key else f"%{names[ref]}" for key, ref in node.inputs
        )
        attrs = ", ".join(f"{key}: {print_value(value, full)}" for key, value in node.attrs.items())
        body = [f"inputs = ({inputs})"] * bool(inputs) + [f"attrs = {{{attrs}}}"] * bool(attrs)
        yield f"  %{node.name} : [#users={node.outputs}] = Node[type={node.type}] ({', '.join(body)})"
        for index in range(node.outputs if node.outputs > 1 else 0):
            reference = Reference(node.name, index)
            name = names[reference] = next(fresh)
            users = consumers[reference]
            sign = "#" * graph.hashes
            yield f"  %{name} : [{sign}users={users}] = get_element[node=%{node.name}]({index})"
    if graph.results:
        values = [f"%{names[ref]}" for ref in graph.results]
        if len(values) > 1:
            values = [f"output_{i}={value}" for i, value in enumerate(values)]
        yield from ("",) * graph.gap
        yield f"  return ({', '.join(values)})"


def _ret_names(taken: set[str]) -> Iterator[str]:
    number = 0
    while True:
        name = f"ret_{number}" if number else "ret"
        number += 1
        if name not in taken:
            yield name


def print_value(value: Any, full: bool = False) -> str:
    """Text of an attribute value."""
    if isinstance(value, GraphName):
        return f"%{value.name}"
    if isinstance(value, TypeName):
        return value.text
    if isinstance(value, TensorText):
        return _tensor(value, full)
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, (tuple, list)):
        return f"{{{', '.join(print_value(item, full) for item in value)}}}"
    return _number(value)


def _tensor(value: TensorText, full: bool) -> str:
    if value.missing.startswith("<"):
        return value.missing
    if not value.items:
        return "<empty>"
    if value.missing or (len(value.items) > SHOWN and not full):
        half = SHOWN // 2
        shown = [*map(_number, value.items[:half]), "...", *map(_number, value.items[-half:])]
    else:
        shown = [_number(item) for item in value.items]
    return f"[{' '.join(shown)}]"


def _number(value: int | float | bool) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return str(value)
    if math.isnan(value):
        return "-nan" if math.copysign(1.0, value) < 0 else "nan"
    return f"{value:.6f}" if math.isfinite(value) else str(value)
