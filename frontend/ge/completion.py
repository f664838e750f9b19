"""Completes a dump with what it omits and the caller provides: shapes of inputs, elided constants."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ...base.dtypes import from_numpy
from ...base.errors import UserError
from ...base.records import dataclass
from ...graph_ir.ir.graph import Array
from ...graph_ir.ir.logical_tensor import LogicalTensor
from ..refusals import foreign_ops
from ..shape_spec import InputSpecs, check_names
from .document import Dump, DumpGraph, GraphName, Node, TensorText
from .liveness import live_nodes
from .printer import print_value

_CONSTANTS = ("Const", "Constant")
_STATES = ("Variable", "RefData")


@dataclass(frozen=True)
class Completed:
    """`inputs` in argument order; `constants` the caller gave, by (graph name, node name)."""

    inputs: tuple[tuple[Node, LogicalTensor], ...]
    constants: Mapping[tuple[str, str], Array]


def is_source(node: Node) -> bool:
    """Return whether the node's value comes from the file or the caller."""
    return node.type in (*_CONSTANTS, *_STATES, "Data")


def data_index(node: Node) -> int:
    """Return the argument number of a Data node."""
    value = node.attrs.get("index", 0)
    return value if isinstance(value, int) else 0


def complete(
    dump: Dump, specs: InputSpecs, constants: Mapping[str, Any], supported: set[str]
) -> Completed:
    """The inputs with their types, and the constants by node.

    Raise UnsupportedError for all ops not in `supported`, UserError for names that do not exist and, in one message,
    for everything still missing.
    """
    used = list(_used_graphs(dump))
    _check_supported(dump, used, supported)
    nodes = {
        (graph.name, node.name): node
        for graph in used
        for node in graph.nodes
        if is_source(node) and node.type != "Data"
    }
    given = _given_constants(dump, nodes, constants)
    inputs = [node for node in dump.main.nodes if node.type == "Data"]
    inputs.sort(key=data_index)
    # Nodes without a value in the text may become inputs of the model instead.
    inputs += [node for node in _open(dump.main, given) if node.name in specs]
    names = [node.name for node in inputs]
    check_names(dump.label, "input", specs, names)
    _check_missing(dump, used, inputs, specs, given)
    typed = tuple((n, LogicalTensor(specs[n.name].dtype, specs[n.name].dims)) for n in inputs)
    return Completed(typed, given)


def _used_graphs(dump: Dump) -> Iterator[DumpGraph]:
    """The main graph and the graphs that its live nodes name, each once."""
    pending, seen = [dump.main.name], set()
    by_name = {graph.name: graph for graph in dump.graphs}
    while pending:
        name = pending.pop()
        if name in seen:
            continue
        seen.add(name)
        yield by_name[name]
        for node in live_nodes(by_name[name]):
            pending += [v.name for v in node.attrs.values() if isinstance(v, GraphName)]


def _check_supported(dump: Dump, used: list[DumpGraph], supported: set[str]) -> None:
    unknown = Counter(
        node.type
        for graph in used
        for node in live_nodes(graph)
        if node.type not in supported and not is_source(node)
    )
    if unknown:
        raise foreign_ops(dump.label, unknown)


def _given_constants(
    dump: Dump, nodes: Mapping[tuple[str, str], Node], constants: Mapping[str, Any]
) -> dict[tuple[str, str], Array]:
    """The caller's arrays by node: `node` in the main graph or in the only graph that has it, else `graph/node`."""
    given: dict[tuple[str, str], Array] = {}
    for name, value in constants.items():
        found = [key for key in nodes if f"{key[0]}/{key[1]}" == name]
        found = found or [key for key in nodes if key == (dump.main.name, name)]
        found = found or [key for key in nodes if key[1] == name]
        if len(found) != 1:
            known = ", ".join(f"'{_shown(dump, *key)}'" for key in list(nodes)[:20]) or "none"
            what = "more than one constant" if found else "no constant"
            raise UserError(f"{dump.label}: there is {what} '{name}'; its constants are {known}")
        array = np.asarray(value)
        try:
            from_numpy(array.dtype)
        except UserError as error:
            raise UserError(f"{dump.label}: constant '{name}': {error}") from error
        given[found[0]] = array
    return given


def _shown(dump: Dump, graph: str, node: str) -> str:
    return node if graph == dump.main.name else f"{graph}/{node}"


def _open(graph: DumpGraph, given: Mapping[tuple[str, str], Array]) -> list[Node]:
    """Live constants and variables of a graph without a value."""
    return [
        node
        for node in live_nodes(graph)
        if node.type in (*_CONSTANTS, *_STATES)
        and (graph.name, node.name) not in given
        and not _has_value(node)
    ]


def _has_value(node: Node) -> bool:
    value = node.attrs.get("value")
    if isinstance(value, TensorText):
        return not value.missing
    return isinstance(value, (bool, int, float))


def _check_missing(
    dump: Dump,
    used: list[DumpGraph],
    inputs: list[Node],
    specs: InputSpecs,
    given: Mapping[tuple[str, str], Array],
) -> None:
    shapes = [node.name for node in inputs if node.name not in specs]
    values = [
        (_shown(dump, graph.name, node.name), node)
        for graph in used
        for node in _open(graph, given)
        if not (graph is dump.main and node.name in specs)
    ]
    if not shapes and not values:
        return
    wanted, remedies = [], []
    if shapes:
        wanted.append("dtype and shape of " + ", ".join(f"'{name}'" for name in shapes))
        remedies += [f"--input '{name}=f32[...]'" for name in shapes]
    if values:
        texts = [f"'{name}' ({_reason(node)})" for name, node in values]
        wanted.append("the values of " + ", ".join(texts))
        remedies += [f"--constant '{name}=@file.npy'" for name, _ in values]
    raise UserError(
        f"{dump.label}: a readable dump does not hold {' and '.join(wanted)}; say {' '.join(remedies)}"
    )


def _reason(node: Node) -> str:
    value = node.attrs.get("value")
    return f"a {node.type} without value" if value is None else print_value(value)
