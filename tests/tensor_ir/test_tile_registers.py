"""A Brgemm on two-dimensional registers: what it computes, expanded and native, and the code of its inner loop."""

from __future__ import annotations

import re

import numpy as np
import pytest

from graphc.base.dtypes import F32, S32
from graphc.codegen.aot import assembly
from graphc.codegen.host import host_has, target_for
from graphc.codegen.module import emit_module
from graphc.runtime.native import runs_tiles
from graphc.targets.isa import ISAS, Microkernel, Target
from graphc.tensor_ir import builder as t
from graphc.tensor_ir import interpreter, pipeline
from graphc.tensor_ir.nodes import Buffer, Epilogue, Module, Var
from graphc.tensor_ir.parser import parse_module
from graphc.tensor_ir.printer import print_module
from graphc.tensor_ir.verifier import verify
from graphc.tensor_ir.without_tiles import without_tiles
from support.native_functions import NativeModule

ROWS = [row for row in ISAS["amx"].microkernels if row.uses_tiles]
IDS = [row.multiply for row in ROWS]
TARGET = Target("amx", features="+avx512vnni,+avx512bf16,+amx-tile,+amx-int8,+amx-bf16,+amx-fp16")

Sizes = tuple[int, int, int, int]
SIZES: list[Sizes] = [(1, 16, 4, 1), (5, 20, 70, 5), (33, 17, 64, 16), (27, 32, 100, 14)]
"""(rows, columns, k, rows of a register)."""


def matmul(
    kernel: Microkernel, sizes: Sizes, accumulate: bool = False, dynamic: bool = False, gap: int = 0
) -> Module:
    """C = A x B, doubled by an epilogue unless C holds sums; rows may lie before A, zeros behind its last k.

    `gap`: rows of A between those of two registers.
    """
    m, n, k, rows = sizes
    group, acc = kernel.k_group, kernel.accumulator
    depth, width = kernel.padded_groups(k) * group, -(-n // 16) * 16
    a = Buffer("a", kernel.a, ((rows + m + gap * (m // rows)) * depth,))
    b = Buffer("b", kernel.b, (depth * width,))
    c = Buffer("c", acc, ((rows + m) * width,))
    row, col, total, count = Var("row"), Var("col"), Var("total", acc), Var("size_m")
    brgemm = t.brgemm(
        t.slice_of(c, (rows * width,)), t.slice_of(a, (rows * depth,)), t.slice_of(b),
        count if dynamic else m, n, k, 1, 0,
        depth, 1, 0, width * group, width, accumulate, width,
        None if accumulate else Epilogue(row, col, total, total + total),
        t.minimum(count, 16) if dynamic else rows, (), group, kernel.multiply,
        (rows + gap) * depth if gap else 0,
    )  # fmt: skip
    body = t.LoopBuilder()
    body.emit(brgemm)
    return Module((body.function("gemm", (a, b, c, *([count] if dynamic else []))),))


def operands(kernel: Microkernel, module: Module, k: int) -> list[np.ndarray]:
    """Small integers, so that sums of floats are exact; zeros behind the last k."""
    rng = np.random.default_rng(0)
    a, b, c = (p for p in module.functions[0].params if isinstance(p, Buffer))
    low = 0 if kernel.a.name == "u8" else -9
    depth = kernel.padded_groups(k) * kernel.k_group
    made = [
        rng.integers(low, 10, a.shape),
        rng.integers(-9, 10, b.shape),
        rng.integers(-9, 10, c.shape),
    ]
    made[0].reshape(-1, depth)[:, k:] = 0
    panel = made[1].reshape(-1, made[1].size // depth * kernel.k_group)
    for number in range(k, depth):
        panel[number // kernel.k_group, number % kernel.k_group :: kernel.k_group] = 0
    return [x.astype(p.dtype.numpy) for x, p in zip(made, (a, b, c), strict=True)]


def stored(arrays: list, module: Module, sizes: Sizes) -> np.ndarray:
    """C after a run, its rows and columns that are written."""
    m, n, _, rows = sizes
    return arrays[2].reshape(rows + m, -1)[rows:, :n]


def interpreted(module: Module, data: list[np.ndarray], sizes: Sizes) -> np.ndarray:
    arrays = [x.copy() for x in data]
    args = [*arrays, *([sizes[0]] if len(module.functions[0].params) > 3 else [])]
    interpreter.run(module, "gemm", args)
    return stored(arrays, module, sizes)


@pytest.mark.parametrize("kernel", ROWS, ids=IDS)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("accumulate", [False, True], ids=["epilogue", "sums"])
def test_every_stage_computes_the_same(kernel: Microkernel, sizes: Sizes, accumulate: bool) -> None:
    """The definition, its expansion in the interpreter, the version in vectors, and native code where it runs."""
    check_every_stage(kernel, sizes, matmul(kernel, sizes, accumulate))


@pytest.mark.parametrize("kernel", ROWS, ids=IDS)
@pytest.mark.parametrize("sizes", [(42, 32, 64, 14), (10, 17, 70, 5), (16, 16, 64, 16)], ids=str)
def test_registers_of_rows_may_lie_apart(kernel: Microkernel, sizes: Sizes) -> None:
    module = matmul(kernel, sizes, gap=2)
    check_every_stage(kernel, sizes, module)
    m, n, k, rows = sizes
    a, b, c = operands(kernel, module, k)
    depth = kernel.padded_groups(k) * kernel.k_group
    lines = a.reshape(-1, depth)[rows:].reshape(m // rows, rows + 2, depth)[:, :rows]
    whole = matmul(kernel, sizes)
    plain = [np.concatenate([np.zeros((rows, depth), a.dtype), *lines]).reshape(-1), b, c]
    expected = interpreted(whole, plain, sizes)
    np.testing.assert_array_equal(interpreted(module, [a, b, c], sizes), expected)


def check_every_stage(kernel: Microkernel, sizes: Sizes, module: Module) -> None:
    assert parse_module(print_module(verify(module))) == module
    data = operands(kernel, module, sizes[2])
    expected = interpreted(module, data, sizes)
    expanded = pipeline.run(module, TARGET)
    verify(expanded, "final")
    if sizes[2] < 80:
        np.testing.assert_array_equal(interpreted(expanded, data, sizes), expected)
    vectors = pipeline.run(without_tiles(module, TARGET), TARGET)
    np.testing.assert_array_equal(interpreted(vectors, data, sizes), expected)
    if runs_tiles() and host_has(*kernel.needs):
        arrays = [x.copy() for x in data]
        NativeModule(expanded, target_for("amx")).call("gemm", arrays)
        np.testing.assert_array_equal(stored(arrays, module, sizes), expected)


@pytest.mark.parametrize("m", [1, 3, 16, 17, 40])
def test_rows_may_be_known_at_run_time_only(m: int) -> None:
    kernel, sizes = ROWS[0], (m, 20, 64, min(m, 16))
    module = matmul(kernel, sizes, dynamic=True)
    assert parse_module(print_module(verify(module))) == module
    data = operands(kernel, module, 64)
    expected = interpreted(matmul(kernel, sizes), data, sizes)
    expanded = pipeline.run(module, TARGET)
    np.testing.assert_array_equal(interpreted(expanded, data, sizes), expected)
    vectors = pipeline.run(without_tiles(module, TARGET), TARGET)
    np.testing.assert_array_equal(interpreted(vectors, data, sizes), expected)
    if runs_tiles() and host_has(*kernel.needs):
        arrays = [x.copy() for x in data]
        NativeModule(expanded, target_for("amx")).call("gemm", [*arrays, m])
        np.testing.assert_array_equal(stored(arrays, module, sizes), expected)


@pytest.mark.parametrize("kernel", ROWS, ids=IDS)
def test_the_inner_loop_loads_each_operand_once(kernel: Microkernel) -> None:
    """4 loads for 4 multiplications, no register on the stack, one configuration; the epilogue runs beside them."""
    module = pipeline.run(matmul(kernel, (96, 32, 512, 16)), TARGET)
    text = assembly(emit_module(module, TARGET), TARGET)
    last = text.rindex(f"\t{kernel.multiply}")
    loop = text[text.index("\ttileload") : text.index("\tj", text.index("vmov", last))]
    assert loop.count("tileload") == loop.count(kernel.multiply) == 4
    assert not re.search(r"tile\w+.*[sb]p", loop)
    assert text.index("\ttilestore") > last
    assert text.count("ldtilecfg") == text.count("tilerelease") == 1


def test_sums_have_the_accumulator_dtype() -> None:
    assert {row.accumulator for row in ROWS} == {S32, F32}
