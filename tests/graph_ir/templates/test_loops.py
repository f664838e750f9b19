"""Pointwise and reduction groups, interpreted, in plain and blocked layouts."""

import pytest

from graphc.base.dtypes import F32, S64
from graphc.graph_ir.ir.format import parse_format
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.lowering.registry import get_func
from graphc.graph_ir.schedule.loops import MAX_SCALARS
from graphc.tensor_ir import builder as t
from graphc.tensor_ir import interpreter
from graphc.tensor_ir.nodes import For, Load
from graphc.tensor_ir.visitor import walk, walk_statements
from support.lowered import build, check_interpreted, context, integers

SHAPES = [(), (1,), (7,), (8,), (9,), (3, 5), (2, 1, 33), (0, 4)]


@pytest.mark.parametrize("shape", SHAPES)
def test_a_chain_becomes_one_loop_nest(shape: tuple[int, ...]) -> None:
    graph = build(
        {"a": shape, "b": shape},
        lambda make, x: make("relu", make("add", make("mul", x["a"], x["b"]), x["a"])),
    )
    lowered = check_interpreted(graph, context(threads=2))
    assert len(lowered.calls) == 1


def test_broadcast_operands() -> None:
    graph = build({"a": (4, 1, 5), "b": (3, 1)}, lambda make, x: make("sub", x["a"], x["b"]))
    check_interpreted(graph, context())


@pytest.mark.parametrize(
    ("bias", "sizes"),
    [((2, 3, 5, 7), [210]), ((3, 1, 1), [2, 3, 35]), ((7,), [30, 7]), ((1,), [210])],
)
def test_axes_that_all_operands_run_through_as_one_are_one_loop(
    bias: tuple[int, ...], sizes: list[int]
) -> None:
    graph = build(
        {"a": (2, 3, 5, 7), "b": bias}, lambda make, x: make("relu", make("add", x["a"], x["b"]))
    )
    lowered = check_interpreted(graph, context())
    loops = [s for s in walk_statements(lowered.module.functions[0].body) if isinstance(s, For)]
    assert [loop.end for loop in loops] == [t.as_expr(size) for size in sizes]
    assert loops[-1].kind == "vector"


@pytest.mark.parametrize("axes", [(0,), (1,), (2,), (0, 2), (0, 1, 2)])
@pytest.mark.parametrize("keep_dims", [True, False])
def test_reductions_over_any_axes(axes: tuple[int, ...], keep_dims: bool) -> None:
    def body(make, x):  # type: ignore[no-untyped-def]
        total = make("reduce_sum", make("neg", x["a"]), axes=axes, keep_dims=keep_dims)
        return make("relu", total)

    lowered = check_interpreted(build({"a": (3, 4, 9)}, body), context(threads=2))
    assert len(lowered.calls) == 1, "prologue and epilogue belong to the reduction"


def test_large_loops_are_split_among_threads_in_whole_vectors() -> None:
    graph = build({"a": (40_000,)}, lambda make, x: make("neg", x["a"]))
    check_interpreted(graph, context(threads=3))


@pytest.mark.parametrize(
    ("dims", "source", "result"),
    [
        ((5, 7), "MK", "MK4m"),
        ((5, 7), "MK4m2k", "MK"),
        ((8, 6), "MK4m2k", "MK2m3k"),
        ((3, 4), "MK", "KM"),
    ],
)
def test_reorders_between_layouts(dims: tuple[int, ...], source: str, result: str) -> None:
    graph = Graph("reorder")
    x = graph.make_input(LogicalTensor(F32, dims, parse_format(source, "MK")), "x")
    op = graph.make("reorder", (x,), {"format": parse_format(result, "MK")})
    value = integers(dims)
    out = op.outputs[0].details
    memory = out.format.pack(value) * 0 + 55
    module = get_func(op, context())
    interpreter.run(module, module.functions[0].name, [x.details.format.pack(value), memory])
    assert (out.format.unpack(memory, dims) == value).all()


@pytest.mark.parametrize("shape", [(3, 5, 9), (3, 5, 4), (8, 2), (1, 4)])
@pytest.mark.parametrize("threads", [1, 2])
def test_few_elements_from_apart_are_loaded_one_at_a_time(
    shape: tuple[int, ...], threads: int
) -> None:
    """The inner axis of the result is the outer one of the operand: a vector only where it is long."""
    perm = tuple(reversed(range(len(shape))))
    graph = build({"x": shape}, lambda make, x: make("neg", make("transpose", x["x"], perm=perm)))
    lowered = check_interpreted(graph, context(threads=threads))
    kinds = {
        s.kind
        for f in lowered.module.functions
        for s in walk_statements(f.body)
        if isinstance(s, For)
    }
    assert ("unrolled" in kinds) == (1 < shape[0] <= MAX_SCALARS)


def test_what_a_row_is_gathered_from_is_looked_up_once_per_row() -> None:
    graph = Graph("rows")
    x = graph.make_input(LogicalTensor(F32, (9, 40)), "x")
    indices = graph.make_input(LogicalTensor(S64, (5,)), "indices")
    op = graph.make("gather", (x, indices), {"axis": 0})
    (function,) = get_func(op, context()).functions
    (inner,) = [
        s for s in walk_statements(function.body) if isinstance(s, For) and s.kind == "vector"
    ]
    loads = {e.buffer.name for e in walk(inner.body) if isinstance(e, Load)}
    assert loads == {"in0"}
