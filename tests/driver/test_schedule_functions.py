"""Schedules as Python functions: the code is that of the same steps as text, and ours from a dozen lines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphc
from graphc import Graph
from graphc.base.dtypes import F32
from graphc.base.errors import UserError
from graphc.driver.compiler import compile_stages, request_of
from graphc.driver.stages import Compilation
from graphc.graph_ir.inspect.nest_steps import contraction_kernel
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.nest.operations import blocks, innermost, matmul_tiles
from graphc.graph_ir.nest.script import Script
from graphc.targets.isa import Target
from graphc.tools.kernel_code import CodeMap

AVX2 = Target("avx2", "x86-64-v3", "+avx2,+fma")
Function = Callable[[Script], object]


def layer(m: int = 128, k: int = 256, n: int = 384) -> Graph:
    rng = np.random.default_rng(0)
    graph = Graph("layer")
    x = graph.make_input(LogicalTensor(F32, (m, k)), "x")
    w = graph.make_constant(rng.integers(-4, 5, (k, n)).astype(np.float32), "w")
    y = graph.make("matmul_core", [x, w], name="fc").outputs[0]
    graph.make_output(graph.make("relu", [y]).outputs[0], "y")
    return graph


def code_of(schedule: Function | str | None, graph: Graph) -> tuple[str, str]:
    """(assembly of the kernel, its schedule)."""
    schedules: Any = {"fc": schedule} if schedule else {}
    compilation = compile_stages(request_of(graph, AVX2, 1, schedules=schedules, cache=False))
    (call,) = compilation.lowered.calls
    code = CodeMap(compilation.lowered, AVX2).of(call.kernel, ("asm",)).texts["asm"]
    (text,) = [str(op.schedule) for op in compilation.graph.ops if op.schedule]
    return code, text


def mine(nest: Script) -> None:
    m, n, k = nest.loop("m"), nest.loop("n"), nest.loop("k")
    nest.split(n, 24).split(m, 128).split(k, 256)
    nest.reorder(m.outer, k.outer, n.outer, m.inner, n.inner, k.inner)
    nest.stage("B", "root", "panels")
    nest.tensorize("4x3", m.inner, n.inner, k.inner)
    nest.prefetch("B", 4)


def test_a_naive_matmul_reaches_the_code_of_the_built_in_kernel() -> None:
    """From the definition in seven lines: the same instructions."""
    graph = layer()
    ours, text = code_of(None, graph)
    theirs, steps = code_of(mine, graph)
    assert theirs == ours, (text, steps)


def test_operations_are_functions_of_the_transformations() -> None:
    graph = layer(100, 64, 72)

    def by_library(nest: Script) -> None:
        matmul_tiles(nest, "4x3", columns=24, rows=20)

    def by_hand(nest: Script) -> None:
        m, n = blocks(nest, ("m", 20), ("n", 24))
        innermost(nest, m.script.loop("m").inner, n.script.loop("n").inner, "k")
        nest.apply(lambda x: x.stage("B", "root", "panels")).tensorize("4x3", "m1", "n1", "k")

    for function in (by_library, by_hand):
        model = graphc.compile(graph, target=AVX2, schedules={"fc": function}, threads=1)
        a = np.random.default_rng(1).integers(-4, 5, (100, 64)).astype(np.float32)
        assert np.array_equal(model(a), graph.evaluate([a])[0])


def script() -> Script:
    compilation: Compilation = compile_stages(request_of(layer(100, 64, 72), AVX2, 1, cache=False))
    (op,) = [op for op in compilation.graph.ops if op.schedule]
    kernel = contraction_kernel(op, compilation.request.context)
    assert kernel is not None
    return Script(kernel.nest)


def test_references_survive_transformations() -> None:
    nest = script()
    m, k = nest.loop("m"), nest.loop("k")
    assert (m.name, m.extent, m.outer, m.inner) == ("m", 100, m, m)
    nest.split(m, 40, 8).reorder("k", "n")
    assert [part.name for part in m.parts] == ["m0", "m1", "m2"]
    assert (m.name, m.extent, m.inner.extent) == ("m0", 3, 8)
    nest.split(m.inner, 4).chunk(m, 2)
    assert [x.name for x in m.parts] == ["m0", "m1", "m20", "m21"] and m.inner.axis == "m"
    assert [x.name for x in nest.loops][0] == "m0_chunk" and k.name == "k"
    assert nest.text.startswith("split m 40 8; reorder m0 m1 m2 k n; split m2 4; chunk m0 2")
    assert "split m 40 8" in nest._repr_html_()


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(UserError, match="there is no loop 'q'"):
        script().loop("q")
    with pytest.raises(UserError, match="each dividing the one before"):
        script().split("m", 7, 3)
    with pytest.raises(UserError, match="must transform the nest"):
        request_of(layer(), AVX2, 1, schedules={"fc": lambda nest: None})
    with pytest.raises(UserError, match="no kernel is one by this name"):
        request_of(layer(), AVX2, 1, schedules={"other": mine})


@pytest.mark.parametrize("schedule", [None, 5, b"split n 24", ["split n 24"]])
def test_other_objects_are_refused(schedule: Any) -> None:
    with pytest.raises(UserError, match="schedule of 'fc': it must be a text or a function, got"):
        request_of(layer(), AVX2, 1, schedules={"fc": schedule})
