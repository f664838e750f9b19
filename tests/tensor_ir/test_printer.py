from __future__ import annotations

import math

import pytest

from graphc.base.dtypes import BOOL, F16, F32, F64, S32, S64, U8
from graphc.tensor_ir import builder as t
from graphc.tensor_ir.nodes import (
    Allocate,
    Binary,
    Block,
    Buffer,
    Call,
    Cast,
    Const,
    For,
    If,
    Load,
    Ramp,
    Shuffle,
    Store,
    Unary,
    Var,
)
from graphc.tensor_ir.parser import parse_module
from graphc.tensor_ir.printer import print_expr, print_module, print_stmt
from support.golden import Golden
from support.loop_programs import PROGRAMS

i, j, x = Var("i"), Var("j"), Var("x", F32)


def op(name: str, left: t.Expr, right: t.Expr) -> t.Expr:
    return Binary(name, left, right)


EXPRESSIONS = {
    "i + j * 2": op("add", i, op("mul", j, Const(2, S64))),
    "(i + j) * 2": op("mul", op("add", i, j), Const(2, S64)),
    "i - (j - i)": op("sub", i, op("sub", j, i)),
    "i - j - i": op("sub", op("sub", i, j), i),
    "i // (j // 2)": op("div", i, op("div", j, Const(2, S64))),
    "i % 2 & j | i ^ j": op("or", op("and", op("mod", i, Const(2, S64)), j), op("xor", i, j)),
    "(i | j) & 3 << i": op("and", op("or", i, j), op("shl", Const(3, S64), i)),
    "x / 2.0": op("div", x, Const(2, F32)),
    "i < j": i < j,
    "(i < j) == (j < i)": t.equal(i < j, j < i),
    "(i < j) & True": op("and", i < j, Const(True, BOOL)),
    "-i * -3": op("mul", Unary("neg", i), Const(-3, S64)),
    "-(i + j)": Unary("neg", op("add", i, j)),
    "~-i": Unary("not", Unary("neg", i)),
    "neg(3)": Unary("neg", Const(3, S64)),
    "s32(-3)": Const(-3, S32),
    "u8(200)": Const(200, U8),
    "f64(0.5)": Const(0.5, F64),
    'f32("nan")': Const(math.nan, F32),
    'f16("-inf")': Const(-math.inf, F16),
    "-0.0": Const(-0.0, F32),
    "1e-07": Const(1e-7, F32),
    "f32(i)": Cast(i, F32),
    "cast(f32, 7)": Cast(Const(7, S64), F32),
    "min(i, abs(j))": op("min", i, Unary("abs", j)),
    "exp(x)": Call("exp", (x,), F32),
    "exp(x, lanes=4)": Call("exp", (x,), F32, 4),
    "exp(x, dtype=f64)": Call("exp", (x,), F64),
    "reduce_add(broadcast(x, 8))": Call("reduce_add", (t.broadcast(x, 8),), F32),
    "load(a[i], 8)": Load(Buffer("a", F32, (4,)), (i,), 8),
    "load(a[i], 8, active=3)": Load(Buffer("a", F32, (4,)), (i,), 8, 3),
    "a[ramp(i, 8)]": Load(Buffer("a", F32, (4,)), (Ramp(i, 8),), 8),
    "shuffle(ramp(i, 2), ramp(j, 2), 3, 0)": Shuffle(Ramp(i, 2), Ramp(j, 2), (3, 0)),
    "a[()]": Load(Buffer("a", F32, ()), ()),
    "load(a[()], 2)": Load(Buffer("a", F32, ()), (), 2),
    "select(i < j, i, j)": t.select(i < j, i, j),
}


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_expressions(text: str) -> None:
    assert print_expr(EXPRESSIONS[text]) == text


def test_statements() -> None:
    a = Buffer("a", F32, (4,), "local")
    store = Store(a, (i,), x)
    loop = For(i, t.as_expr(0), t.as_expr(4), store)
    assert print_stmt(Allocate(a)) == "a: f32[4]\n"
    assert print_stmt(Allocate(Buffer("s", F32, ()))) == "s: f32[()]\n"
    assert print_stmt(loop) == "for i in range(0, 4):\n    a[i] = x\n"
    assert print_stmt(For(i, t.as_expr(0), t.as_expr(4), Block((store,)), "vector", 2)) == (
        "for i in vector(0, 4, 2):\n    with block:\n        a[i] = x\n"
    )
    yes = Const(True, BOOL)
    chain = If(yes, Block(()), If(yes, store, Block((store, store))))
    assert print_stmt(chain) == (
        "if True:\n    pass\nelif True:\n    a[i] = x\nelse:\n    a[i] = x\n    a[i] = x\n"
    )
    assert print_stmt(If(yes, store, Block((If(yes, store),)))) == (
        "if True:\n    a[i] = x\nelse:\n    with block:\n        if True:\n            a[i] = x\n"
    )


@pytest.mark.parametrize("program", PROGRAMS)
def test_programs(program, golden: Golden) -> None:  # type: ignore[no-untyped-def]
    golden(print_module(program(19)))


TEXT = """entry = "main"


def task(c: f32[64], scale: f32, i: s64):
    if i < 3:
        c[i * 8] = load(c[i * 8], 8) * broadcast(scale, 8)
    else:
        store(c[i * 8], broadcast(f32("inf"), 8), active=5)


def main(x: f32[64], y: f32[64], arena: u8[256]):
    \"\"\"matmul -> relu\"\"\"
    with brgemm(y, x.at(2), x, m=4, n=4, k=2, batch=1, a_batch=0, a_row=2, a_col=1, b_batch=0, b_row=4, c_row=8, \
accumulate=False, n_padded=8, tile_rows=4, acc=f32) as (row, col, acc):
        t = acc + f32(row * 8 + col)
        return max(t, 0.0)
    parallel_invoke(8, task, y, 0.5)
    task(arena.at(64), 2.0, 1)
"""


def test_a_program_reads_as_its_text() -> None:
    assert print_module(parse_module(TEXT)) == TEXT


def test_functions_whose_order_is_kept_say_so() -> None:
    text = "@in_order\ndef f(a: f32[4]):\n    a[0] = 1.0\n"
    module = parse_module(text)
    assert module.functions[0].in_order
    assert print_module(module) == text
