"""A matmul that is lowered head by head and block of rows by block of rows is the matmul."""

from __future__ import annotations

import pytest

from graphc.graph_ir.nest.nest import Stage
from graphc.graph_ir.schedule.matmul_steps import inner_nest
from graphc.graph_ir.templates.attention_matmul import HeadMatmul
from graphc.targets.isa import GemmTile
from graphc.tensor_ir import builder as t
from graphc.tensor_ir.nodes import Block, Brgemm, For, Stmt, Var
from graphc.tensor_ir.visitor import walk
from support.matmul_nests import TARGET, problem, run


def of_heads(layout: str, ahead: int = 0, vectors: int = 3) -> tuple[HeadMatmul, Stmt]:
    """Two heads of eleven rows in blocks of four; B is packed in front of them, all panels of a head at once."""
    given = problem(layout=layout)
    nest = inner_nest("scores", given, GemmTile(4, vectors), TARGET, 4)
    if layout != "panels":
        nest = nest.changed(stages=(Stage("B", "b0", "packed"),))
    made, batch, number = (
        HeadMatmul(nest, TARGET, [(given.a, ahead)] if ahead else []),
        Var("b0"),
        Var("mb"),
    )
    head = made.head([batch])
    depth = nest.depth("m0")
    whole = made.task(depth, head.position.enter("m", number, 4, 4))
    rest = made.task(depth, head.position.enter("m", t.as_expr(2), 4, 3))
    body = Block((*head.before, For(number, t.ZERO, t.as_expr(2), whole), rest))
    return made, For(batch, t.ZERO, t.as_expr(2), body)


@pytest.mark.parametrize("vectors", [1, 2, 3])
@pytest.mark.parametrize("layout", ["plain", "transposed", "panels"])
def test_blocks_of_rows_make_up_the_matmul(layout: str, vectors: int) -> None:
    """Panels that B lies in may be wider or narrower than the tile, which then only says how high it is."""
    made, body = of_heads(layout, vectors=vectors)
    run(made.nest, 11, layout, body)


def test_tiles_prefetch_their_share_of_the_next_head() -> None:
    """Three blocks of rows times three panels."""
    _, body = of_heads("panels", ahead=110)
    hints = [one for node in walk(body) if isinstance(node, Brgemm) for one in node.prefetch]
    assert {one.elements for one in hints} == {-(-110 // 9)}
