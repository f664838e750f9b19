"""A whole FX graph of ATen operators as a graph: for compilers that PyTorch calls with one."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

from ...base.dims import MOST, Dim, Size
from ...base.errors import UnsupportedError
from ...base.records import dataclass
from ...base.symbols import Limits
from ...graph_ir.ir.graph import Graph, GraphTensor
from ..torch_calls.complex_numbers import holds_complex
from .fx_reader import MISSING, Values, read_nodes, unsupported
from .sizes import Sizes
from .subgraph import attributes_of, constant_in
from .tensors import details_of


@dataclass(frozen=True)
class FxGraph:
    """A graph read from FX. `inputs`: positions of the placeholders that are inputs of `graph`. `results`: for each
    result the position among the outputs of `graph`, or a Python value in a tuple. `refused`: calls that are not
    supported. `dynamic`: positions of the placeholders that are dynamic sizes, and what they are; `sizes` knows
    their symbols."""

    graph: Graph
    inputs: tuple[int, ...]
    results: tuple[int | tuple[Any], ...]
    refused: Mapping[Any, str]
    dynamic: tuple[tuple[int, Size], ...]
    sizes: Sizes


def read_fx(
    module: Any,
    name: str,
    frozen: Mapping[int, Any],
    limits: Limits | None = None,
    most: int = MOST,
) -> FxGraph:
    """Read a GraphModule whose nodes have examples (`meta["val"]`).

    `frozen`: tensors and numbers that placeholders always stand for, by position. Symbolic sizes stay dynamic, up to
    `most`, or by name up to `limits`. Raise UnsupportedError for a result of no type of graphs; NeedsLimit where one
    would help. Complex numbers are pairs of real ones where all of them are between inputs and results.
    """
    found, leaves = _read_as(True, module, name, frozen, limits, most)
    return _read_as(False, module, name, frozen, limits, most)[0] if leaves else found


def _read_as(
    pairs: bool, module: Any, name: str, frozen: Mapping[int, Any], limits: Limits | None, most: int
) -> tuple[FxGraph, bool]:
    """And whether complex numbers as pairs would have to leave the graph, for a call of PyTorch's or as a result."""
    graph, values, inputs, sizes, dynamic = Graph(name), {}, [], Sizes(limits, most), []
    nodes = list(module.graph.nodes)
    for position, node in enumerate(n for n in nodes if n.op == "placeholder"):
        if position in frozen:
            values[node] = constant_in(graph, frozen[position], node.name, pairs)
            continue
        example = node.meta["val"]
        if not hasattr(example, "shape"):
            values[node] = value = sizes.of(example)
            if isinstance(value, Dim):
                dynamic.append((position, value))
            continue
        values[node] = _input(graph, node, sizes)
        if values[node] is not MISSING:
            inputs.append(position)
    values |= attributes_of(graph, module, sizes, pairs=pairs)
    calls = [n for n in nodes if n.op == "call_function"]
    refused = read_nodes(graph, calls, values, sizes, pairs=pairs)
    (output,) = [n for n in nodes if n.op == "output"]
    left = refused or any(holds_complex(values.get(x)) for x in _flat(output.args[0]))
    leaves = bool(left) and any(map(holds_complex, values.values()))
    results = () if refused else tuple(_result(graph, x, values) for x in _flat(output.args[0]))
    return FxGraph(graph, tuple(inputs), results, refused, tuple(dynamic), sizes), leaves


def _input(graph: Graph, node: Any, sizes: Sizes) -> Any:
    """MISSING for a type that no tensor of a graph has: then calls that take it are refused."""
    with contextlib.suppress(UnsupportedError):
        details = details_of(node.meta["val"], node.name, sizes)
        return MISSING if details is None else graph.make_input(details, node.name)
    return MISSING


def _flat(results: Any) -> list[Any]:
    return list(results) if isinstance(results, (list, tuple)) else [results]


def _result(graph: Graph, node: Any, values: Values) -> int | tuple[Any]:
    value = values[node] if hasattr(node, "op") else node
    if value is MISSING:
        raise unsupported(f"a result of the type of '{node.name}'")
    if not isinstance(value, GraphTensor):
        return (value,)
    graph.make_output(value, node.name)
    return len(graph.outputs) - 1
