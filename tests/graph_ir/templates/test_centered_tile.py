"""Sums of bytes in 16 bits: exact for the largest levels, bytes and scales, for any number of rows."""

from __future__ import annotations

import re

import numpy as np
import pytest

from graphc.base.dims import Size, Symbol, size
from graphc.base.dtypes import F32, S8
from graphc.base.options import CompileOptions
from graphc.base.packed_words import LOW_BITS, packed_words
from graphc.codegen.aot import assembly
from graphc.codegen.host import host_supports
from graphc.driver.compiler import compile as compile_model
from graphc.driver.compiler import compile_stages
from graphc.graph_ir.ir.graph import Array, Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.ops.matmul_nbits import MatmulNBits
from graphc.graph_ir.passes import pipeline
from graphc.graph_ir.rewriting.kernel_group import group_of
from graphc.graph_ir.schedule.byte_pairs import fits_centered
from graphc.graph_ir.schedule.context import LowerContext
from graphc.graph_ir.schedule.matmul_nbits import few_schedules
from graphc.targets.isa import Target

AVX2 = Target("avx2", "x86-64-v3", "+avx2,+fma")
VNNI = Target("avx512", features="+avx512vnni")
K, GROUP = 64, 32


def centered_matmul(
    bits: int,
    levels: Array,
    scales: Array | None,
    x: Array,
    zero: int | None = None,
    is_dynamic: bool = False,
) -> tuple[Graph, list[Array]]:
    """Return a matmul of s8 rows, with integer scales of 16 weights or the scale 1 of 32, and its inputs."""
    middle = 1 << bits - 1 if zero is None else zero
    m: Size = size(Symbol("T", 1, 512)) if is_dynamic else len(x)
    k, low, graph = x.shape[1], LOW_BITS[bits], Graph("centered")
    arrays = [packed_words(levels & (1 << low) - 1, low)]
    group = GROUP if scales is None else k // scales.shape[1]
    ones = np.ones((len(levels), k // GROUP), np.float32)
    arrays.append(ones if scales is None else scales)
    arrays.append(np.full((1, 1), middle, np.float32))
    names = []
    if bits > low:
        names, arrays = ["high"], [*arrays, packed_words(levels >> low, bits - low)]
    if scales is not None:
        names.append("block_scale")
        arrays.append(np.ones((len(levels), 1), np.float16))
    factors = np.ones((len(x), k // GROUP), np.float32)
    operands = [
        graph.make_input(LogicalTensor(S8, (m, k)), "x"), *map(graph.make_constant, arrays),
        graph.make_input(LogicalTensor(F32, (m, k // GROUP)), "x_scale"),
    ]  # fmt: skip
    attrs = {"bits": bits, "group": group, "parts": ",".join([*names, "x_scale"]), "zero": middle}
    graph.make_output(graph.make("matmul_nbits", operands, attrs, "y").outputs[0])
    return graph, [x, factors]


def extreme_rows(m: int) -> Array:
    """Return rows of -127, of 127, and of both."""
    x = np.full((m, K), -127, np.int8)
    x[1::3] = 127
    x[2::3, ::3] = 127
    return x


@pytest.mark.parametrize("isa", [x for x in ("avx512", "avx2", "generic") if host_supports(x)])
@pytest.mark.parametrize("bits", [2, 3, 4, 5, 6])
def test_largest_sums_of_one_scale_are_exact(bits: int, isa: str) -> None:
    levels = np.zeros((20, K), np.int64)
    levels[::2] = (1 << bits) - 1
    levels[2, ::2] = 0
    for m in (1, 3, 8, 14):
        x = extreme_rows(m)
        graph, arrays = centered_matmul(bits, levels, None, x)
        found = compile_model(graph, target=isa, threads=1, cache=False)(*arrays)
        np.testing.assert_array_equal(found, x.astype(np.int64) @ (levels - (1 << bits - 1)).T)


@pytest.mark.parametrize("isa", [x for x in ("avx512", "avx2", "generic") if host_supports(x)])
@pytest.mark.parametrize("bits", [3, 6])
def test_largest_sums_times_integer_scales_are_exact(bits: int, isa: str) -> None:
    random = np.random.default_rng(0)
    levels = random.choice([0, (1 << bits) - 1], (20, K))
    levels[:2] = [[0], [(1 << bits) - 1]]
    scales = random.choice([-128, -1, 0, 127], (20, K // 16)).astype(np.int8)
    scales[:2] = -128
    for m in (1, 3, 8, 14):
        x = extreme_rows(m)
        graph, arrays = centered_matmul(bits, levels, scales, x)
        wanted = x.astype(np.int64) @ ((levels - (1 << bits - 1)) * np.repeat(scales, 16, 1)).T
        assert np.abs(wanted).max() < 2**25
        found = compile_model(graph, target=isa, threads=1, cache=False)(*arrays)
        np.testing.assert_array_equal(found, wanted.astype(np.float32))


def test_any_number_of_rows_is_exact_and_up_to_four_share_code() -> None:
    random = np.random.default_rng(0)
    levels, x = random.integers(0, 64, (40, K)), random.integers(-127, 128, (14, K)).astype(np.int8)
    scales = random.integers(-128, 128, (40, K // 16)).astype(np.int8)
    graph, (_, factors) = centered_matmul(6, levels, scales, x, is_dynamic=True)
    wanted = x.astype(np.int64) @ ((levels - 32) * np.repeat(scales, 16, 1)).T
    model = compile_model(graph, threads=1, cache=False)
    for m in range(1, 15):
        np.testing.assert_array_equal(model(x[:m], factors[:m]), wanted[:m].astype(np.float32))
    for target, rows in ((AVX2, [[1, 2, 3, 4]]), (VNNI, [[1, 2], *([m] for m in range(3, 9))])):
        ctx = LowerContext(target)
        zeros, row = np.zeros((512, 640), np.int64), np.zeros((1, 640), np.int8)
        planned, _ = centered_matmul(5, zeros, None, row, is_dynamic=True)
        pipeline.run(planned, ctx)
        (op,) = (op for op in planned.ops if isinstance(op, MatmulNBits))
        assert [few for few, _ in few_schedules(op, group_of(op), ctx)] == rows


def test_zero_points_that_are_not_in_the_middle_take_wider_sums() -> None:
    assert fits_centered(5, 16, 32) and fits_centered(6, 32, 16) and fits_centered(4, 0, 32)
    assert not fits_centered(5, 0, 32) and not fits_centered(6, 32, 32)
    assert not fits_centered(8, 128, 4)  # two terms saturate
    levels = np.full((20, K), 31)
    x = np.full((9, K), 127, np.int8)
    graph, arrays = centered_matmul(5, levels, None, x, zero=3)
    found = compile_model(graph, threads=1, cache=False)(*arrays)
    np.testing.assert_array_equal(found, x.astype(np.int64) @ (levels - 3).T)


def test_sums_stay_in_registers() -> None:
    """LLVM would sum terms in pairs and load operands early, which takes 70 spills and 1.3 times as long."""
    graph, _ = centered_matmul(5, np.zeros((16, 640), np.int64), None, np.zeros((64, 640), np.int8))
    compiled = compile_stages(graph, AVX2, CompileOptions(threads=1))
    blocks = re.split(r"^\S+:", assembly(compiled.llvm_ir, AVX2), flags=re.MULTILINE)
    loop = max(blocks, key=lambda text: text.count("vpmaddubsw"))
    assert loop.count("vpmaddubsw") == 80
    assert len(re.findall(r"vmov\w+\t%ymm\d+, [-\d]*\(%rsp\)", loop)) <= 20
