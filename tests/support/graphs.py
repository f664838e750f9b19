"""Graphs from short text, and the check every graph pass goes through."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence

import numpy as np

from graphc.graph_ir.ir.graph import Array, Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.ir.reference import widen
from graphc.graph_ir.ir.verifier import verify
from graphc.graph_ir.schedule.context import LowerContext
from graphc.graph_ir.text.parser import parse_graph
from graphc.graph_ir.text.printer import print_graph
from graphc.targets.isa import Target

CONTEXT = LowerContext(Target("avx2"))
Pass = Callable[[Graph, LowerContext], bool]


def graph_of(body: str) -> Graph:
    """The graph of indented node lines and a return line; `[#users=1]` may be left out."""
    lines = textwrap.dedent(body).strip().splitlines()
    full = [line.replace(" = Node", " : [#users=1] = Node", 1) for line in lines]
    return parse_graph('graph("g"):\n' + "".join(f"  {line}\n" for line in full))


def text_of(graph: Graph) -> str:
    """Return the text that `graph_of` reads: without the graph line, blank lines and user counts."""
    lines = print_graph(graph, full=True).splitlines()[1:]
    return "\n".join(
        line.strip().replace(" : [#users=1] = Node", " = Node") for line in lines if line
    )


def random_input(rng: np.random.Generator, details: LogicalTensor) -> Array:
    """Small integers in any dtype, so that arithmetic is exact."""
    low = -4 if details.dtype.is_signed else 0
    high = 2 if details.dtype.kind == "bool" else 5
    return rng.integers(low, high, details.plain_dims).astype(details.dtype.numpy)


def run_pass(step: Pass, graph: Graph, *, exact: bool = True, inputs: Sequence[Array] = ()) -> bool:
    """Run a pass; the graph must stay legal and mean the same. Returns whether it changed."""
    rng = np.random.default_rng(len(graph.ops))
    arrays = list(inputs) or [random_input(rng, op.outputs[0].details) for op in graph.inputs]
    verify(graph)
    before, hash_before = graph.evaluate(arrays), graph.hash_contents()
    changed = step(graph, CONTEXT)
    verify(graph)
    assert changed == (graph.hash_contents() != hash_before)
    for old, new in zip(before, graph.evaluate(arrays), strict=True):
        assert old.dtype == new.dtype and old.shape == new.shape
        if exact:
            np.testing.assert_array_equal(widen(old), widen(new))
        else:
            np.testing.assert_allclose(old.astype(float), new.astype(float), rtol=1e-5, atol=1e-6)
    return changed


def check_pass(step: Pass, before: str, after: str, *, exact: bool = True) -> None:
    """`before` becomes exactly `after`, the meaning stays, and a second run changes nothing."""
    graph = graph_of(before)
    run_pass(step, graph, exact=exact)
    assert text_of(graph) == textwrap.dedent(after).strip()
    assert not run_pass(step, graph)
