"""quantize: native code and interpreter leave the same integers in all vector shapes, by saturating instructions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from graphc.base.dtypes import F32, S8, S16, S32, U8, U16, DType
from graphc.base.errors import InternalError
from graphc.codegen.aot import assembly
from graphc.codegen.host import target_for
from graphc.codegen.module import emit_module
from graphc.targets.isa import Target
from graphc.tensor_ir import builder as t
from graphc.tensor_ir import interpreter
from graphc.tensor_ir.intrinsics import WIDEST_ZERO
from graphc.tensor_ir.nodes import Buffer, Call, Expr, Function, Module
from graphc.tensor_ir.parser import parse_module
from graphc.tensor_ir.printer import print_module
from graphc.tensor_ir.verifier import verify
from support.native_functions import SHAPES, NativeModule, runnable_target

LANES = (1, 2, 3, 4, 8, 16, 24, 32)
KINDS = [
    (U8, 0),
    (U8, 3),
    (U8, 255),
    (S8, 0),
    (S8, -128),
    (S8, 127),
    (U8, -WIDEST_ZERO),
    (S8, WIDEST_ZERO),
]
KINDS += [(U16, 0), (U16, 65535), (S16, -32768), (S16, 32767)]
X = np.array(
    [np.nan, np.inf, -np.inf, 1e30, -1e30, 2**31, -(2**31), 2**30, 65535.5, 65534.5, 0.5, 1.5, 2.5, -0.5, -1.5, -2.5,
     126.5, 127.5, 128.5, 254.5, 255.5, -127.5, -128.5, -129.5, 0.49999997, -0.0, 32767.5, -32768.5, 40000, -4e4, 7,
     -7],
    np.float32,
)  # fmt: skip


def quantize(dtype: DType, zero: int, lanes: int, active: int | None = None) -> Function:
    """y = quantize(x, zero), of which `active` elements are stored."""
    x, y = Buffer("x", F32, (lanes,)), Buffer("y", dtype, (lanes,))
    body = t.LoopBuilder()
    body.store(y, (0,), _call(t.load(x, (0,), lanes), zero, dtype), active)
    return body.function(f"{dtype}_{abs(zero)}_{active or lanes}", (x, y))


def _call(x: Expr, zero: int, dtype: DType) -> Expr:
    return Call("quantize", (x, t.const(zero, S32, x.lanes)), dtype, x.lanes)


EVERY = Module(tuple(quantize(*kind, lanes) for kind in KINDS for lanes in LANES))


def test_the_module_is_legal_and_prints() -> None:
    assert parse_module(print_module(verify(EVERY))) == EVERY


@pytest.mark.parametrize(("dtype", "zero"), KINDS)
def test_the_meaning(dtype: DType, zero: int) -> None:
    low, high = dtype.limits
    with np.errstate(invalid="ignore"):
        exact = np.clip(np.rint(X.astype(np.float64)) + zero, low, high)
    exact[np.isnan(X) | (X >= 2.0**31)] = low
    y = np.zeros(32, dtype.numpy)
    interpreter.run(EVERY, f"{dtype}_{abs(zero)}_32", [X, y])
    np.testing.assert_array_equal(y, exact.astype(dtype.numpy))


@pytest.mark.parametrize("shape", SHAPES)
def test_same_integers_as_the_interpreter(shape: str) -> None:
    native = NativeModule(EVERY, runnable_target(shape))
    for dtype, zero in KINDS:
        for lanes in LANES:
            for start in range(0, 32, lanes):
                x = np.resize(np.roll(X, -start), lanes)
                native.check(f"{dtype}_{abs(zero)}_{lanes}", [x, np.zeros(lanes, dtype.numpy)])


@pytest.mark.parametrize("shape", SHAPES)
def test_nothing_behind_the_active_elements_is_written(shape: str) -> None:
    lanes = 4 * runnable_target(shape).lanes(F32)
    counts = {1, 2, 3, lanes // 4 - 1, lanes // 4 + 1, lanes // 2, lanes - 1}
    module = Module(tuple(quantize(U8, 3, lanes, active) for active in counts))
    native = NativeModule(module, runnable_target(shape))
    for active in counts:
        native.check(f"u8_3_{active}", [np.resize(X, lanes), np.full(lanes, 77, np.uint8)])


@pytest.mark.parametrize(
    ("isa", "kind", "lanes", "instructions"),
    [
        ("generic", (U8, 0), 16, ["cvtps2dq", "packssdw", "packuswb"]),
        ("avx2", (U8, 0), 16, ["vcvtps2dq", "vpackssdw", "vpackuswb"]),
        ("avx2", (S8, 5), 32, ["vcvtps2dq", "vpackssdw", "vpaddsw", "vpacksswb"]),
        ("avx512", (U8, 0), 16, ["vcvtps2dq", "vpmovusdb"]),
        ("avx512", (S8, 5), 16, ["vcvtps2dq", "vpmovsdb"]),
    ],
)
def test_instructions(
    isa: str, kind: tuple[DType, int], lanes: int, instructions: list[str]
) -> None:
    cpu = {"generic": "x86-64", "avx2": "x86-64-v3", "avx512": "x86-64-v4"}[isa]
    target = replace(Target(isa, cpu), features=target_for(isa).features)
    text = assembly(emit_module(Module((quantize(*kind, lanes),)), target), target)
    assert [name for name in instructions if f"\t{name}\t" not in text] == []
    assert "pshufb" not in text


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (_call(t.const(1.0, F32), WIDEST_ZERO + 1, U8), "adds a literal of at most 131072"),
        (_call(t.const(1.0, F32), 0, S32), "takes f32 and s32 to an integer of 8 or 16 bits"),
        (Call("quantize", (t.const(1.0, F32, 4), t.const(0, S32)), U8, 4), "lanes of quantize do not agree"),
    ],
)  # fmt: skip
def test_what_the_verifier_refuses(call: Expr, message: str) -> None:
    y = Buffer("y", call.dtype, (call.lanes,))
    body = t.LoopBuilder()
    body.store(y, (0,), call)
    with pytest.raises(InternalError, match=message):
        verify(Module((body.function("f", (y,)),)))
