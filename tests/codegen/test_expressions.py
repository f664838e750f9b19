"""Every operator, conversion and literal form on every type, scalar and vector, against the interpreter."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache, partial

import numpy as np
import pytest

from graphc.base.dtypes import BF16, BOOL, F16, F32, F64, S32, S64, USUAL, DType
from graphc.codegen.aot import assembly
from graphc.codegen.host import target_for
from graphc.codegen.module import emit_module
from graphc.tensor_ir import builder as t
from graphc.tensor_ir import interpreter
from graphc.tensor_ir.nodes import (
    BINARY_OPS,
    COMPARE_OPS,
    UNARY_OPS,
    Buffer,
    Expr,
    Function,
    Module,
    Ramp,
    Select,
    Var,
)
from support.native_functions import SHAPES, Array, NativeModule, assert_same, runnable_target
from support.special_values import pairs, singles, special_values

ROUNDING = ("floor", "ceil", "trunc", "round_even", "sqrt")
BITWISE = ("and", "or", "xor", "shl", "shr")
LITERALS = (-7, -1, 1, 2, 3, 8, 100)


@dataclass(frozen=True)
class Case:
    """out[i] = expr(in0[i], in1[i], ..., lanes)."""

    name: str
    inputs: tuple[Array, ...]
    dtypes: tuple[DType, ...]
    out: DType
    expr: Callable[..., Expr]

    def function(self, lanes: int) -> Function:
        """The case, `lanes` elements at a time."""
        n = self.inputs[0].size
        ins = [Buffer(f"in{k}", dtype, (n,)) for k, dtype in enumerate(self.dtypes)]
        out = Buffer("out", self.out, (n,))
        b = t.LoopBuilder()
        with b.loop("i", 0, n, step=lanes) as i:
            b.store(out, (i,), self.expr(*(t.load(x, (i,), lanes) for x in ins), lanes=lanes))
        return b.function(f"{self.name}_{lanes}", (*ins, out))

    def result(self) -> Array:
        """An output array to fill."""
        return np.zeros(self.inputs[0].size, self.out.numpy)


@cache
def expected(name: str, cases: Callable[[], dict[str, Case]]) -> Array:
    """Return the interpreter's result for a case, all elements at once."""
    case = cases()[name]
    function, out = case.function(case.inputs[0].size), case.result()
    interpreter.run(Module((function,)), function.name, [*case.inputs, out])
    return out


def check_cases(
    shape: str, cases: Callable[[], dict[str, Case]], lane_counts: Callable[[Case], Iterable[int]]
) -> None:
    """All cases as native code with vectors of `shape`."""
    table = [(case, lanes) for case in cases().values() for lanes in lane_counts(case)]
    functions = tuple(case.function(lanes) for case, lanes in table)
    native = NativeModule(Module(functions), runnable_target(shape))
    for (case, _), function in zip(table, functions, strict=True):
        out = case.result()
        native.call(function.name, [*case.inputs, out])
        assert_same(out, expected(case.name, cases), function.name)


def _unary_ops(dtype: DType) -> list[str]:
    if dtype == BOOL:
        return ["not"]
    skipped = ("not",) if dtype.is_float else ROUNDING
    return [op for op in UNARY_OPS if op not in skipped]


def _binary_ops(dtype: DType) -> list[str]:
    if dtype == BOOL:
        return ["and", "or", "xor", "min", "max"]
    skipped = (*BITWISE, "mod") if dtype.is_float else ("larger",)
    return [op for op in BINARY_OPS if op not in skipped]


def _unary(x: Expr, op: str, lanes: int) -> Expr:
    return t.unary(op, x)


def _binary(x: Expr, y: Expr, op: str, lanes: int) -> Expr:
    return t.Binary(op, x, y)


def _compare(x: Expr, y: Expr, op: str, lanes: int) -> Expr:
    return t.compare(op, x, y)


def _select(x: Expr, y: Expr, lanes: int) -> Expr:
    return t.select(x < y, x, y)


def _unsigned_zeros(values: Array) -> Array:
    return np.where(values == 0, np.zeros_like(values), values)


def _operators(dtype: DType) -> Iterator[Case]:
    one, (left, right) = singles(dtype), pairs(dtype)
    two = (dtype, dtype)
    for op in _unary_ops(dtype):
        yield Case(f"{op}_{dtype}", (one,), (dtype,), dtype, partial(_unary, op=op))
    for op in _binary_ops(dtype):
        # Of two zeros of different sign, min and max may return either.
        plain = op in ("min", "max")
        inputs = (_unsigned_zeros(left), _unsigned_zeros(right)) if plain else (left, right)
        yield Case(f"{op}_{dtype}", inputs, two, dtype, partial(_binary, op=op))
    for op in COMPARE_OPS:
        yield Case(f"{op}_{dtype}", (left, right), two, BOOL, partial(_compare, op=op))
    yield Case(f"select_{dtype}", (left, right), two, dtype, _select)


@cache
def operator_cases() -> dict[str, Case]:
    return {case.name: case for dtype in USUAL for case in _operators(dtype)}


@pytest.mark.exhaustive
@pytest.mark.parametrize("shape", SHAPES)
def test_operators(shape: str) -> None:
    target = runnable_target(shape)
    check_cases(shape, operator_cases, lambda case: (1, target.lanes(case.dtypes[0])))


def _conversion_inputs(source: DType) -> Array:
    """Special values; every pattern of the 16-bit floats; of f32 those between the smallest and largest f16, too."""
    if source in (F16, BF16):
        return np.arange(1 << 16, dtype=np.uint16).view(source.numpy)
    if source != F32:
        return np.concatenate([singles(source), _beside_middles(source)])
    strided = np.arange(0, 1 << 32, 997 * 4096 + 1, dtype=np.uint64).astype(np.uint32)
    middle = np.arange(0x3300_0000, 0x4780_0000, 0x0000_0FFF, dtype=np.uint32)
    patterns = np.concatenate([strided, middle, middle | np.uint32(1 << 31)])
    joined = np.concatenate([special_values(source), patterns.view(np.float32)])
    return np.resize(joined, -(-joined.size // 64) * 64)


def _beside_middles(source: DType) -> Array:
    """Numbers of many bits just beside the middle of two 16-bit floats: f32 on the way would land on the middle."""
    if source.bits < 32:
        return np.zeros(0, source.numpy)
    if source == F64:
        middles = [m * 2.0**e for m in (1 + 2.0**-8, 1 + 2.0**-11, 2.0**-10) for e in (-30, -15, 0)]
        near = [m + sign * m * 2.0**-45 for m in middles for sign in (-1, 0, 1)]
        return np.resize(np.array([*near, *(-x for x in near), 1e300, -1e300, 1e-300]), 64)
    middles = [(1 << e) + (1 << e - 8) for e in range(26, source.bits - 1)]
    near = [m + d for m in middles for d in (-1, 0, 1)]
    near += [-x for x in near] if source.is_signed else []
    return np.resize(np.array(near, source.numpy), -(-len(near) // 64) * 64)


def _cast(x: Expr, target: DType, lanes: int) -> Expr:
    return t.cast(x, target)


@cache
def cast_cases() -> dict[str, Case]:
    cases = [
        Case(f"{a}_{b}", (_conversion_inputs(a),), (a,), b, partial(_cast, target=b))
        for a in USUAL
        for b in USUAL
    ]
    return {case.name: case for case in cases}


@pytest.mark.exhaustive
@pytest.mark.parametrize("shape", SHAPES)
def test_casts(shape: str) -> None:
    target = runnable_target(shape)
    check_cases(shape, cast_cases, lambda case: {1, 16, target.lanes(case.dtypes[0])})


def _literal_operand(x: Expr, op: str, number: int, side: str, lanes: int) -> Expr:
    literal = t.const(number, x.dtype, lanes)
    return t.Binary(op, x, literal) if side == "right" else t.Binary(op, literal, x)


def _literals(dtype: DType) -> Iterator[Case]:
    ops = ("min", "max") if dtype.is_float else ("div", "mod", "shl", "shr", "min", "max")
    for op in ops:
        for number in LITERALS:
            for side in ("left", "right"):
                if number > 0 or dtype.is_signed:
                    expr = partial(_literal_operand, op=op, number=number, side=side)
                    name = f"{op}_{side}_{dtype}_{number}"
                    yield Case(name, (singles(dtype),), (dtype,), dtype, expr)


@cache
def literal_cases() -> dict[str, Case]:
    integers = [dtype for dtype in USUAL if dtype.kind in ("int", "uint")]
    return {case.name: case for dtype in (*integers, F32, F64, F16) for case in _literals(dtype)}


@pytest.mark.exhaustive
@pytest.mark.parametrize("shape", SHAPES)
def test_literal_operands(shape: str) -> None:
    """Division, remainder, shifts, min and max with a literal: the cheap forms."""
    target = runnable_target(shape)
    check_cases(
        shape,
        literal_cases,
        lambda case: (1,) if "left" in case.name else (1, target.lanes(case.dtypes[0])),
    )


@pytest.mark.parametrize("shape", SHAPES)
def test_ramp_broadcast_and_select_by_lane(shape: str) -> None:
    lanes = runnable_target(shape).lanes(S32)
    a, out = Buffer("a", S32, (1,)), Buffer("out", S32, (lanes,))
    b = t.LoopBuilder()
    scalar = a[0]
    odd = t.equal(Ramp(scalar, lanes) % 2, 1)
    b.store(out, (0,), Select(odd, Ramp(scalar, lanes), t.broadcast(scalar, lanes)))
    native = NativeModule(Module((b.function("f", (a, out)),)), runnable_target(shape))
    for start in (-3, 0, 2**31 - 2):
        native.check("f", [np.array([start], np.int32), np.zeros(lanes, np.int32)])


def test_scalar_parameters_of_every_type() -> None:
    types = [dtype for dtype in USUAL if dtype not in (F16, BF16)]
    functions = []
    for dtype in types:
        out, x, y = Buffer("out", dtype, (2,)), Var("x", dtype), Var("y", S64)
        b = t.LoopBuilder()
        b.store(out, (y,), x)
        functions.append(b.function(f"put_{dtype}", (out, x, y)))
    native = NativeModule(Module(tuple(functions)), runnable_target("avx2"))
    for dtype in types:
        for value in special_values(dtype):
            native.check(f"put_{dtype}", [np.zeros(2, dtype.numpy), value.item(), 1])


@pytest.mark.exhaustive
@pytest.mark.parametrize("isa", SHAPES)
def test_no_operator_calls_a_library(isa: str) -> None:
    """The conversions of 16-bit floats and the rounding of SSE2 would like to, and the symbols may not be there."""
    target = target_for(isa)
    cases = [*operator_cases().values(), *cast_cases().values()]
    functions = [case.function(n) for case in cases for n in (1, target.lanes(case.dtypes[0]))]
    unique = {function.name: function for function in functions}
    text = assembly(emit_module(Module(tuple(unique.values())), target), target)
    called = set(re.findall(r"\tcallq?\t\*?(\S+)", text))
    assert not called
