"""Register tiles over a number of rows that is known when a kernel runs: each row once, whatever the number."""

from __future__ import annotations

import numpy as np

from graphc.base.dtypes import S64
from graphc.graph_ir.templates.row_tiles import row_tiles
from graphc.tensor_ir import builder as t
from graphc.tensor_ir import interpreter
from graphc.tensor_ir.nodes import Block, Buffer, Expr, For, Function, Module, Stmt, Store, Var


def test_each_row_is_in_one_tile_of_at_most_the_height() -> None:
    rows, found = Var("size_rows"), Buffer("found", S64, (40,))

    def tile(first: Expr, count: int) -> Stmt:
        i = Var("i")
        place = (t.add(first, i),)
        store = Store(found, place, t.add(t.load(found, place), count))
        return For(i, t.ZERO, t.as_expr(count), store)

    body = Block((row_tiles(rows, 5, tile),))
    module = Module((Function("main", (found, rows), body),))
    for number in (1, 4, 5, 6, 7, 10, 13, 40):
        heights = np.zeros(40, np.int64)
        interpreter.run(module, "main", [heights, number])
        assert heights[:number].min() > 0 and heights.max() <= 5, number
        assert not heights[number:].any()
        rest = number % 5
        assert (heights[: max(number - rest - 5, 0)] == 5).all()
