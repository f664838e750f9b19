from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from graphc.base.dtypes import (
    ALL,
    BF16,
    BOOL,
    F16,
    F32,
    F64,
    S8,
    S16,
    S32,
    S64,
    U8,
    U16,
    U64,
    DType,
)
from graphc.base.errors import InternalError
from graphc.tensor_ir import builder as t
from graphc.tensor_ir.builder import LoopBuilder
from graphc.tensor_ir.interpreter import poison, run
from graphc.tensor_ir.nodes import (
    Broadcast,
    Buffer,
    Epilogue,
    Expr,
    Function,
    Module,
    Ramp,
    Shuffle,
    Slice,
    Store,
    Var,
)
from graphc.tensor_ir.parser import parse_module


def value(expr: Expr, **variables: Any) -> Any:
    """Return the value of an expression without loads."""
    out = Buffer("out", expr.dtype, (expr.lanes,))
    params = [Var(name, S64) for name in variables]
    function = Function("f", (out, *params), t.Block((Store(out, (t.as_expr(0),), expr),)))
    result = np.zeros(expr.lanes, expr.dtype.numpy)
    run(Module((function,)), "f", [result, *variables.values()])
    return result[0] if expr.lanes == 1 else result


def c(number: float, dtype: DType) -> Expr:
    return t.const(number, dtype)


INTEGER_CASES = [
    ("add", S8, 127, 1, -128),
    ("sub", U8, 0, 1, 255),
    ("mul", S16, 300, 300, 24464),
    ("add", S64, (1 << 63) - 1, 1, -(1 << 63)),
    ("div", S32, -7, 2, -4),
    ("mod", S32, -7, 2, 1),
    ("div", S32, 7, 0, 0),
    ("mod", S32, 7, 0, 0),
    ("div", S8, -128, -1, -128),
    ("mod", S8, -128, -1, 0),
    ("div", S64, -(1 << 63), -1, -(1 << 63)),
    ("div", S64, 5, 0, 0),
    ("shl", S8, 1, 7, -128),
    ("shl", S8, 1, 8, 0),
    ("shl", U16, 3, 1, 6),
    ("shr", S8, -128, 9, -1),
    ("shr", U8, 128, 9, 0),
    ("shr", S64, -5, 1, -3),
    ("shr", S64, -5, 64, -1),
    ("shl", S64, 1, 64, 0),
    ("shl", S32, 1, -1, 0),
    ("min", U64, (1 << 64) - 1, 3, 3),
    ("max", S8, -1, -2, -1),
    ("xor", S64, -1, 5, -6),
]


@pytest.mark.parametrize(("op", "dtype", "a", "b", "expected"), INTEGER_CASES)
def test_integer_rules(op: str, dtype: DType, a: int, b: int, expected: int) -> None:
    assert value(t.Binary(op, c(a, dtype), c(b, dtype))) == expected
    wide = t.Binary(op, Broadcast(c(a, dtype), 40), Broadcast(c(b, dtype), 40))
    assert (value(wide) == expected).all()


def test_float_rules() -> None:
    assert math.isnan(value(t.minimum(c(1, F32), c(math.nan, F32))))
    assert math.isnan(value(t.maximum(c(math.nan, F32), c(1, F32))))
    assert value(c(1, F32) / c(0, F32)) == math.inf
    assert value(c(1, F32) + c(2**-24, F32)) == 1.0  # in f32, not in f64
    assert value(t.fma(c(1 + 2**-12, F32), c(1 + 2**-12, F32), c(-1, F32))) == np.float32(
        2**-11 + 2**-24
    )
    assert value(t.unary("round_even", c(2.5, F64))) == 2.0
    assert value(c(math.nan, F32) < c(1, F32)) == np.False_
    assert value(t.unequal(c(math.nan, F32), c(math.nan, F32))) == np.True_
    assert value(c(-7, F32) % c(2, F32)) == 1.0


CASTS = [
    (F32, 300.0, S8, 127),
    (F32, -300.0, S8, -128),
    (F32, -1.0, U8, 0),
    (F32, math.nan, S32, 0),
    (F32, 2.9, S32, 2),
    (F32, -2.9, S64, -2),
    (F32, 1e30, S64, (1 << 63) - 1),
    (F64, -1e30, S64, -(1 << 63)),
    (F64, 1e30, U64, (1 << 64) - 1),
    (S32, 257, U8, 1),
    (S64, -1, U16, 65535),
    (F32, 0.5, BOOL, True),
    (F32, math.nan, BOOL, True),
    (F32, -0.0, BOOL, False),
    (BOOL, True, F32, 1.0),
    (F32, 1 + 2**-9, BF16, 1.0),
    (F64, 65520.0, F16, math.inf),
    (BF16, 300.0, S8, 127),
    (U64, (1 << 64) - 1, F64, 2.0**64),
]


@pytest.mark.parametrize(("source", "number", "dtype", "expected"), CASTS)
def test_casts(source: DType, number: float, dtype: DType, expected: float) -> None:
    assert value(t.Cast(c(number, source), dtype)) == expected
    assert (value(t.Cast(Broadcast(c(number, source), 9), dtype)) == expected).all()


def test_vectors_and_reductions() -> None:
    ramp = Ramp(t.as_expr(5), 4)
    assert value(ramp).tolist() == [5, 6, 7, 8]
    assert value(t.call("reduce_add", ramp)) == 26
    assert value(t.call("reduce_max", t.cast(ramp, F32))) == 8.0
    odd = t.equal(ramp % 2, 1)
    assert value(t.select(odd, ramp, Broadcast(t.as_expr(0), 4))).tolist() == [5, 0, 7, 0]
    assert value(t.call("reduce_or", odd)) == np.True_
    mixed = Shuffle(ramp, Broadcast(t.as_expr(9), 4), (3, 0, 4, 7, 1, 1))
    assert value(mixed).tolist() == [8, 5, 9, 9, 6, 6]
    assert value(Ramp(c(126, S8), 4)).tolist() == [126, 127, -128, -127]


def program(text: str) -> Module:
    return parse_module(text)


def test_partial_vectors_touch_only_their_active_elements() -> None:
    module = program(
        "def f(a: f32[5], c: f32[5]):\n"
        "    x = load(a[2], 4, active=3)\n"
        "    store(c[1], x + broadcast(1.0, 4), active=4)\n"
    )
    c_array = np.full(5, 9, np.float32)
    run(module, "f", [np.arange(5, dtype=np.float32), c_array])
    assert c_array.tolist() == [9, 3, 4, 5, 1]  # the lane that was not read is zero


def test_gathers_and_scatters() -> None:
    module = program(
        "def f(a: f32[2, 6], c: f32[8]):\n"
        "    x = load(a[1, ramp(0, 4) * broadcast(2, 4)], 4, active=3)\n"
        "    store(c[broadcast(7, 4) - ramp(0, 4)], x, active=3)\n"
    )
    out = np.zeros(8, np.float32)
    run(module, "f", [np.arange(12, dtype=np.float32).reshape(2, 6), out])
    assert out.tolist() == [0, 0, 0, 0, 0, 10, 8, 6]


def test_locals_start_as_poison() -> None:
    for dtype in ALL:
        out = np.zeros(1, dtype.numpy)
        run(program(f"def f(c: {dtype}[1]):\n    x: {dtype}[3]\n    c[0] = x[1]\n"), "f", [out])
        assert out.tobytes() == np.full(1, poison(dtype)).tobytes()
    assert (
        np.isnan(poison(F32))
        and np.isnan(poison(BF16))
        and poison(S8) == -128
        and poison(U8) == 255
    )


def test_locals_are_new_in_every_iteration() -> None:
    text = (
        "def f(c: s32[3]):\n    for i in parallel(0, 3):\n"
        "        x: s32[1]\n        c[i] = x[0]\n        x[0] = s32(1)\n"
    )
    out = np.zeros(3, np.int32)
    run(program(text), "f", [out])
    assert out.tolist() == [-(1 << 31)] * 3


def test_shuffled_parallel_loops_visit_everything_once() -> None:
    text = (
        "def f(c: s32[9], n: s32[1]):\n    for i in parallel(0, 9):\n"
        "        c[i] = n[0]\n        n[0] = n[0] + s32(1)\n"
    )
    orders = []
    for seed in (None, 1, 2):
        out = np.zeros(9, np.int32)
        run(program(text), "f", [out, np.zeros(1, np.int32)], shuffle=seed)
        assert sorted(out.tolist()) == list(range(9))
        orders.append(tuple(out.tolist()))
    assert orders[0] == tuple(range(9)) and len(set(orders)) == 3


def test_slices_see_other_shapes_and_types() -> None:
    module = program(
        "def fill(c: f32[2, 2], v: f32):\n"
        "    for i in range(0, 2):\n        for j in range(0, 2):\n            c[i, j] = v + f32(i * 2 + j)\n"
        "def main(arena: u8[64], y: f32[4]):\n"
        "    fill(arena.at(20), 1.0)\n    fill(y, 5.0)\n"
    )
    arena, y = np.zeros(64, np.uint8), np.zeros(4, np.float32)
    run(module, "main", [arena, y])
    assert arena[20:36].view(np.float32).tolist() == [1, 2, 3, 4]
    assert not arena[:20].any() and not arena[36:].any() and y.tolist() == [5, 6, 7, 8]


def test_parallel_invoke_passes_the_number_last() -> None:
    module = program(
        "def task(c: s64[5], n: s64, i: s64):\n    c[i] = n * i\n"
        "def main(c: s64[5]):\n    parallel_invoke(5, task, c, 3)\n"
    )
    out = np.zeros(5, np.int64)
    run(module, "main", [out], shuffle=4)
    assert out.tolist() == [0, 3, 6, 9, 12]


@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("dtypes", [(F32, F32, F32), (U8, S8, S32), (BF16, BF16, F32)])
def test_brgemm(
    accumulate: bool, dtypes: tuple[DType, DType, DType], rng: np.random.Generator
) -> None:
    m, n, k, batch = 3, 5, 4, 2
    a_type, b_type, c_type = dtypes
    a, b, out = (
        Buffer("a", a_type, (1 + batch * 20,)),
        Buffer("b", b_type, (2 + batch * k * 6,)),
        Buffer("c", c_type, (30,)),
    )
    made = LoopBuilder()
    to, *sources = (Slice(x, (t.as_expr(at),)) for x, at in ((out, 4), (a, 1), (b, 2)))
    brgemm = t.brgemm(
        to, sources[0], sources[1], m, n, k, batch, 20, 5, 1, 24, 6, 7, accumulate=accumulate, n_padded=6
    )  # fmt: skip
    made.emit(brgemm)
    arrays = [rng.integers(0, 4, p.shape).astype(p.dtype.numpy) for p in (a, b, out)]
    expected = arrays[2].astype(np.int64)
    region = expected[4:25].reshape(3, 7)[:, :n]
    rows = arrays[0][1:41].astype(np.int64).reshape(batch, 4, 5)[:, :m, :k]
    columns = arrays[1][2:50].astype(np.int64).reshape(batch, k, 6)[:, :, :n]
    region[...] = (rows @ columns).sum(0) + (region if accumulate else 0)
    run(Module((made.function("f", (a, b, out)),)), "f", arrays)
    assert arrays[2].astype(np.int64).tolist() == expected.tolist()


def test_brgemm_epilogue() -> None:
    a, b, out, bias = (Buffer(name, F32, (4,)) for name in ("a", "b", "out", "bias"))
    row, col, acc, x = Var("row"), Var("col"), Var("acc", F32), Var("x", F32)
    end = Epilogue(row, col, acc, x + t.cast(row, F32), (t.Let(x, acc + bias[col]),))
    made = LoopBuilder()
    to, left, right = map(t.slice_of, (out, a, b))
    made.emit(t.brgemm(to, left, right, 2, 2, 2, 1, 0, 2, 1, 0, 2, 2, False, 2, end))
    arrays = [np.arange(4, dtype=np.float32) for _ in range(4)]
    run(Module((made.function("f", (a, b, out, bias)),)), "f", arrays)
    square = np.arange(4).reshape(2, 2)
    assert arrays[2].reshape(2, 2).tolist() == (square @ square + [0, 1] + [[0], [1]]).tolist()


BAD = {
    "c[0] = a[2, 0]": "buffer 'a' of shape [2, 4]: index [2, 0] is out of bounds",
    "c[0] = a[0, 4]": "index [0, 4] is out of bounds",
    "c[0] = a[0, -1]": "index [0, -1] is out of bounds",
    "c[1] = load(a[1, 2], 3)": "3 elements from index [1, 2] on is out of bounds",
    "c[2] = load(a[0, 0], 3)": "3 elements from index [2] on is out of bounds",
    "c[0] = reduce_add(a[0, ramp(2, 4)])": "index [2, 3, 4, 5] is out of bounds",
    "g(c.at(1))": "buffer 'd' takes 16 bytes, 12 are left in 'c'",
    "h(c)": "function 'h' is called but is not in the module",
    "brgemm(c, c, c, m=2, n=2, k=2, batch=1, a_batch=0, a_row=2, a_col=2, b_batch=0, b_row=2, c_row=2, "
    "accumulate=False, n_padded=2, tile_rows=1)": "brgemm touches elements 0 to 4 of a buffer of 4",
}


@pytest.mark.parametrize("statement", BAD)
def test_errors_are_found(statement: str) -> None:
    module = program(
        f"def g(d: f32[4]):\n    pass\ndef f(a: f32[2, 4], c: f32[4]):\n    {statement}\n"
    )
    with pytest.raises(InternalError) as caught:
        run(module, "f", [np.zeros((2, 4), np.float32), np.zeros(4, np.float32)])
    assert BAD[statement] in str(caught.value)


def test_arguments_must_fit() -> None:
    module = program("def f(a: f32[2], n: s64):\n    pass\n")
    for arrays, message in (
        ([np.zeros(2, np.float32)], "'f' takes 2 arguments, got 1"),
        ([np.zeros(3, np.float32), 1], r"buffer 'a' is f32\[2\], got float32\[3\]"),
        ([np.zeros(2, np.float64), 1], r"buffer 'a' is f32\[2\], got float64\[2\]"),
        ([np.zeros(4, np.float32)[::2], 1], "the array for buffer 'a' must be contiguous"),
    ):
        with pytest.raises(InternalError, match=message):
            run(module, "f", arrays)
    run(module, "f", [np.zeros((2, 1), np.float32), 1])


def test_sixteen_bit_floats_are_stored_and_cast() -> None:
    module = program(
        "def f(a: bf16[2], c: f16[2]):\n    for i in range(0, 2):\n        c[i] = f16(f32(a[i]) * 3.0)\n"
    )
    out = np.zeros(2, np.float16)
    run(module, "f", [np.array([1.5, -2], ml_dtypes.bfloat16), out])
    assert out.tolist() == [4.5, -6]
