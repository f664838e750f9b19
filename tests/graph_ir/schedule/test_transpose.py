"""Kernels that are permutations of axes, with merged axes, and their tiles."""

from __future__ import annotations

import pytest

from graphc.base.errors import UserError
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.schedule import parse_schedule
from graphc.graph_ir.rewriting.kernel_group import group_of
from graphc.graph_ir.schedule.spaces import space_of
from graphc.graph_ir.schedule.transpose import permuted, transpose_tiles_of
from support.lowered import build, context


@pytest.mark.parametrize(
    ("dims", "source", "expected"),
    [
        ((5, 7), (1, 0), ((5, 7), (1, 5))),
        ((1, 56, 56, 256), (0, 2, 3, 1), ((3136, 256), (1, 3136))),
        ((8, 1, 12, 64), (0, 2, 1, 3), ((6144,), (1,))),
        ((4, 3, 2), (2, 1, 0), ((4, 3, 2), (1, 4, 12))),
        ((), (), ((), ())),
    ],
)
def test_neighbors_are_merged(
    dims: tuple[int, ...], source: tuple[int, ...], expected: tuple[tuple[int, ...], ...]
) -> None:
    assert permuted(dims, source) == expected


def space(graph: Graph, isa: str = "avx2"):  # type: ignore[no-untyped-def]
    (op,) = [op for op in graph.ops if op.kind not in ("source", "sink")]
    return op, space_of(op, context(isa))


def transposed(*dims: int, perm: tuple[int, ...] = (1, 0)) -> Graph:
    return build({"x": dims}, lambda make, x: make("transpose", x["x"], perm=perm))


@pytest.mark.parametrize(("isa", "lanes"), [("avx512", 16), ("avx2", 8), ("generic", 4)])
def test_tiles_are_as_wide_as_vectors_and_strips_as_lines(isa: str, lanes: int) -> None:
    op, _ = space(transposed(100, 64), isa)
    tiles = transpose_tiles_of(group_of(op), context(isa).target)
    assert tiles and (tiles.lanes, tiles.strip, tiles.along) == (lanes, 16, 0)


def test_few_rows_at_a_time_where_lines_are_read_whole() -> None:
    assert space(transposed(1024, 1024))[1].pick == parse_schedule(
        "transpose tasks=1 inner=tiles block=16"
    )
    assert space(transposed(1000, 1001))[1].pick.number("block") == 32
    assert space(transposed(100, 7))[1].pick.number("block") == 7


def test_copies_of_rows_and_other_groups_have_no_tiles() -> None:
    rows = space(transposed(5, 6, 40, perm=(1, 0, 2)))[1]
    assert rows.pick.word("inner") == "vector"
    with pytest.raises(UserError, match="more than a permutation of axes"):
        rows.complete(parse_schedule("inner=tiles"))
    with pytest.raises(UserError, match="block must be at most 64 rows"):
        space(transposed(100, 64))[1].complete(parse_schedule("block=65"))
