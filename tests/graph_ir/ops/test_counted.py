"""Sizes that a run counts: what follows has them, memory is planned for the largest."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import graphc
from graphc import Graph
from graphc.base.dims import Size, Symbol, size
from graphc.base.dtypes import F32, S64
from graphc.base.errors import UserError
from graphc.base.size_limits import at_most
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.ops.dynamic_sizes import largest_counts
from graphc.graph_ir.rewriting.known_sizes import with_sizes
from graphc.graph_ir.text.parser import parse_graph
from graphc.graph_ir.text.printer import print_graph
from graphc.runtime.executor import CompiledModel

N, K = size(Symbol("N", 1, 40)), size(Symbol("K", 0, 40))


def positive_rows(rows: Size, most: Size) -> Graph:
    """The rows of x whose first element is positive, times a matrix, the sum of all, and a row for each."""
    graph = Graph("positive")
    x = graph.make_input(LogicalTensor(F32, (rows, 6)), "x")
    w = graph.make_constant(np.arange(30, dtype=np.float32).reshape(6, 5), "w")
    attrs = {"starts": (0, 0), "sizes": (rows, 1)}
    first = graph.make("slice", [x], attrs).outputs
    flat = graph.make("reshape", first, {"shape": (rows,)}).outputs[0]
    mask = graph.make("gt", [flat, graph.make_constant(np.float32(0))]).outputs
    indices, total = graph.make("true_indices", mask).outputs
    graph.make("count", [total], {"size": (K,), "most": (most,)})
    kept = graph.make("counted_rows", [indices], {"size": (K,)}).outputs[0]
    chosen = graph.make("gather", [x, kept], {"axis": 0}, "chosen").outputs[0]
    graph.make_output(graph.make("matmul_core", [chosen, w]).outputs[0], "y")
    graph.make_output(graph.make("reduce_sum", [chosen], {"axes": (0,)}).outputs[0], "sum")
    both = graph.make("concat", [x, chosen], {"axis": 0}).outputs[0]
    graph.make_output(graph.make("relu", [both]).outputs[0], "both")
    graph.make_output(graph.make("count_up", [], {"size": (K,)}).outputs[0], "numbers")
    graph.make_counts()
    return graph


def expected(x: np.ndarray) -> list[np.ndarray]:
    chosen = x[x[:, 0] > 0]
    w = np.arange(30, dtype=np.float32).reshape(6, 5)
    both = np.maximum(np.concatenate([x, chosen]), 0)
    return [chosen @ w, chosen.sum(0), both, np.arange(len(chosen))]


@pytest.fixture(scope="module")
def model() -> CompiledModel:
    return graphc.compile(positive_rows(N, N), threads=2)


def runs(rng: np.random.Generator, *counts: int) -> list[np.ndarray]:
    """Arrays with none, some and all of their rows positive."""
    found = []
    for rows in counts:
        for share in (0, 0.5, 1):
            x = rng.standard_normal((rows, 6)).astype(np.float32)
            x[:, 0] = np.where(rng.random(rows) < share, 1, -1)
            found.append(x)
    return found


def test_results_have_the_size_that_was_counted(
    model: CompiledModel, rng: np.random.Generator
) -> None:
    assert str(model.outputs[0]) == "y: f32[K,5]" and len(model.outputs) == 4
    for x in runs(rng, 1, 2, 7, 40):
        for got, wanted in zip(model(x), expected(x), strict=True):
            assert got.shape == wanted.shape
            np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)


def test_fixed_models_count_too(rng: np.random.Generator) -> None:
    graph = positive_rows(7, 7)
    alone = graphc.compile(graph, threads=1)
    for x in runs(rng, 7):
        for got, wanted, known in zip(alone(x), expected(x), graph.evaluate([x]), strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)
            np.testing.assert_allclose(known, wanted, rtol=1e-5, atol=1e-5)


def test_texts_files_and_references_know_them(
    model: CompiledModel, rng: np.random.Generator, tmp_path: Path
) -> None:
    graph = positive_rows(N, N)
    text = print_graph(graph, full=True)
    assert "<K=0..40>" in text and print_graph(parse_graph(text), full=True) == text
    model.save(tmp_path / "m.gcm")
    loaded = graphc.load(tmp_path / "m.gcm")
    (x,) = runs(rng, 5)[1:2]
    reference = with_sizes(graph, {"N": 5}).evaluate([x])
    for got, again, known in zip(model(x), loaded(x), reference, strict=True):
        assert np.array_equal(got, again) and got.shape == known.shape
        np.testing.assert_allclose(got, known, rtol=1e-5, atol=1e-5)


def test_a_count_comes_before_what_has_its_size() -> None:
    """Also where no tensor leads from one to the other."""
    graph = positive_rows(N, N)
    graph.ops.sort(key=lambda op: op.op_name != "count_up")
    graph.sort()
    names = [op.op_name for op in graph.ops]
    assert names.index("count") < names.index("count_up")


def test_bound_arrays_have_the_largest_sizes(
    model: CompiledModel, rng: np.random.Generator
) -> None:
    (x,) = runs(rng, 9)[1:2]
    outputs = model.allocate({"x": x})
    assert [y.shape for y in outputs] == [(9, 5), (6,), (18, 6), (9,)]
    assert model.bind({"x": x}, outputs)() == 0
    for whole, wanted in zip(outputs, expected(x), strict=True):
        np.testing.assert_allclose(
            whole.reshape(-1)[: wanted.size], wanted.reshape(-1), rtol=1e-5, atol=1e-5
        )


def test_each_count_may_be_limited_by_the_one_before() -> None:
    """However many there are, what is planned for has sizes of the inputs only."""
    graph = Graph("chain")
    x = graph.make_input(LogicalTensor(S64, (N,)), "x")
    number = graph.make("slice", [x], {"starts": (0,), "sizes": (1,)}).outputs[0]
    most = N
    for i in range(1500):
        count = size(Symbol(f"K{i}", 0, 40))
        number = graph.make("count", [number], {"size": (count,), "most": (most,)}).outputs[0]
        most = count + 1 if i % 500 == 0 else count
    assert set(largest_counts(graph).values()) == {N, N + 1, N + 2, N + 3}


def test_the_largest_that_expressions_can_be() -> None:
    most = {"K": N}
    assert at_most(K * 3 + 1, most) == N * 3 + 1
    assert at_most(N * 2 - K, most) == N * 2
    assert at_most((K + 1) * K, most) == (N + 1) * N
    assert at_most(7, most) == 7


def squares() -> Graph:
    """The squares of as many numbers as the sum of x says, and thrice the sum of these numbers."""
    graph = Graph("squares")
    x = graph.make_input(LogicalTensor(S64, (N,)), "x")
    total = graph.make("reduce_sum", [x], {"axes": (0,), "keep_dims": True}).outputs
    u, room = size(Symbol("u", 0)), size(Symbol("max_u"))
    graph.make("count", total, {"size": (u,), "most": (room,), "unlimited": True})
    numbers = graph.make("count_up", [], {"size": (u,)}).outputs[0]
    both = graph.make("mul", [numbers, numbers]).outputs[0]
    graph.make_output(both, "squares")
    row = graph.make("reshape", [numbers], {"shape": (1, u)}).outputs
    row = graph.make("cast", row, {"dtype": F32}).outputs
    one = graph.make_constant(np.ones((1, 1), np.float32))
    ones = graph.make("broadcast", [one], {"shape": (u, 3)}).outputs
    graph.make_output(graph.make("matmul_core", [*row, *ones]).outputs[0], "sum")
    graph.make_counts()
    return graph


@pytest.fixture(scope="module")
def unlimited() -> CompiledModel:
    return graphc.compile(squares(), threads=2)


@pytest.mark.parametrize("counts", [(3, 0), (60, 4), (60, 5), (900, 100), (0, 0), (7, 1)])
def test_counts_without_a_limit_find_their_room(
    unlimited: CompiledModel, counts: tuple[int, int]
) -> None:
    x = np.array(counts)
    wanted = np.arange(x.sum()) ** 2
    for got, total in (unlimited(x), with_sizes(squares(), {"N": 2}).evaluate([x])):
        np.testing.assert_array_equal(got, wanted)
        np.testing.assert_array_equal(total, np.full((1, 3), np.arange(x.sum()).sum()))
    text = print_graph(squares(), full=True)
    assert print_graph(parse_graph(text), full=True) == text


def test_many_threads_share_the_room_of_a_model() -> None:
    with graphc.compile(squares(), threads=1) as model, ThreadPoolExecutor(8) as pool:
        sizes = [70 + 31 * number % 1000 for number in range(64)]
        for number, (got, _) in zip(
            sizes, pool.map(model, [np.array([n]) for n in sizes]), strict=True
        ):
            np.testing.assert_array_equal(got, np.arange(number) ** 2)


def test_bound_arrays_have_the_room_of_their_inputs(tmp_path: Path) -> None:
    graphc.compile(squares()).save(tmp_path / "m.gcm")
    model, x = graphc.load(tmp_path / "m.gcm"), np.array([2000])
    results = model.allocate({"x": x})
    call = model.bind({"x": x}, results)
    for number in (2000, 3):
        x[0] = number
        assert call() == 0
        np.testing.assert_array_equal(results[0][:number], np.arange(number) ** 2)
    x[0] = 2600
    with pytest.raises(UserError, match="room for max_u=2500, this run needs 2600; bind arrays"):
        call()


def test_no_room_is_an_error_of_the_caller() -> None:
    with (
        graphc.compile(squares()) as model,
        pytest.raises(UserError, match="must be in 0.., got -3"),
    ):
        model(np.array([-4, 1]))
    graph = Graph("cube")
    u, room = size(Symbol("u", 0)), size(Symbol("max_u"))
    x = graph.make_input(LogicalTensor(S64, (1,)), "x")
    graph.make("count", [x], {"size": (u,), "most": (room,), "unlimited": True})
    one = graph.make_constant(np.ones((1, 1, 1), np.float32))
    graph.make_output(graph.make("broadcast", [one], {"shape": (u, u, u)}).outputs[0])
    graph.make_counts()
    with graphc.compile(graph) as model:
        assert model(np.array([2])).shape == (2, 2, 2)
        with pytest.raises(UserError, match="no memory for the [0-9]+ bytes that this call needs"):
            model(np.array([1 << 20]))
