"""Writes a graph as a readable dump. The text is lossy by design: it omits input shapes and long constants."""

from __future__ import annotations

from ...graph_ir.ir.graph import Array, Graph
from .document import Dump
from .dump_builder import DumpBuilder, expressed
from .op_table import WRITERS
from .printer import print_ge


def write_ge(graph: Graph, *, full: bool = False) -> str:
    """Text of a graph as a GE readable dump. `full`: constants are not elided, though floats keep 6 decimals.

    With `dump_constants` and the types of the inputs, `load_ge` gives the graph back. UnsupportedError names all ops
    that GE has no node for.
    """
    return print_ge(to_dump(graph), full=full)


def to_dump(graph: Graph) -> Dump:
    """The dump of a graph, before it is printed."""
    return _build(graph).dump()


def dump_constants(graph: Graph) -> dict[str, Array]:
    """The exact values of the constants of the dump of a graph, by node name: what `load_ge` takes as `constants`."""
    return _build(graph).constants


def _build(graph: Graph) -> DumpBuilder:
    builder = DumpBuilder(expressed(graph), WRITERS)
    builder.write_ops(builder.graph)
    builder.finish()
    return builder
