"""Compiling is work in proportion to the model: no function of the compiler has more than its share in a larger one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest

from graphc.base.dtypes import F32
from graphc.base.options import CompileOptions
from graphc.driver.compiler import compile_stages
from graphc.graph_ir.ir.graph import Graph, GraphTensor
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from support.work import lines_run, superlinear

UNARY = ("relu", "tanh", "abs", "neg", "sigmoid")
FEW, TIMES = 100, 4


def start(name: str) -> tuple[Graph, GraphTensor]:
    graph = Graph(name)
    return graph, graph.make_input(LogicalTensor(F32, (4, 16)), "x")


def elementwise_chain(n: int) -> Graph:
    graph, x = start("elementwise")
    for i in range(n * 3):  # a group has a cap that a shorter chain would not reach
        x = graph.make(UNARY[i % 5], [x]).outputs[0]
    graph.make_output(x)
    return graph


def matmuls(n: int) -> Graph:
    graph, x = start("matmuls")
    rng = np.random.default_rng(0)
    for _ in range(n):
        weights = graph.make_constant(rng.standard_normal((16, 16)).astype(np.float32))
        x = graph.make("matmul_core", [x, weights]).outputs[0]
    graph.make_output(x)
    return graph


def residuals(n: int) -> Graph:
    """Blocks that share one weight, which then has many users."""
    graph, x = start("residuals")
    weights = graph.make_constant(np.eye(16, dtype=np.float32), "w")
    for _ in range(n // 2):
        y = graph.make("matmul_core", [x, weights]).outputs[0]
        y = graph.make("softmax", [graph.make("relu", [y]).outputs[0]], {"axis": -1}).outputs[0]
        x = graph.make("add", [x, y]).outputs[0]
    graph.make_output(x)
    return graph


def many_results(n: int) -> Graph:
    """Ops that all read one input, summed pairwise."""
    graph, x = start("wide")
    level = []
    for i in range(n):
        scaled = graph.make("mul", [x, graph.make_constant(np.float32(i + 1))]).outputs[0]
        level.append(graph.make(UNARY[i % 5], [scaled]).outputs[0])
    while len(level) > 1:
        pairs = zip(level[::2], level[1::2], strict=False)
        odd = level[len(level) & ~1 :]
        level = [graph.make("add", list(pair)).outputs[0] for pair in pairs] + odd
    graph.make_output(level[0])
    return graph


def compile_lines(make: Callable[[int], Graph], n: int) -> Counter[str]:
    graph = make(n)
    return lines_run(lambda: compile_stages(graph, "avx2", CompileOptions(verify=False)).lowered)


@pytest.mark.exhaustive
@pytest.mark.parametrize("make", [elementwise_chain, matmuls, residuals, many_results])
def test_no_function_does_more_than_its_share(make: Callable[[int], Graph]) -> None:
    compile_stages(make(8), "avx2")  # what is computed once per process is not a share of a model
    small, large = compile_lines(make, FEW), compile_lines(make, FEW * TIMES)
    assert superlinear(small, large, times=1.5 * TIMES, least=2000) == []
