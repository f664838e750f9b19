from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphc.base.dtypes import S32, S64
from graphc.tensor_ir import builder as t
from graphc.tensor_ir.analysis import FULL, IndexAlgebra
from graphc.tensor_ir.evaluate import compile_expr
from graphc.tensor_ir.nodes import Binary, Buffer, Cast, Const, Expr, For, Load, Var
from graphc.tensor_ir.printer import print_expr

i, j, k = Var("i"), Var("j"), Var("k")
RANGES = {"i": (0, 99), "j": (0, 15)}  # k may be anything


def algebra() -> IndexAlgebra:
    made = IndexAlgebra()
    made.ranges = dict(RANGES)
    return made


def binary(op: str, left: Expr | int, right: Expr | int) -> Expr:
    return Binary(op, t.as_expr(left), t.as_expr(right))


ROW = i * 16 + j
CASES = {
    "(i * 16 + j) // 16": (ROW // 16, "i"),
    "(i * 16 + j) % 16": (ROW % 16, "j"),
    "(i * 16 + j) % 8": (ROW % 8, "j % 8"),
    "(i * 16 + j + 3) // 32": ((ROW + 3) // 32, "(i * 16 + j + 3) // 32"),
    "(i * 16 + 5) % 64": ((i * 16 + 5) % 64, "i % 4 * 16 + 5"),
    "(i * 16 + 5) // 64": ((i * 16 + 5) // 64, "i // 4"),
    "i // 4 // 8": (i // 4 // 8, "i // 32"),
    "i % 24 % 8": (i % 24 % 8, "i % 8"),
    "i // 8 * 8 + i % 8": (i // 8 * 8 + i % 8, "i"),
    "(i // 8 * 8 + i % 8) * 3": ((i // 8 * 8 + i % 8) * 3, "i * 3"),
    "min(i, 99)": (t.minimum(i, 99), "i"),
    "min(i, 98)": (t.minimum(i, 98), "min(i, 98)"),
    "max(i * 2, i)": (t.maximum(i * 2, i), "i * 2"),
    "min(i + 16, i * 2 + 16)": (t.minimum(i + 16, i * 2 + 16), "i + 16"),
    "i - i": (i - i, "0"),
    "(i + 2) * 3 - (i * 3 + 1)": ((i + 2) * 3 - (i * 3 + 1), "5"),
    "j - i": (binary("sub", j, i), "j - i"),
    "0 - i": (binary("sub", 0, i), "i * -1"),
    "k might wrap": ((k * 16 + j) // 16, "(k * 16 + j) // 16"),
    "k // 3 does not": (k // 3 // 5, "k // 15"),
    "x // 0": (binary("div", i, 0), "0"),
    "x % 0": (binary("mod", i, 0), "0"),
    "-7 // 2": (binary("div", -7, 2), "-4"),
    "-7 % 2": (binary("mod", -7, 2), "1"),
    "7 // -2": (binary("div", 7, -2), "-4"),
    "i // -2": (binary("div", i, -2), "i // -2"),
    "i * j": (i * j, "i * j"),
    "(i - 200) // 100": ((i - 200) // 100, "-2"),
}


@pytest.mark.parametrize("name", CASES)
def test_normal_forms(name: str) -> None:
    before, after = CASES[name]
    assert print_expr(algebra().simplify(before)) == after


def test_what_is_simple_comes_back_itself() -> None:
    for e in (i, i * 16 + j, t.as_expr(3), j % 8):
        assert algebra().simplify(e) is e


def random_index(rnd: random.Random, depth: int) -> Expr:
    if depth == 0:
        return rnd.choice([i, j, k, t.as_expr(rnd.choice([0, 1, 2, 3, 4, 8, 16, -1, -5, 24]))])
    op = rnd.choice(["add", "add", "sub", "mul", "div", "mod", "div", "mod", "min", "max"])
    if op in ("div", "mod") and rnd.random() < 0.9:
        return binary(op, random_index(rnd, depth - 1), rnd.choice([1, 2, 3, 4, 6, 8, 16, 32]))
    return binary(op, random_index(rnd, depth - 1), random_index(rnd, depth - 1))


@settings(max_examples=400)
@given(st.integers(0, 1 << 32))
def test_the_value_is_kept_and_in_range(seed: int) -> None:
    rnd = random.Random(seed)
    before = random_index(rnd, rnd.randint(1, 5))
    made = algebra()
    after = made.simplify(before)
    low, high = made.range_of(before)
    value, simplified = compile_expr(before), compile_expr(after)
    for _ in range(10):
        anything = rnd.choice([rnd.randint(-50, 50), -(1 << 63), (1 << 63) - 1])
        env = {"i": rnd.randint(0, 99), "j": rnd.randint(0, 15), "k": anything}
        assert value(env) == simplified(env)
        assert low <= value(env) <= high
    assert made.simplify(after) is after


def test_ranges_of_loops() -> None:
    made = IndexAlgebra()
    made.bind_loop(For(i, t.as_expr(0), t.as_expr(20), t.Block(()), "serial", 8))
    assert made.ranges["i"] == (0, 16)
    made.bind_loop(For(j, i * 2, i * 2 + 8, t.Block(())))
    assert made.ranges["j"] == (0, 39)
    made.bind_loop(For(k, t.as_expr(5), t.as_expr(5), t.Block(())))
    assert made.ranges["k"] == (5, 5)
    table = Load(Buffer("table", S32, (4,)), (i,))
    assert made.range_of(Cast(table, S64)) == (-(1 << 31), (1 << 31) - 1)
    assert made.range_of(Var("unknown")) == FULL


def test_multiples() -> None:
    made = algebra()
    assert made.is_multiple(i * 16, 8)
    assert made.is_multiple(t.minimum(k * 24 + 8, 64), 8)
    assert not made.is_multiple(t.minimum(i * 16, 20), 8)
    assert not made.is_multiple(i, 2)
    assert made.is_multiple(Const(0, S64), 7)
