"""Row groups, interpreted: softmax, layer norm, log-softmax as one kernel each."""

import numpy as np
import pytest

import graphc
from graphc.base.dtypes import by_name
from graphc.base.options import CompileOptions
from graphc.driver.compiler import compile_stages
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.schedule.loops import MAX_ROWS
from graphc.targets.isa import Target
from graphc.tensor_ir.nodes import Prefetch
from graphc.tensor_ir.visitor import walk
from support.lowered import build, check_interpreted, context
from support.tolerance import assert_close

SHAPES = [(1, 1), (3, 7), (2, 3, 8), (4, 1), (1, 33)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("op_name", ["softmax", "log_softmax"])
def test_softmax_is_one_kernel(op_name: str, shape: tuple[int, ...]) -> None:
    graph = build({"x": shape}, lambda make, x: make(op_name, x["x"], axis=-1))
    lowered = check_interpreted(graph, context(threads=2), exact=False)
    assert len(lowered.calls) == 1


@pytest.mark.parametrize("shape", [(3, 7), (2, 3, 8)])
def test_layer_norm_is_one_kernel(shape: tuple[int, ...]) -> None:
    graph = build(
        {"x": shape, "scale": shape[-1:], "bias": shape[-1:]},
        lambda make, x: make("layer_norm", x["x"], x["scale"], x["bias"], axis=-1, epsilon=1e-5),
    )
    lowered = check_interpreted(graph, context(), exact=False)
    assert len(lowered.calls) == 1


def test_a_group_may_end_in_one_value_per_row() -> None:
    def body(make, x):  # type: ignore[no-untyped-def]
        largest = make("reduce_max", x["x"], axes=(1,), keep_dims=True)
        return make("reduce_sum", make("sub", x["x"], largest), axes=(1,), keep_dims=False)

    lowered = check_interpreted(build({"x": (5, 9)}, body), context())
    assert len(lowered.calls) == 1


def test_what_feeds_the_rows_joins_the_group() -> None:
    graph = build(
        {"x": (4, 9), "mask": (9,)},
        lambda make, x: make("softmax", make("add", x["x"], x["mask"]), axis=-1),
    )
    lowered = check_interpreted(graph, context(), exact=False)
    assert len(lowered.calls) == 1


def softmax_of(dims: tuple[int, ...], dtype: str = "f32", op_name: str = "softmax") -> Graph:
    graph = Graph("rows")
    x = graph.make_input(LogicalTensor(by_name(dtype), dims), "x")
    graph.make_output(graph.make(op_name, [x], {"axis": -1}).outputs[0])
    return graph


@pytest.mark.exhaustive
@pytest.mark.parametrize("target", ["native", "avx2", "generic"])
@pytest.mark.parametrize(
    ("dims", "dtype"),
    [
        ((2 * MAX_ROWS + 3, 40), "f32"),
        ((3, MAX_ROWS, 33), "f32"),
        ((5, 1, 17), "f32"),
        ((3, 20_001), "f32"),
        ((9, 50), "f16"),
        ((9, 50), "f64"),
    ],
)
def test_rows_interleaved_or_one_at_a_time(target: str, dims: tuple[int, ...], dtype: str) -> None:
    """Whole blocks and a rest; one row at a time; rows that are kept in the result."""
    x = np.random.default_rng(5).standard_normal(dims).astype(by_name(dtype).numpy)
    for op_name in ("softmax", "log_softmax"):
        graph = softmax_of(dims, dtype, op_name)
        (expected,) = graph.evaluate([x])
        one, two, other = (
            graphc.compile(graph, target, threads, disabled=off)(x)
            for threads, off in ((1, ()), (2, ()), (1, ("row-blocks",)))
        )
        assert_close(one, expected)
        np.testing.assert_array_equal(one, two)
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("isa", ["avx2", "generic"])
@pytest.mark.parametrize(
    ("op_name", "dims", "dtype", "hints"),
    [
        ("softmax", (3, 700, 257), "f32", 2),
        ("log_softmax", (1500, 400), "f16", 2),
        ("softmax", (40, 257), "f32", 0),  # stays in L2
        ("softmax", (600_001,), "f32", 0),  # a single row
        ("log_softmax", (1, 1, 600_001), "f32", 0),
        (
            "rms_norm",
            (1500, 400),
            "f32",
            0,
        ),  # a loop without an expensive value waits for memory itself
    ],
)
def test_next_rows_are_prefetched_or_not(
    op_name: str, dims: tuple[int, ...], dtype: str, hints: int, isa: str
) -> None:
    """The hints name the same columns of the rows behind the block; results do not depend on them."""
    graph = softmax_of(dims, dtype, op_name)
    x = np.random.default_rng(5).standard_normal(dims).astype(by_name(dtype).numpy)
    found = []
    for off in ((), ("next-rows",)):
        options = CompileOptions(disabled=frozenset(off))
        lowered = compile_stages(graph, Target(isa), options).lowered
        found.append(
            [
                node
                for f in lowered.module.functions
                for node in walk(f)
                if isinstance(node, Prefetch)
            ]
        )
    assert [len(found[0]), len(found[1])] == [hints, 0]
    assert [one.level for one in found[0]] == [1, 0][:hints]
    with_hints, without = (
        graphc.compile(graph, isa, disabled=off)(x) for off in ((), ("next-rows",))
    )
    np.testing.assert_array_equal(with_hints, without)


def test_rows_that_are_not_finite() -> None:
    x = np.zeros((12, 40), np.float32)
    x[1, 3], x[2, 4], x[3], x[4, 5] = np.inf, np.nan, -np.inf, -np.inf
    x[5] = np.linspace(-200, 0, 40)
    y = graphc.compile(softmax_of(x.shape))(x)
    assert np.isnan(y[1:4]).all()
    assert y[4, 5] == 0
    assert_close(y[4:], softmax_of(x.shape).evaluate([x])[0][4:])
