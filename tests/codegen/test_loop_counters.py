"""Addresses in innermost loops: counters in units that an address scales, and no multiplication."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.base.dtypes import F16, F32, F64, S8, DType
from graphc.codegen.aot import assembly
from graphc.codegen.host import target_for
from graphc.codegen.module import emit_module
from graphc.tensor_ir import builder as t
from graphc.tensor_ir.nodes import Buffer, Function, Module, Var
from support.native_functions import NativeModule, runnable_target

FACTORS = (1, 2, 3, 4, 8, 24, 32, -1, -7, 16)


def strided(dtype: DType, begin: t.Value, end: t.Value, step: int = 1) -> Function:
    """Copies of elements at every factor of the variable, in both arms of a condition and behind it."""
    x, y = Buffer("x", dtype, (2048,)), Buffer("y", dtype, (len(FACTORS), 2048))
    b = t.LoopBuilder()
    with b.loop("r", 0, 3) as r, b.loop("k", begin, end, step=step) as k:
        for row, factor in enumerate(FACTORS):
            index = k * factor + 1000 + r
            with b.when(r < 2):
                b.store(y, (row, index), t.load(x, (index,)))
            b.store(y, (row, index + 1), t.load(x, (index + 1,)))
    return b.function("f", (x, y, Var("low"), Var("high")))


@pytest.mark.parametrize("dtype", [S8, F16, F32, F64], ids=str)
@pytest.mark.parametrize("isa", ["avx2", "generic"])
def test_values_are_those_of_multiplications(isa: str, dtype: DType) -> None:
    low, high = Var("low"), Var("high")
    rng = np.random.default_rng(0)
    for begin, end, step in ((-3, 9, 1), (0, 20, 3), (low, high, 1), (low, high, 7)):
        function = strided(dtype, begin, end, step)
        x = rng.integers(-100, 100, 2048).astype(dtype.numpy)
        y = np.zeros((len(FACTORS), 2048), dtype.numpy)
        module = NativeModule(Module((function,)), runnable_target(isa))
        module.check("f", [x, y, -5, 24])


def test_loops_neither_multiply_nor_shift() -> None:
    target = target_for("avx512")
    text = emit_module(Module((strided(F32, 0, 20),)), target)
    assert (
        " mul i64 %k" not in text and text.count(" = phi i64") == 2 + 6
    )  # 3, 4, 24, 32, -1 and -7
    found = assembly(text, target)
    assert "imul" not in found and "shl" not in found


def test_levels_without_scales_leave_it_to_llvm() -> None:
    text = emit_module(Module((strided(F32, 0, 20),)), target_for("generic"))
    assert text.count(" = phi i64") == 2
