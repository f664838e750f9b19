from __future__ import annotations

import math

import pytest

from graphc.base.dtypes import BF16, BOOL, F32, S32, S64
from graphc.base.errors import InternalError
from graphc.tensor_ir import builder as t
from graphc.tensor_ir.builder import LoopBuilder
from graphc.tensor_ir.names import Names
from graphc.tensor_ir.nodes import Block, Broadcast, Buffer, Cast, Compare, Const, If, Module, Var
from graphc.tensor_ir.printer import print_expr, print_module
from graphc.tensor_ir.verifier import verify

i, x, v = Var("i"), Var("x", F32), Var("v", F32, 8)
FOLDED = {
    "7": t.add(3, 4),
    "i": t.add(0, t.add(i, 0)),
    "i + 7": t.add(t.add(i, 3), 4),
    "i + 1": t.sub(t.add(i, 3), 2),
    "0": t.mul(i, 0),
    "i * 4": t.mul(4, i),
    "i // 2": t.floordiv(t.floordiv(i, 1), 2),
    "-4": t.floordiv(-7, 2),
    "1": t.mod(-7, 2),
    "i - -9223372036854775808": t.sub(i, -(1 << 63)),
    "-9223372036854775808": t.add((1 << 63) - 1, 1),
    "2": t.minimum(2, 5),
    "5": t.maximum(2, 5),
    "x + 0.0": t.add(x, 0),  # no identity for -0.0
    "x * 1.0": t.mul(x, 1),
    "v * broadcast(2.0, 8)": t.mul(v, 2),
    "x / 2.0": t.div(x, 2),
    "i << 2": t.binary("shl", i, 2),
    "max(x, 0.0)": t.binary("max", x, 0),
    "2.0 - x": t.binary("sub", 2, x),
}


@pytest.mark.parametrize("text", FOLDED)
def test_index_arithmetic_is_folded_and_numbers_take_the_other_type(text: str) -> None:
    assert print_expr(FOLDED[text]) == text


def test_division_by_zero_follows_the_rules() -> None:
    assert t.floordiv(7, 0) == t.mod(7, 0) == Const(0, S64)


def test_typed_expressions() -> None:
    assert t.const(1, BOOL) == Const(True, BOOL) and t.const(1, BOOL).value is True  # type: ignore[union-attr]
    assert t.const(2, F32, 4) == Broadcast(Const(2.0, F32), 4)
    assert t.const(math.nan, F32) == t.const(float("nan"), F32)
    assert t.cast(x, F32) is x and t.cast(x, BF16) == Cast(x, BF16)
    assert t.compare("lt", i, 3) == Compare("lt", i, Const(3, S64))
    assert t.call("reduce_add", v).lanes == 1 and t.fma(v, v, v).lanes == 8
    assert t.select(t.compare("lt", i, 3), x, 0).dtype == F32


def test_names_are_handed_out_once() -> None:
    names = Names(["i", "i_2"])
    assert [names.fresh("i") for _ in range(3)] == ["i_1", "i_3", "i_4"]
    assert names.fresh("j") == "j"
    names.reserve("k")
    assert names.fresh("k") == "k_1"


def test_a_loop_nest_reads_as_it_was_written() -> None:
    a, c = Buffer("a", F32, (4, 8)), Buffer("c", F32, (4, 8))
    b = LoopBuilder(["a", "c"])
    with b.loop("i", 0, 4, "parallel") as row:
        total = b.allocate("a", F32, (1,))
        b.store(total, (0,), 0)
        with b.loop("j", 0, 8, "vector") as j:
            twice = b.let("twice", t.mul(b.load(a, (row, j)), 2.0))
            b.store(c, (row, j), twice)
        with b.when(t.compare("eq", row, 0)):
            b.store(c, (row, 0), 1)
        with b.otherwise(), b.block():
            b.invoke("g", c, t.slice_of(c, (row, 0)), t.add(row, 1))
    b.parallel_invoke("g", 4, c, a)
    with b.loop("i", 0, 4, step=2):
        pass
    text = print_module(Module((b.function("f", (a, c), "a note"),)))
    assert text == (
        "def f(a: f32[4, 8], c: f32[4, 8]):\n"
        '    """a note"""\n'
        "    for i in parallel(0, 4):\n"
        "        a_1: f32[1]\n"
        "        a_1[0] = 0.0\n"
        "        for j in vector(0, 8):\n"
        "            twice = a[i, j] * 2.0\n"
        "            c[i, j] = twice\n"
        "        if i == 0:\n"
        "            c[i, 0] = 1.0\n"
        "        else:\n"
        "            with block:\n"
        "                g(c, c.at(i, 0), i + 1)\n"
        "    parallel_invoke(4, g, c, a)\n"
        "    for i_1 in range(0, 4, 2):\n"
        "        pass\n"
    )


def test_brgemm_has_defaults() -> None:
    a = Buffer("a", F32, (64,))
    b = LoopBuilder()
    b.brgemm(
        t.slice_of(a),
        t.slice_of(a),
        t.slice_of(a, (8,)),
        (2, 4, 2),
        a_row=2,
        b_row=4,
        c_row=4,
        n_padded=4,
    )
    verify(Module((b.function("f", (a,)),)))


def test_misuse_is_an_internal_error() -> None:
    b = LoopBuilder()
    with b.loop("i", 0, 4), pytest.raises(InternalError, match="while a loop or branch is open"):
        b.body()
    with (
        pytest.raises(InternalError, match=r"otherwise\(\) must follow when\(\) directly"),
        b.otherwise(),
    ):
        pass


def test_a_single_statement_needs_no_block() -> None:
    store = t.Store(Buffer("a", S32, (1,)), (t.as_expr(0),), t.const(1, S32))
    assert t.block_of([store]) is store
    assert t.block_of([]) == Block(())
    b = LoopBuilder()
    with b.when(Const(True, BOOL)):
        b.emit(store)
    assert b.body() == Block((If(Const(True, BOOL), store),))
