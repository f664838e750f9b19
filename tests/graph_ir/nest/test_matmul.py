"""The matmul template, interpreted: every size around the tile, layout of B, blocking and epilogue, exactly."""

from dataclasses import replace

import numpy as np
import pytest

from graphc.base.dtypes import F32
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.ir.schedule import parse_schedule
from graphc.graph_ir.ops.matmul import MatmulCore
from graphc.graph_ir.rewriting.kernel_group import group_of
from graphc.graph_ir.schedule.cost import worth_threads
from graphc.graph_ir.schedule.matmul import MatmulSpace
from graphc.graph_ir.schedule.problem import problem_of
from graphc.tensor_ir.nodes import Brgemm, For
from graphc.tensor_ir.visitor import walk
from support.compiled import graph_of_op, run_native
from support.lowered import build, check_interpreted, context, integers, interpret, lower


def matmul_graph(m: int, n: int, k: int, batch: tuple[int, ...] = (), **attrs: bool) -> Graph:
    a = (*batch, k, m) if attrs.get("transpose_a") else (*batch, m, k)
    b = (*batch, n, k) if attrs.get("transpose_b") else (*batch, k, n)
    return build({"a": a, "b": b}, lambda make, x: make("matmul_core", x["a"], x["b"], **attrs))


@pytest.mark.exhaustive
@pytest.mark.parametrize("isa", ["avx512", "avx2", "generic"])
@pytest.mark.parametrize("m", [1, 3, 4, 5, 13])
@pytest.mark.parametrize(("n", "k"), [(1, 1), (7, 4), (8, 5), (9, 3), (25, 2), (49, 1)])
def test_sizes_around_the_tile(isa: str, m: int, n: int, k: int) -> None:
    check_interpreted(matmul_graph(m, n, k), context(isa))


@pytest.mark.parametrize("attrs", [{"transpose_a": True}, {"transpose_b": True}])
def test_transposed_operands(attrs: dict[str, bool]) -> None:
    check_interpreted(matmul_graph(7, 17, 5, **attrs), context())


def test_many_rows_pack_a_plain_right_hand_side() -> None:
    check_interpreted(matmul_graph(61, 10, 3), context())


@pytest.mark.parametrize("batch", [(2,), (2, 3), (1,)])
def test_batches(batch: tuple[int, ...]) -> None:
    check_interpreted(matmul_graph(5, 9, 3, batch), context(threads=2))


def test_batch_axes_broadcast() -> None:
    graph = build(
        {"a": (2, 1, 5, 3), "b": (4, 3, 9)}, lambda make, x: make("matmul_core", x["a"], x["b"])
    )
    check_interpreted(graph, context())


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_constant_weights_epilogue_and_threads(threads: int) -> None:
    graph = Graph("layer")
    source = graph.make_input(LogicalTensor(F32, (29, 7)), "x")
    weight = graph.make_constant(integers((7, 26), 3), "w")
    bias = graph.make_constant(integers((26,), 4), "b")
    y = graph.make("matmul_core", (source, weight)).outputs[0]
    y = graph.make("relu", graph.make("add", (y, bias)).outputs).outputs[0]
    graph.make_output(graph.make("add", (y, y)).outputs[0])
    lowered = check_interpreted(graph, context(threads=threads))
    assert len(lowered.calls) == 1, "the whole layer is one kernel"


def test_every_blocking_on_offer_gives_the_same_result() -> None:
    graph = matmul_graph(9, 26, 11)
    ctx = context()
    op = next(op for op in graph.ops if isinstance(op, MatmulCore))
    space = MatmulSpace(op, group_of(op), ctx)
    offered = space.candidates
    assert len({(s.number("mr"), s.number("nv")) for s in offered}) == 3
    for schedule in [*offered, space.complete(parse_schedule("kc=4 mc=4 ng=2"))]:
        lowered = check_interpreted(graph, replace(ctx, tuned={problem_of(op): schedule}))
        assert str(schedule) in lowered.calls[0].note


def test_random_data_is_within_the_error_of_the_sum() -> None:
    graph = matmul_graph(6, 24, 64)
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(s, dtype=np.float32) for s in ((6, 64), (64, 24)))
    result = np.zeros((6, 24), np.float32)
    interpret(lower(graph, context()), [a, b], [result])
    exact = a.astype(np.float64) @ b.astype(np.float64)
    bound = 8 * 2.0**-24 * (np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64))
    assert np.all(np.abs(result - exact) <= bound)


@pytest.mark.parametrize(("m", "n", "k"), [(9, 24, 64), (1, 24, 33), (5, 50, 9), (61, 7, 40)])
def test_the_thread_count_changes_no_bit(m: int, n: int, k: int) -> None:
    graph = matmul_graph(m, n, k)
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(s, dtype=np.float32) for s in ((m, k), (k, n))]
    results = []
    for threads in (1, 2, 3, 7):
        result = np.zeros((m, n), np.float32)
        interpret(lower(graph, context(threads=threads)), arrays, [result])
        results.append(result)
    assert all(np.array_equal(results[0], other) for other in results[1:])


def test_equal_columns_have_equal_sums_in_the_narrow_last_panel_too(
    rng: np.random.Generator,
) -> None:
    a = rng.random((1, 999), np.float32) * 1e6
    graph = graph_of_op("matmul_core", [a, np.empty((40, 999), np.float32)], {"transpose_b": True})
    (result,) = run_native(graph, [a, np.full((40, 999), 0.3, np.float32)])
    assert len(np.unique(result)) == 1


def test_blocks_of_k_share_one_panel() -> None:
    shapes = [(64, 1 << 15), (1 << 15, 30)]
    graph = graph_of_op("matmul_core", [np.empty(shape, np.float32) for shape in shapes], {})
    arrays = [np.ones(shape, np.float32) for shape in shapes]
    (result,) = run_native(graph, arrays)
    assert (result == 1 << 15).all()


@pytest.mark.parametrize(
    ("k", "rows", "fetches"), [(64, 64, False), (1024, 64, True), (1024, 2, False)]
)
def test_panels_from_far_away_are_fetched_ahead(k: int, rows: int, fetches: bool) -> None:
    rng = np.random.default_rng(0)
    graph = Graph("far")
    a = graph.make_input(LogicalTensor(F32, (rows, k)), "a")
    b = graph.make_constant(rng.standard_normal((k, 512), dtype=np.float32), "b")
    graph.make_output(graph.make("matmul_core", (a, b)).outputs[0], "c")
    module = lower(graph, context("avx512")).module
    tiles = [node for node in walk(module) if isinstance(node, Brgemm)]
    assert tiles and any(node.prefetch for node in tiles) == fetches


@pytest.mark.parametrize("threads", [2, 3])
def test_groups_of_panels_and_blocks_of_rows_are_one_parallel_loop(threads: int) -> None:
    """With two nested loops, only the outer one would be shared, and its trips may not divide by the threads."""
    graph = matmul_graph(50, 200, 8)
    requested = {"matmul_core": parse_schedule(f"mc=22 ng={threads}")}
    ctx = replace(context("avx512", threads), requested=requested)
    lowered = check_interpreted(graph, ctx)
    loops = [n for n in walk(lowered.module) if isinstance(n, For) and n.kind == "parallel"]
    assert [loop.var.name for loop in loops] == (
        ["n0_chunk", "m0"] if worth_threads(50 * 200 * 8, ctx.target) else []
    )
