"""Rows of experts on every ISA: runs of any length, rows of no expert, whole and ragged panels, two threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphc.base.dims import Symbol, size
from graphc.base.dtypes import F32, F64, S64, DType
from graphc.base.options import CompileOptions
from graphc.codegen.host import host_supports, target_for
from graphc.driver.compiler import compile as compile_model
from graphc.graph_ir.ir.graph import Array, Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.schedule.context import LowerContext
from graphc.tools.fuzz.guarded import guarded, guarded_copy
from support.lowered import check_interpreted
from support.packed_matmul import check_between_guard_pages, packed_matmul

ISAS = [isa for isa in ("avx512", "avx2", "generic") if host_supports(isa)]

SIZES = [
    (1, 64, 64, 4, 32, False, True), (12, 37, 96, 4, 32, True, False), (7, 100, 64, 8, 16, False, False),
    (9, 50, 128, 4, 64, True, True), (21, 77, 640, 4, 32, False, False), (33, 20, 64, 8, 16, True, True),
]  # fmt: skip


@pytest.mark.exhaustive
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("is_dynamic", [False, True])
@pytest.mark.parametrize("sizes", SIZES, ids=lambda s: "x".join(map(str, s[:5])))
def test_rows_of_experts(sizes: tuple[Any, ...], is_dynamic: bool, isa: str) -> None:
    """In runs of any length and order; a row of no expert is that of zeros."""
    rows = size(Symbol("M", 0, 40)) if is_dynamic else None
    static, arrays = packed_matmul(*sizes, experts=3)
    (wanted,) = static.evaluate(arrays)
    graph, _ = packed_matmul(*sizes, rows=rows, experts=3)
    for threads in (1, 2):
        model = compile_model(graph, target=isa, threads=threads, cache=False)
        check_between_guard_pages(model, arrays, wanted)
        if is_dynamic:
            assert model(*(x[:0] for x in arrays)).shape == (0, sizes[1])


@pytest.mark.parametrize("of_bytes", [False, True])
@pytest.mark.parametrize("isa", ["amx", "avx512", "avx2", "generic"])
def test_programs_of_every_target_interpreted(isa: str, of_bytes: bool) -> None:
    """Also those that this CPU cannot run: dot products of four bytes, and tiles of bytes and bf16."""
    graph, _ = packed_matmul(24, 20, 64, 4, 32, of_bytes, experts=3)
    check_interpreted(graph, LowerContext(target_for(isa), CompileOptions(2)))


FLOATS: tuple[tuple[tuple[int, ...], list[int]], ...] = (
    ((3, 2, 5, 64), [0] * 17 + [2] * 12 + [9] * 2),
    ((2, 1, 7, 20), [0] * 8),
    ((3, 2, 1, 1), [1, 1, -3, 2, 1]),
    ((2, 3, 4, 16), [1]),
    ((0, 2, 3, 8), [0, 1]),
    ((4, 2, 3, 8), []),
)
"""Panels of `grouped_matmul`, and the experts of rows."""


def floats(dtype: DType) -> tuple[Graph, list[Array]]:
    """A graph of every case."""
    graph, arrays, rng = Graph("experts"), list[Array](), np.random.default_rng(6)
    for panels, expert in FLOATS:
        rows = rng.standard_normal((len(expert), panels[2])), rng.standard_normal(panels)
        given = [*(x.astype(dtype.numpy) for x in rows), np.array(expert, np.int64)]
        inputs = [
            graph.make_input(LogicalTensor(kind, x.shape), f"x{len(arrays) + i}")
            for i, (kind, x) in enumerate(zip((dtype, dtype, S64), given, strict=True))
        ]
        arrays += given
        graph.make_output(graph.make("grouped_matmul", inputs).outputs[0])
    return graph, arrays


@pytest.mark.exhaustive
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
def test_floats_between_guard_pages(dtype: DType, isa: str) -> None:
    graph, arrays = floats(dtype)
    expected = graph.evaluate(arrays)
    inputs = {f"x{i}": guarded_copy(a, "end") for i, a in enumerate(arrays)}
    outputs = [guarded(y.shape, y.dtype, "end") for y in expected]
    compile_model(graph, target=isa, threads=1).bind(inputs, outputs)()
    for result, wanted in zip(outputs, expected, strict=True):
        np.testing.assert_allclose(result, wanted, atol=1e-5 if dtype == F32 else 1e-12)


def test_floats_on_two_threads_are_the_same_bits() -> None:
    rng = np.random.default_rng(8)
    graph, expert = Graph("experts"), np.repeat([0, 1, 2, 3], [40, 1, 49, 10])
    weights = rng.standard_normal((3, 8, 96, 64), dtype=np.float32)
    a = graph.make_input(LogicalTensor(F32, (100, 96)), "a")
    at = graph.make_input(LogicalTensor(S64, (100,)), "expert")
    operands = [a, graph.make_constant(weights, "b"), at]
    graph.make_output(graph.make("grouped_matmul", operands).outputs[0])
    x = rng.standard_normal((100, 96), dtype=np.float32)
    one, two = (compile_model(graph, threads=n)(x, expert) for n in (1, 2))
    np.testing.assert_array_equal(one, two)
    np.testing.assert_allclose(one, graph.evaluate([x, expert])[0], atol=1e-4)
