from __future__ import annotations

import math

import pytest

from graphc.base.dims import Symbol, size
from graphc.base.dtypes import BF16, BOOL, F32, S32, S64
from graphc.base.errors import InternalError
from graphc.tensor_ir import builder as t
from graphc.tensor_ir.builder import LoopBuilder
from graphc.tensor_ir.names import Names
from graphc.tensor_ir.nodes import Block, Broadcast, Buffer, Cast, Compare, Const, If, Module, Var
from graphc.tensor_ir.printer import print_expr, print_module

i, x, v = Var("i"), Var("x", F32), Var("v", F32, 8)
three, seven = Const(3, S64), Const(7, S64)
FOLDED = {
    "7": three + 4,
    "i": 0 + (i + 0),
    "i + 7": i + 3 + 4,
    "i + 1": i + 3 - 2,
    "0": i * 0,
    "i * 4": 4 * i,
    "i // 2": i // 1 // 2,
    "-4": Const(-7, S64) // 2,
    "1": Const(-7, S64) % 2,
    "i - -9223372036854775808": i - -(1 << 63),
    "-9223372036854775808": Const((1 << 63) - 1, S64) + 1,
    "2": t.minimum(2, 5),
    "5": t.maximum(2, 5),
    "x + 0.0": x + 0,  # no identity for -0.0
    "x * 1.0": x * 1,
    "v * broadcast(2.0, 8)": v * 2,
    "x / 2.0": x / 2,
    "i << 2": i << 2,
    "i & 7 | 8": i & 7 | 8,
    "i ^ 5": i ^ 5,
    "i >> 1": i >> 1,
    "-x": -x,
    "abs(x)": abs(x),
    "max(x, 0.0)": t.maximum(x, 0),
    "2.0 - x": 2 - x,
    "2.0 / x": 2 / x,
    "7 // i": 7 // i,
    "7 % i": 7 % i,
    "i < 3": i < 3,
    "i >= 3": i >= 3,
    "i == 3": t.equal(i, 3),
    "i != 3": t.unequal(i, 3),
    "size_N * 4 + i": size(Symbol("N")) * 4 + i,
    "i < size_N": i < size(Symbol("N")),
}


@pytest.mark.parametrize("text", FOLDED)
def test_index_arithmetic_is_folded_and_numbers_take_the_other_type(text: str) -> None:
    assert print_expr(FOLDED[text]) == text


def test_division_by_zero_follows_the_rules() -> None:
    assert seven // 0 == seven % 0 == Const(0, S64)


def test_a_comparison_has_no_truth_value_while_code_is_built() -> None:
    with pytest.raises(InternalError, match="no truth value"):
        bool(i < 3)


def test_buffers_are_indexed_and_not_iterated() -> None:
    buffer = Buffer("a", F32, (4, 8))
    assert print_expr(buffer[i, 2]) == "a[i, 2]"
    with pytest.raises(TypeError, match="not iterable"):
        iter(buffer)


def test_typed_expressions() -> None:
    assert t.const(1, BOOL) == Const(True, BOOL) and t.const(1, BOOL).value is True  # type: ignore[union-attr]
    assert t.const(2, F32, 4) == Broadcast(Const(2.0, F32), 4)
    assert t.const(math.nan, F32) == t.const(float("nan"), F32)
    assert t.cast(x, F32) is x and t.cast(x, BF16) == Cast(x, BF16)
    assert (i < 3) == Compare("lt", i, Const(3, S64))
    assert t.call("reduce_add", v).lanes == 1 and t.fma(v, v, v).lanes == 8
    assert t.select(i < 3, x, 0).dtype == F32


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
            twice = b.let("twice", a[row, j] * 2.0)
            b.store(c, (row, j), twice)
        with b.when(t.equal(row, 0)):
            b.store(c, (row, 0), 1)
        with b.otherwise(), b.block():
            b.invoke("g", c, t.slice_of(c, (row, 0)), row + 1)
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


def test_tiles_are_a_loop_and_a_remainder() -> None:
    b = LoopBuilder()
    assert [(print_expr(number), count) for number, count in b.tiles("tile", 10, 4)] == [
        ("tile", 4),
        ("2", 2),
    ]
    assert [type(one).__name__ for one in b.statements()] == ["For"]
    assert [count for _, count in LoopBuilder().tiles("tile", 3, 4)] == [3]
    assert [count for _, count in LoopBuilder().tiles("tile", 8, 4)] == [4]


def test_the_last_tile_has_a_branch_where_it_is_smaller() -> None:
    b = LoopBuilder()
    number = b.let("number", 1)
    assert list(b.tile_sizes(number, 10, 4)) == [4, 2]
    assert [type(one).__name__ for one in b.statements()] == ["Let", "If"]
    assert list(LoopBuilder().tile_sizes(number, 8, 4)) == [4]
    assert list(LoopBuilder().tile_sizes(number, 3, 4)) == [3]
