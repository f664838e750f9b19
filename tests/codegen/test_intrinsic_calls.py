"""Intrinsics: fma, horizontal reductions, vector math and its fallbacks."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from graphc.base.dtypes import BF16, BOOL, F16, F32, F64, S8, S16, S32, U8, U16, U64, USUAL, DType
from graphc.base.errors import InternalError
from graphc.codegen.module import emit_module
from graphc.tensor_ir import builder as t
from graphc.tensor_ir.intrinsics import INTRINSICS
from graphc.tensor_ir.nodes import Buffer, Function, Module
from graphc.tensor_ir.parser import parse_module
from graphc.tensor_ir.printer import print_module
from graphc.tensor_ir.verifier import verify
from support.native_functions import SHAPES, NativeModule, assert_same, runnable_target
from support.tolerance import assert_close

REDUCTIONS = ("add", "mul", "min", "max", "and", "or")
TERNARY = "fma"
MATH_NAMES = [
    name for name, i in INTRINSICS.items() if i.float_only and name != TERNARY and not i.index
]


def reductions_of(dtype: DType) -> tuple[str, ...]:
    if dtype == BOOL:
        return ("min", "max", "and", "or")
    return REDUCTIONS[:4] if dtype.is_float else REDUCTIONS


def reduction(op: str, dtype: DType, lanes: int) -> Function:
    a, out = Buffer("a", dtype, (lanes,)), Buffer("out", dtype, (1,))
    b = t.LoopBuilder()
    b.store(out, (0,), t.call(f"reduce_{op}", t.load(a, (0,), lanes)))
    return b.function(f"{op}_{dtype}_{lanes}", (a, out))


def lane_counts(shape: str, dtype: DType) -> tuple[int, ...]:
    return (1, 2, 3, runnable_target(shape).lanes(dtype))


@cache
def reduction_module(shape: str) -> NativeModule:
    functions = {
        f.name: f
        for dtype in USUAL
        for lanes in lane_counts(shape, dtype)
        for op in reductions_of(dtype)
        for f in [reduction(op, dtype, lanes)]
    }
    return NativeModule(Module(tuple(functions.values())), runnable_target(shape))


@pytest.mark.exhaustive
@pytest.mark.parametrize("shape", SHAPES)
def test_reductions_of_integers_and_bool(shape: str, rng: np.random.Generator) -> None:
    for dtype in [d for d in USUAL if not d.is_float]:
        for lanes in lane_counts(shape, dtype):
            raw = rng.integers(0, 256, (4, lanes * dtype.size), dtype=np.uint8)
            rows = raw.view(dtype.numpy) if dtype != BOOL else raw < 128
            for op in reductions_of(dtype):
                for row in (*rows, np.ones(lanes, dtype.numpy)):
                    name = f"{op}_{dtype}_{lanes}"
                    reduction_module(shape).check(name, [row, np.zeros(1, dtype.numpy)])


def halves(values: np.ndarray, op: np.ufunc) -> np.ndarray:
    """The tree that a float reduction is defined as, for any number of values."""
    if values.size == 1:
        return values
    half = 1 << (values.size - 1).bit_length() - 1
    if 2 * half == values.size:
        return halves(op(values[:half], values[half:]), op)
    return op(halves(values[:half], op), halves(values[half:], op))


@pytest.mark.parametrize("shape", SHAPES)
def test_float_reductions_have_a_fixed_order(shape: str, rng: np.random.Generator) -> None:
    ufuncs = {"add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum}
    for dtype in (F64, F32, F16, BF16):
        wide = dtype.accumulator.numpy
        for lanes in lane_counts(shape, dtype):
            values = rng.uniform(0.5, 2, lanes).astype(dtype.numpy)
            for op, ufunc in ufuncs.items():
                out = np.zeros(1, dtype.numpy)
                reduction_module(shape).call(f"{op}_{dtype}_{lanes}", [values, out])
                want = halves(values.astype(wide), ufunc).astype(dtype.numpy)
                assert_same(out, want, f"{op}_{dtype}_{lanes}")


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("op", ["min", "max"])
def test_nan_comes_through_a_reduction_from_any_lane(shape: str, op: str) -> None:
    lanes = runnable_target(shape).lanes(F32)
    for lane in range(lanes):
        values, out = np.arange(lanes, dtype=np.float32), np.zeros(1, np.float32)
        values[lane] = np.nan
        reduction_module(shape).call(f"{op}_f32_{lanes}", [values, out])
        assert np.isnan(out[0])


def math_function(name: str, dtype: DType, lanes: int, n: int) -> Function:
    arity = INTRINSICS[name].arity
    ins = [Buffer(f"in{k}", dtype, (n,)) for k in range(arity)]
    out = Buffer("out", dtype, (n,))
    b = t.LoopBuilder()
    with b.loop("i", 0, n, step=lanes) as i:
        b.store(out, (i,), t.call(name, *(t.load(x, (i,), lanes) for x in ins)))
    return b.function(f"{name}_{dtype}_{lanes}", (*ins, out))


def math_inputs(name: str, dtype: DType, rng: np.random.Generator) -> list[np.ndarray]:
    arrays = [rng.uniform(-3, 3, 64) for _ in range(INTRINSICS[name].arity)]
    return [a.astype(dtype.numpy) for a in arrays]


@pytest.mark.exhaustive
@pytest.mark.parametrize("shape", SHAPES)
def test_math_of_every_type_and_width(shape: str, rng: np.random.Generator) -> None:
    """The values are tested with codegen.math; here, that every name works on every type and number of lanes."""
    cases = [
        (name, dtype, lanes)
        for name in MATH_NAMES
        for dtype, counts in (
            (F32, (1, runnable_target(shape).lanes(F32))),
            (F64, (1, 4)),
            (BF16, (16,)),
        )
        for lanes in counts
        if not (INTRINSICS[name].no_f64 and dtype == F64)
    ]
    functions = [math_function(name, dtype, lanes, 64) for name, dtype, lanes in cases]
    native = NativeModule(Module(tuple(functions)), runnable_target(shape))
    for (name, dtype, _), function in zip(cases, functions, strict=True):
        inputs, out = math_inputs(name, dtype, rng), np.zeros(64, dtype.numpy)
        native.call(function.name, [*inputs, out])
        assert_close(out, INTRINSICS[name].meaning(*inputs), 4)


@pytest.mark.parametrize("shape", SHAPES)
def test_fma_rounds_once(shape: str, rng: np.random.Generator) -> None:
    lanes = runnable_target(shape).lanes(F32)
    functions = [math_function("fma", F32, n, 64) for n in (1, lanes)]
    native = NativeModule(Module(tuple(functions)), runnable_target(shape))
    a = (1 + rng.integers(1, 1 << 12, 64) * 2.0**-23).astype(np.float32)
    for function in functions:
        out = np.zeros(64, np.float32)
        native.call(function.name, [a, a, -(a * a), out])
        exact = a.astype(np.float64) ** 2 - (a * a).astype(np.float64)
        assert_same(out, exact.astype(np.float32))
        assert out.any()


BITS = ((F32, S32), (F64, U64), (BF16, U16), (F16, S16), (U8, S8))


@pytest.mark.parametrize("shape", SHAPES)
def test_bit_patterns_change_their_type(shape: str, rng: np.random.Generator) -> None:
    for pair in BITS:
        for source, target in (pair, pair[::-1]):
            for lanes in (1, 4):
                x, out = Buffer("x", source, (8,)), Buffer("out", target, (8,))
                b = t.LoopBuilder()
                with b.loop("i", 0, 8, step=lanes) as i:
                    b.store(out, (i,), t.bitcast(t.load(x, (i,), lanes), target))
                module = verify(Module((b.function("f", (x, out)),)))
                assert parse_module(print_module(module)) == module
                patterns = rng.integers(0, 255, 8 * source.size, np.uint8).view(source.numpy)
                NativeModule(module, runnable_target(shape)).check(
                    "f", [patterns, np.zeros(8, target.numpy)]
                )


@pytest.mark.parametrize("target", [F64, U64, BOOL])
def test_bit_patterns_of_other_widths_are_refused(target: DType) -> None:
    x, out = Buffer("x", F32, (1,)), Buffer("out", target, (1,))
    b = t.LoopBuilder()
    b.store(out, (0,), t.bitcast(x[0], target))
    with pytest.raises(InternalError, match=f"as many bits as it gives, got f32 and {target}"):
        verify(Module((b.function("f", (x, out)),)))


def test_integers_have_no_math() -> None:
    a = Buffer("a", USUAL[6], (1,))
    b = t.LoopBuilder()
    b.store(a, (0,), t.call("exp", a[0]))
    with pytest.raises(InternalError, match="intrinsic 'exp' takes floats, got s32"):
        emit_module(Module((b.function("f", (a,)),)), runnable_target("avx2"))


@pytest.mark.parametrize("shape", SHAPES)
def test_lanes_picked_by_their_lowest_bits(shape: str, rng: np.random.Generator) -> None:
    functions = []
    for lanes in (4, 8, 16):
        table, index = Buffer("table", F32, (lanes,)), Buffer("index", S32, (64,))
        out, b = Buffer("out", F32, (64,)), t.LoopBuilder()
        with b.loop("i", 0, 64, step=lanes) as i:
            picked = t.call("pick", t.load(table, (0,), lanes), t.load(index, (i,), lanes))
            b.store(out, (i,), picked)
        functions.append(b.function(f"pick{lanes}", (table, index, out)))
    native = NativeModule(Module(tuple(functions)), runnable_target(shape))
    for function, lanes in zip(functions, (4, 8, 16), strict=True):
        given = rng.random(lanes).astype(np.float32)
        numbers, found = rng.integers(0, 1 << 31, 64).astype(np.int32), np.zeros(64, np.float32)
        native.check(function.name, [given, numbers, found])
        native.call(function.name, [given, numbers, found])
        np.testing.assert_array_equal(found, given[numbers % lanes])
