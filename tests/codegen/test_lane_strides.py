"""Vectors of indices with a constant step, and the loads that take their elements out of whole vectors."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from graphc.base.dtypes import BOOL, F16, F32, F64, S8, DType
from graphc.codegen.aot import assembly
from graphc.codegen.host import target_for
from graphc.codegen.lane_strides import MAX_STRIDE, lane_stride
from graphc.codegen.module import emit_module
from graphc.tensor_ir import builder as t
from graphc.tensor_ir.nodes import (
    Binary,
    Broadcast,
    Buffer,
    Expr,
    Function,
    Load,
    Module,
    Ramp,
    Var,
)
from support.native_functions import SHAPES, NativeModule, runnable_target

TYPES = (F64, F32, F16, S8, BOOL)
I = Var("i")  # noqa: E741 - an index


def strided(base: Expr, stride: int, lanes: int) -> Expr:
    steps = Binary("mul", Ramp(t.ZERO, lanes), Broadcast(t.as_expr(stride), lanes))
    return Binary("add", steps, Broadcast(base, lanes))


def test_steps_are_found() -> None:
    assert lane_stride(Ramp(I, 4)) == (1, I)
    assert lane_stride(Broadcast(I, 4)) == (0, I)
    assert lane_stride(strided(I, 3, 4)) == (3, I)
    swapped = Binary("mul", Broadcast(t.as_expr(2), 4), Ramp(I, 4))
    assert lane_stride(swapped) == (2, I * 2)
    assert lane_stride(Binary("mul", Ramp(I, 4), Broadcast(I, 4))) is None
    assert lane_stride(Binary("mul", Ramp(I, 4), Ramp(I, 4))) is None
    assert lane_stride(Binary("div", Ramp(I, 4), Broadcast(t.as_expr(2), 4))) is None
    assert lane_stride(Var("v", lanes=4)) is None


def picked(dtype: DType, lanes: int, active: int, stride: int) -> Function:
    """out[:lanes] = the first `active` of the elements `stride` apart, and zeros; nothing behind the last is read."""
    source = Buffer("source", dtype, ((active - 1) * stride + 1,))
    out = Buffer("out", dtype, (lanes,))
    b = t.LoopBuilder()
    b.store(out, (0,), Load(source, (strided(t.as_expr(0), stride, lanes),), lanes, active))
    return b.function(f"picked_{dtype}_{active}_{stride}", (source, out))


def counts(lanes: int) -> list[int]:
    return sorted(
        {1, 2, 3, lanes // 2, lanes // 2 + 1, lanes - 1, lanes} & set(range(1, lanes + 1))
    )


@cache
def module(shape: str) -> NativeModule:
    functions = [
        picked(dtype, lanes, active, stride)
        for dtype in TYPES
        for lanes in [min(16, runnable_target(shape).lanes(dtype))]
        for active in counts(lanes)
        for stride in range(2, MAX_STRIDE + 2)
    ]
    return NativeModule(Module(tuple(functions)), runnable_target(shape))


@pytest.mark.exhaustive
@pytest.mark.parametrize("at", ["start", "end"])
@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES)
def test_elements_apart(shape: str, dtype: DType, at: str) -> None:
    native = module(shape)
    lanes = min(16, runnable_target(shape).lanes(dtype))
    for active in counts(lanes):
        for stride in range(2, MAX_STRIDE + 2):
            count = (active - 1) * stride + 1
            source = np.arange(1, count + 1)
            source = (source % 2 == 1) if dtype == BOOL else (source % 100).astype(dtype.numpy)
            out = np.zeros(lanes, dtype.numpy)
            native.check(f"picked_{dtype}_{active}_{stride}", [source, out], at)  # type: ignore[arg-type]


@pytest.mark.isa("avx2")
def test_no_gathers() -> None:
    source, out = Buffer("source", F32, (256,)), Buffer("out", F32, (64,))
    b = t.LoopBuilder()
    for stride in (2, 3, 4):
        at = strided(t.as_expr(0), stride, 8)
        b.store(out, (8 * stride,), Load(source, (at,), 8))
    text = assembly(
        emit_module(Module((b.function("f", (source, out)),)), target_for("avx2")),
        target_for("avx2"),
    )
    assert "gather" not in text
