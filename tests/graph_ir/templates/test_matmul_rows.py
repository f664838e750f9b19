"""Products whose number of rows is known when they run: every number of rows, with numbers as the reference."""

from __future__ import annotations

import numpy as np
import pytest

from graphc import Graph
from graphc.base.dims import Symbol, size
from graphc.base.dtypes import F32
from graphc.base.options import CompileOptions
from graphc.base.target import Target
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.lowering.registry import get_func
from graphc.graph_ir.schedule.context import LowerContext
from graphc.tensor_ir import interpreter, pipeline
from graphc.tensor_ir.verifier import verify

N = size(Symbol("N", 1, 600))


SEVERAL = (1, 24, 25, 85, 87)
"""Less than a tile, tiles of each remainder, and more than one share of several threads."""


@pytest.mark.parametrize(
    ("transposed", "threads", "counts"),
    [(False, 1, (*range(1, 26), 40)), (True, 1, SEVERAL), (False, 3, SEVERAL), (True, 3, SEVERAL)],
    ids=["every", "transposed", "threads", "transposed-threads"],
)
@pytest.mark.parametrize("isa", ["avx2", "avx512"])
def test_every_number_of_rows(
    isa: str, transposed: bool, threads: int, counts: tuple[int, ...]
) -> None:
    """B is copied into panels, as it is no constant; its last panel is narrow. Threads share what has several tiles."""
    graph = Graph("product")
    a = graph.make_input(LogicalTensor(F32, (N, 5)), "a")
    b = graph.make_input(LogicalTensor(F32, (37, 5) if transposed else (5, 37)), "b")
    product = graph.make("matmul_core", [a, b], {"transpose_b": transposed}).outputs[0]
    target = Target(isa, features="+avx2,+fma" if isa == "avx2" else "+avx512f,+fma")
    module = get_func(product.producer_owner, LowerContext(target, CompileOptions(threads=threads)))
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
