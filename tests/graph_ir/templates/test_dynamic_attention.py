"""Attention over dynamic numbers of queries and keys: one kernel, every tail, nothing read or written outside."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from graphc import Graph
from graphc.base.dims import Size, Symbol, size
from graphc.base.dtypes import F32, F64, DType
from graphc.base.errors import UserError
from graphc.codegen.host import host_supports
from graphc.driver.compiler import compile as compile_model
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.ir.schedule import parse_schedule
from graphc.graph_ir.passes import pipeline
from graphc.graph_ir.schedule.spaces import space_of
from graphc.runtime.executor import CompiledModel
from graphc.tools.fuzz.guarded import Edge, guarded, guarded_copy
from support.lowered import context

ISAS = [isa for isa in ("avx512", "avx2") if host_supports(isa)]
B, S, K = size(Symbol("B", 0, 3)), size(Symbol("S", 0, 200)), size(Symbol("K", 1, 90))
TAILS = (1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 33, 64, 97)
"""Few rows, tiles of each ISA and one more or less, vectors and panels and one more or less, primes."""

EDGES: tuple[Edge, ...] = ("start", "end")

Array = np.ndarray[tuple[int, ...], np.dtype[np.generic]]


def masked(batch: Size, length: Size, dtype: DType = F32) -> Graph:
    """Two heads that share a mask of `length` columns: keys are transposed, and so is the result."""
    graph = Graph("masked")
    shapes = {"q": (batch, 2, length, 7), "k": (batch, 2, length, 7), "v": (batch, 2, length, 19)}
    q, k, v = (graph.make_input(LogicalTensor(dtype, s), n) for n, s in shapes.items())
    mask = graph.make_input(LogicalTensor(dtype, (batch, 1, 1, length)), "mask")
    scores = graph.make("matmul_core", [q, k], {"transpose_b": True}).outputs[0]
    weights = graph.make("softmax", graph.make("add", [scores, mask]).outputs).outputs[0]
    mixed = graph.make("matmul_core", [weights, v], name="mix").outputs[0]
    graph.make_output(graph.make("transpose", [mixed], {"perm": (0, 2, 1, 3)}).outputs[0], "y")
    return graph


def crossed(queries: Size, keys: Size) -> Graph:
    """Queries and keys of different numbers, with work on rows that is not a softmax alone, and shared keys."""
    graph = Graph("crossed")
    q = graph.make_input(LogicalTensor(F32, (3, queries, 8)), "q")
    k, v = (
        graph.make_input(LogicalTensor(F32, s), n) for n, s in (("k", (8, keys)), ("v", (keys, 40)))
    )
    scores = graph.make("tanh", graph.make("matmul_core", [q, k]).outputs).outputs
    weights = graph.make("softmax", graph.make("softmax", scores).outputs).outputs[0]
    graph.make_output(graph.make("matmul_core", [weights, v]).outputs[0], "y")
    return graph


def arrays_of(
    model: CompiledModel, sizes: Mapping[str, int], rng: np.random.Generator
) -> list[Array]:
    found = []
    for spec in model.inputs:
        shape = [one if isinstance(one, int) else sizes[str(one)] for one in spec.shape]
        found.append(rng.standard_normal(shape).astype(spec.dtype.numpy))
    return found


def between_guards(
    model: CompiledModel, arrays: list[Array], shape: tuple[int, ...], at: Edge
) -> Array:
    inputs = {x.name: guarded_copy(a, at) for x, a in zip(model.inputs, arrays, strict=True)}
    result = guarded(shape, arrays[0].dtype, at)
    model.bind(inputs, [result])()
    return result


@pytest.mark.exhaustive
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
def test_every_tail(dtype: DType, isa: str, rng: np.random.Generator) -> None:
    """In one block of rows, and in many on two threads; the bits are those of the model of that length."""
    one = compile_model(masked(B, S, dtype), isa, 1)
    many = compile_model(masked(B, S, dtype), isa, 2, schedules={"mix": "rows=2"})
    for model in (one, many):
        assert [x["kernel"].split("_")[1] for x in model.stats["calls"]] == ["attention"]
    for number, length in enumerate(TAILS):
        batch, at = 1 + number % 3, EDGES[number % 2]
        arrays = arrays_of(one, {"B": batch, "S": length}, rng)
        found, cut = (
            between_guards(model, arrays, (batch, length, 2, 19), at) for model in (one, many)
        )
        (wanted,) = masked(batch, length, dtype).evaluate(arrays)
        np.testing.assert_allclose(found, wanted, 2e-5, 2e-6)
        assert cut.tobytes() == found.tobytes(), length


@pytest.mark.exhaustive
@pytest.mark.parametrize("isa", ISAS)
def test_the_bits_are_those_of_the_model_of_that_length(isa: str, rng: np.random.Generator) -> None:
    model = compile_model(masked(B, S), isa)
    for batch, length in ((2, 1), (1, 3), (3, 4), (1, 5), (2, 15), (2, 33), (1, 127)):
        arrays = arrays_of(model, {"B": batch, "S": length}, rng)
        alone = compile_model(masked(batch, length), isa)
        assert model(*arrays).tobytes() == alone(*arrays).tobytes(), (batch, length)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("isa", "depth", "width", "lengths"),
    [("avx512", 32, 32, (2, 3)), ("avx2", 16, 24, (2, 4)), ("avx2", 24, 80, (5,))],
)
def test_few_rows_split_their_sums_as_those_of_known_sizes(
    isa: str, depth: int, width: int, lengths: tuple[int, ...], rng: np.random.Generator
) -> None:
    """Values as wide as a register tile, and a last panel of one vector."""
    if isa not in ISAS:
        pytest.skip(f"this CPU has no {isa}")

    def heads(length: Size) -> Graph:
        graph, dims = Graph("heads"), (depth, depth, width)
        q, k, v = (
            graph.make_input(LogicalTensor(F32, (2, length, one)), name)
            for one, name in zip(dims, "qkv", strict=True)
        )
        scores = graph.make("matmul_core", [q, k], {"transpose_b": True}).outputs
        weights = graph.make("softmax", scores).outputs[0]
        graph.make_output(graph.make("matmul_core", [weights, v]).outputs[0], "y")
        return graph

    model = compile_model(heads(S), isa)
    for length in lengths:
        arrays = arrays_of(model, {"S": length}, rng)
        alone = compile_model(heads(length), isa)
        assert model(*arrays).tobytes() == alone(*arrays).tobytes(), length


@pytest.mark.parametrize("isa", ISAS)
def test_results_a_dynamic_number_of_heads_apart(isa: str, rng: np.random.Generator) -> None:
    """Rows and columns are numbers, but not the distance of the rows of a result that is transposed."""

    def heads(number: Size) -> Graph:
        graph = Graph("heads")
        q, k, v = (graph.make_input(LogicalTensor(F32, (number, 3, 8)), name) for name in "qkv")
        scores = graph.make("matmul_core", [q, k], {"transpose_b": True}).outputs
        weights = graph.make("softmax", scores).outputs[0]
        mixed = graph.make("matmul_core", [weights, v]).outputs
        graph.make_output(graph.make("transpose", mixed, {"perm": (1, 0, 2)}).outputs[0], "y")
        return graph

    model = compile_model(heads(S), isa)
    assert [x["kernel"].split("_")[1] for x in model.stats["calls"]] == ["attention"]
    for number in (0, 5):
        arrays = arrays_of(model, {"S": number}, rng)
        found = between_guards(model, arrays, (3, number, 8), "end")
        assert found.tobytes() == compile_model(heads(number), isa)(*arrays).tobytes(), number


@pytest.mark.parametrize("sizes", [{"B": 0, "S": 7}, {"B": 2, "S": 0}], ids=str)
def test_nothing_of_nothing(sizes: Mapping[str, int], rng: np.random.Generator) -> None:
    model = compile_model(masked(B, S))
    arrays = arrays_of(model, sizes, rng)
    assert model(*arrays).shape == (sizes["B"], sizes["S"], 2, 19)


@pytest.mark.parametrize("most", [40, None], ids=["bounded", "unbounded"])
def test_what_no_keys_say_is_nothing(most: int | None, rng: np.random.Generator) -> None:
    keys = size(Symbol("K", 0, most) if most else Symbol("K", 0))
    graph = Graph("heads")
    shapes = {"q": (2, 5, 8), "k": (2, keys, 8), "v": (2, keys, 3)}
    q, k, v = (graph.make_input(LogicalTensor(F32, shape), x) for x, shape in shapes.items())
    scores = graph.make("matmul_core", [q, k], {"transpose_b": True}).outputs
    weights = graph.make("softmax", scores).outputs[0]
    graph.make_output(graph.make("matmul_core", [weights, v]).outputs[0], "y")
    model = compile_model(graph)
    for number in (0, 7):
        arrays = arrays_of(model, {"K": number}, rng)
        (wanted,) = graph.at_sizes({"K": number}).evaluate(arrays)
        found = np.full_like(wanted, np.nan)  # none of it may stay as it was
        model.bind(dict(zip("qkv", arrays, strict=True)), [found])()
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.exhaustive
@pytest.mark.parametrize("isa", ISAS)
def test_other_work_on_rows_than_a_softmax(isa: str, rng: np.random.Generator) -> None:
    """With both numbers open, and with one of them known."""
    for queries, keys in ((S, K), (S, 37), (23, K)):
        model = compile_model(crossed(queries, keys), isa)
        assert [x["kernel"].split("_")[1] for x in model.stats["calls"]] == ["attention"]
        for sizes in ({"S": 23, "K": 37}, {"S": 5, "K": 90}, {"S": 200, "K": 1}):
            rows, columns = (x if isinstance(x, int) else sizes[str(x)] for x in (queries, keys))
            arrays = arrays_of(model, sizes, rng)
            (wanted,) = crossed(rows, columns).evaluate(arrays)
            found = between_guards(model, arrays, (3, rows, 40), "end")
            np.testing.assert_allclose(found, wanted, 2e-5, 2e-6)


def test_more_keys_than_a_stack_holds_are_several_kernels() -> None:
    calls = compile_model(masked(1, size(Symbol("S")))).stats["calls"]
    assert len(calls) > 1 and not any("attention" in x["kernel"] for x in calls)


def test_schedules_that_need_known_sizes_are_refused() -> None:
    graph, ctx = masked(B, S), context(threads=2)
    pipeline.run(graph, ctx)
    (op,) = [op for op in graph.ops if op.op_name == "fused"]
    space = space_of(op, ctx)
    for schedule in space.candidates:
        assert space.check(schedule) == schedule
    for requested in ("split=rows", "prefetch=head"):
        with pytest.raises(UserError, match="split must be heads and prefetch none"):
            space.complete(parse_schedule(requested))
    with pytest.raises(UserError, match="softmax=online needs"):
        space.complete(parse_schedule("softmax=online"))
