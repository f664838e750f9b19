"""Schedules of loops: tasks, and the iteration of the innermost axis; each computes the same."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import graphc
from graphc.base.dtypes import F16, F32
from graphc.base.errors import UserError
from graphc.graph_ir.ir.format import parse_format
from graphc.graph_ir.ir.graph import Graph, Op
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.ir.schedule import parse_schedule
from graphc.graph_ir.lowering.registry import get_func
from graphc.graph_ir.passes.fuse import fuse
from graphc.graph_ir.schedule.loops import LoopSpace
from graphc.graph_ir.schedule.spaces import space_of
from graphc.tensor_ir import interpreter
from graphc.tensor_ir.nodes import For, Function
from graphc.tensor_ir.visitor import walk_statements
from support.lowered import build, context, integers

CTX = context("avx2", threads=2)


def kernel(graph: Graph) -> tuple[Op, LoopSpace]:
    fuse(graph, CTX)
    (op,) = [op for op in graph.ops if op.kind not in ("source", "sink")]
    space = space_of(op, CTX)
    assert isinstance(space, LoopSpace)
    return op, space


def transpose(*dims: int) -> Graph:
    perm = tuple(reversed(range(len(dims))))
    return build({"x": dims}, lambda make, x: make("neg", make("transpose", x["x"], perm=perm)))


def reorder() -> Graph:
    graph = Graph("reorder")
    x = graph.make_input(LogicalTensor(F32, (40, 24), parse_format("MK", "MK")), "x")
    graph.make_output(
        graph.make("reorder", (x,), {"format": parse_format("MK16m", "MK")}).outputs[0]
    )
    return graph


def padded() -> Graph:
    attrs = {"before": (1, 2), "after": (0, 3), "value": 1.5}
    return build({"x": (9, 12)}, lambda make, x: make("neg", make("pad", x["x"], **attrs)))


def sums(*axes: int) -> Graph:
    attrs = {"axes": axes, "keep_dims": False}
    return build(
        {"x": (5, 20, 36)}, lambda make, x: make("neg", make("reduce_sum", x["x"], **attrs))
    )


def softmax() -> Graph:
    def body(make, x):  # type: ignore[no-untyped-def]
        power = make(
            "exp", make("sub", x["x"], make("reduce_max", x["x"], axes=(1,), keep_dims=True))
        )
        return make("div", power, make("reduce_sum", power, axes=(1,), keep_dims=True))

    return build({"x": (7, 37)}, body)


def centered_rows() -> Graph:
    def body(make, x):  # type: ignore[no-untyped-def]
        return make("sub", x["x"], make("reduce_mean", x["x"], axes=(1,), keep_dims=True))

    return build({"x": (7, 37)}, body)


CASES: dict[str, tuple[Graph, dict[str, set[int | str]]]] = {
    "transpose": (transpose(40, 150), {"inner": {"vector"}, "block": {40, 16, 32}}),
    "long transpose": (transpose(150, 20, 3), {"block": {16, 32, 64, 128, 150}}),
    "short transpose": (transpose(6, 9), {"inner": {"vector", "unrolled"}, "block": {6}}),
    "reorder": (reorder(), {"inner": {"vector", "unrolled"}, "block": {16}}),
    "pointwise": (
        build({"x": (9, 12)}, lambda make, x: make("neg", x["x"])),
        {"inner": {"vector", "unrolled"}},
    ),
    "padded": (padded(), {"inner": {"vector", "parts"}}),
    "sum of rows": (sums(2), {"vector": {"result", "terms", "columns"}}),
    "sum of columns": (sums(0, 1), {"vector": {"result", "terms", "columns"}}),
    "sum of all": (sums(0, 1, 2), {"vector": {"terms"}}),
    "softmax": (softmax(), {"values": {"kept", "result", "recomputed"}, "block": {1, 2, 7}}),
}


def half_softmax() -> Graph:
    graph = Graph("g")
    x = graph.make_input(LogicalTensor(F16, (7, 37)), "x")
    graph.make_output(graph.make("softmax", [x], {"axis": 1}).outputs[0], "y")
    return graph


@pytest.mark.parametrize(("make", "where"), [(softmax, "result"), (half_softmax, "kept")])
def test_values_wait_in_the_result_if_it_has_their_type(
    make: Callable[[], Graph], where: str
) -> None:
    notes = [call["note"] for call in graphc.compile(make(), threads=1).stats["calls"]]
    assert any(f"values={where}" in note for note in notes), notes


@pytest.mark.parametrize("name", CASES)
def test_every_schedule_computes_the_same(name: str) -> None:
    graph, offered = CASES[name]
    op, space = kernel(graph.copy())
    settings = [s.settings for s in space.candidates]
    assert {x["tasks"] for x in settings} == ({1} if name == "sum of all" else {1, 2, 4, 8})
    for parameter, values in offered.items():
        assert {x[parameter] for x in settings} == values
    x = integers(graph.inputs[0].outputs[0].details.plain_dims) / 4
    (expected,) = graph.evaluate([x])
    out = op.outputs[0].details
    texts = set()
    for schedule in space.candidates:
        op.schedule = space.check(schedule)
        module = get_func(op, CTX)
        texts.add(repr(module.functions[0].body))
        memory = out.format.pack(np.full(out.plain_dims, 55, np.float32))
        packed = op.inputs[0].details.format.pack(x)
        interpreter.run(module, module.functions[0].name, [packed, memory])
        np.testing.assert_allclose(out.format.unpack(memory, out.plain_dims), expected, rtol=1e-5)
    inner = {str(schedule.replaced(tasks=1)) for schedule in space.candidates}
    assert len(texts) >= len(inner), "each inner loop is another loop nest"


def test_a_block_is_run_through_along_what_is_read() -> None:
    """The result of a transpose in blocks of 16 columns, for all rows, along which the operand is contiguous."""
    op, space = kernel(transpose(40, 150).copy())
    op.schedule = space.complete(parse_schedule("block=16 tasks=1"))
    loops = [
        s.var.name
        for s in walk_statements(get_func(op, CTX).functions[0].body)
        if isinstance(s, For)
    ]
    assert loops == ["i1_block", "i0", "i1", "i0", "i1"]


@pytest.mark.parametrize(("dims", "block"), [((40, 150), 40), ((200, 3), 16), ((128, 3), 128)])
def test_rows_whose_lines_do_not_stay_in_l1_are_cut(dims: tuple[int, int], block: int) -> None:
    """Each element of a row of the result lies in another cache line: 128 take a quarter of 32 KiB."""
    assert kernel(transpose(*dims))[1].pick.number("block") == block


@pytest.mark.parametrize("isa", ["generic", "avx2", "avx512"])
@pytest.mark.parametrize("dims", [(0, 5), (5, 0), (0, 40, 150), (3, 0, 17), (0,), (0, 0)])
@pytest.mark.parametrize("follower", ["neg", None])
def test_empty_transposes_have_schedules_that_run(
    isa: str, dims: tuple[int, ...], follower: str | None
) -> None:
    """A block has an element even where the innermost axis of the result has none."""
    perm = tuple(reversed(range(len(dims))))

    def body(make, x):  # type: ignore[no-untyped-def]
        y = make("transpose", x["x"], perm=perm)
        return make(follower, y) if follower else y

    ctx = context(isa, threads=2)
    graph = build({"x": dims}, body)
    fuse(graph, ctx)
    op, *_ = [op for op in graph.ops if op.kind not in ("source", "sink")]
    space = space_of(op, ctx)
    assert space is not None
    for schedule in space.candidates:
        op.schedule = space.check(schedule)
        module = get_func(op, ctx)
        memory = [np.zeros(d, np.float32) for d in (dims, dims[::-1])]
        interpreter.run(module, module.functions[0].name, memory)


def kinds(function: Function) -> dict[str, str]:
    return {s.var.name: s.kind for s in walk_statements(function.body) if isinstance(s, For)}


def test_the_vector_axis_of_a_reduction() -> None:
    op, space = kernel(sums(2).copy())
    assert space.pick.word("vector") == "terms"
    for vector, found in (
        ("terms", {"r0": "vector", "i1": "serial"}),
        ("result", {"r0": "serial", "i1": "vector"}),
        ("columns", {"j": "vector"}),
    ):
        op.schedule = space.complete(parse_schedule(f"vector={vector} tasks=1"))
        assert found.items() <= kinds(get_func(op, CTX).functions[0]).items()
    assert kernel(sums(0, 1).copy())[1].pick.word("vector") == "columns"


@pytest.mark.parametrize(
    ("name", "requested", "message"),
    [
        ("transpose", "block=41", "block must be at most 40"),
        ("transpose", "inner=serial", "inner must be vector or unrolled"),
        ("transpose", "inner=unrolled block=8", "block must be all 40 with inner=unrolled"),
        (
            "long transpose",
            "inner=unrolled block=150",
            "inner must be vector, as 150 elements are too many",
        ),
        ("sum of all", "vector=result", "vector must be terms, as the result is a scalar"),
        ("pointwise", "inner=parts", "inner must be vector, as the loop has no edges"),
        ("softmax", "values=lost", "values must be kept or result or recomputed"),
        ("softmax", "block=8", "block must be at most 7"),
    ],
)
def test_what_cannot_run_is_refused(name: str, requested: str, message: str) -> None:
    _, space = kernel(CASES[name][0].copy())
    with pytest.raises(UserError, match=message):
        space.complete(parse_schedule(requested))


def test_rows_have_predicted_cycles_and_words_only_where_something_is_kept() -> None:
    _, space = kernel(softmax())
    found = {x.word("values"): space.cycles(x) for x in space.candidates}
    assert set(found) == {"kept", "result", "recomputed"}
    assert all(cycles for cycles in found.values())
    _, centered = kernel(centered_rows())
    assert {x.word("values") for x in centered.candidates} == {"result"}
