"""Register tiles over a number of rows that is known when a kernel runs: each row once, whatever the number."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.base.dtypes import F32, S64
from graphc.graph_ir.nest.problem import View
from graphc.graph_ir.nest.register_tile import RegisterTile
from graphc.graph_ir.nest.row_tiles import Remainder, TileHeight, by_height, row_tiles
from graphc.targets.isa import Target
from graphc.targets.microkernels import microkernels
from graphc.tensor_ir import builder as t
from graphc.tensor_ir import interpreter
from graphc.tensor_ir.evaluate import compile_expr
from graphc.tensor_ir.nodes import (
    Brgemm,
    Buffer,
    Expr,
    For,
    Function,
    Module,
    PrefetchHint,
    Slice,
    Stmt,
    Store,
    Var,
)
from graphc.tensor_ir.visitor import walk


@pytest.mark.parametrize("highest", [5, 7])
def test_each_row_is_in_one_tile_of_at_max_the_height(highest: int) -> None:
    """One tile alone may be higher than those before it: seven rows are one of seven, or of four and three."""
    rows, found = Var("size_rows"), Buffer("found", S64, (40,))

    def tile(first: Expr, count: int) -> Stmt:
        i = Var("i")
        at = (first + i,)
        store = Store(found, at, found[at] + count)
        return For(i, t.ZERO, t.as_expr(count), store)

    def remainder(rest: Remainder) -> list[Stmt]:
        return [by_height(rest.rows, highest, lambda count: tile(rest.first, count))]

    body = row_tiles(rows, TileHeight(5, highest), tile, remainder)
    module = Module((Function("main", (found, rows), body),))
    for number in (1, 4, 5, 6, 7, 10, 13, 40):
        heights = np.zeros(40, np.int64)
        interpreter.run(module, "main", [heights, number])
        assert heights[:number].min() > 0 and heights.max() <= highest, number
        if 5 < number <= highest:
            assert (heights[:number] == number).all()
        assert not heights[number:].any()
        rest = number % 5
        assert (heights[: max(number - rest - 5, 0)] == 5).all()


def tiles(height: int, accumulate: bool) -> list[Brgemm]:
    """The tiles of a matrix of four columns, with an epilogue and a hint of 70 elements."""
    a, b, c = (Buffer(name, F32, (400,)) for name in "abc")
    (kernel,) = (x for x in microkernels(F32, F32, Target("avx2")) if x.k_group == 1)
    tile = RegisterTile(
        View(a, {"m": 1, "k": 1}), View(b, {"k": 4, "n": 1}), View(c, {"m": 4, "n": 1}), Var("size_rows"), 4, 1, kernel,
        TileHeight(height), 1, accumulate, lambda index, acc: ([], acc + 1.0),
        (PrefetchHint(Slice(b, (t.as_expr(100),)), 70),),
    )  # fmt: skip
    return [x for x in walk(tile.statement()) if isinstance(x, Brgemm)]


@pytest.mark.parametrize("accumulate", [False, True])
def test_low_tiles_share_one_epilogue(accumulate: bool) -> None:
    """Sums of several blocks of k wait in C, where those of the blocks before are."""
    whole, *rest = tiles(6, accumulate)
    assert whole.epilogue and len(rest) == 6
    assert sorted(int(one.m) for one in rest if one.epilogue) == [1, 2]
    waiting = {one.c.buffer.name for one in rest if not one.epilogue}
    assert waiting == ({"c"} if accumulate else {"left_sums"})


@pytest.mark.parametrize(("number", "elements"), [(9, {100, 135}), (4, {100, 135})])
def test_two_low_tiles_fetch_a_half_each(number: int, elements: set[int]) -> None:
    """Together they fetch what one alone does."""
    _, *rest = tiles(6, False)
    values = [{"part": part, "left": number} for part in range(2 if number > 6 else 1)]
    found = {compile_expr(x.address.indices[0])(v) for x in rest[0].prefetch for v in values}
    assert found == elements and {x.elements for x in rest[0].prefetch} == {35}
