"""Matmuls whose number of rows is known at run time: every number of rows, with numbers as the reference."""

from __future__ import annotations

import numpy as np
import pytest

from graphc import Graph
from graphc.base.dims import Symbol, size
from graphc.base.dtypes import F32
from graphc.base.options import CompileOptions
from graphc.graph_ir.ir.format import Format, plain
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.lowering.registry import get_func
from graphc.graph_ir.schedule.context import LowerContext
from graphc.targets.isa import Target
from graphc.tensor_ir import interpreter, pipeline
from graphc.tensor_ir.nodes import Brgemm
from graphc.tensor_ir.verifier import verify
from graphc.tensor_ir.visitor import walk_statements

N = size(Symbol("N", 1, 600))


SEVERAL = (1, 24, 25, 85, 87)
"""Less than a tile, tiles of each remainder, and more than one share of several threads."""


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("transposed", "threads", "counts"),
    [(False, 1, (*range(1, 26), 40)), (True, 1, SEVERAL), (False, 3, SEVERAL), (True, 3, SEVERAL)],
    ids=["every", "transposed", "threads", "transposed-threads"],
)
@pytest.mark.parametrize("isa", ["avx2", "avx512"])
def test_every_number_of_rows(
    isa: str, transposed: bool, threads: int, counts: tuple[int, ...]
) -> None:
    """B is copied into panels, because it is not a constant; its last panel is narrow. Threads share what has
    several tiles."""
    graph = Graph("matmul")
    a = graph.make_input(LogicalTensor(F32, (N, 5)), "a")
    b = graph.make_input(LogicalTensor(F32, (37, 5) if transposed else (5, 37)), "b")
    y = graph.make("matmul_core", [a, b], {"transpose_b": transposed}).outputs[0]
    target = Target(isa, features="+avx2,+fma" if isa == "avx2" else "+avx512f,+fma")
    module = get_func(y.producer_owner, LowerContext(target, CompileOptions(threads=threads)))
    final = verify(pipeline.run(verify(module), target), "final")
    random = np.random.default_rng(0)
    for rows in counts:
        left = random.integers(-4, 5, (rows, 5)).astype(np.float32)
        right = random.integers(-4, 5, (37, 5)).astype(np.float32)
        wanted = left @ right.T
        given = right if transposed else np.ascontiguousarray(right.T)
        for one in (module, final):
            result = np.full((rows, 37), np.nan, np.float32)
            name = one.functions[-1].name
            interpreter.run(one, name, [left, given, result, rows])
            np.testing.assert_array_equal(result, wanted)


def test_few_rows_do_not_fetch_ahead() -> None:
    """With two rows memory is busy all the time, and hints for the next panel took a seventh of it."""
    graph = Graph("matmul")
    a = graph.make_input(LogicalTensor(F32, (N, 512)), "a")
    panels = Format(plain(2).axes, (1, 0, 1), (0, 0, 32))
    b = graph.make_input(LogicalTensor(F32, (512, 1024), panels), "b")
    result = graph.make("matmul_core", [a, b]).outputs[0]
    module = get_func(result.producer_owner, LowerContext(Target("avx512", l2_bytes=1 << 20)))
    nests = [s for s in walk_statements(module.functions[-1].body) if isinstance(s, Brgemm)]
    assert {s.m for s in nests if s.prefetch} == set(range(6, 12))
    assert [s.m for s in nests if s.tile_rows == 2] == [2, 1]
