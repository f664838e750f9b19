"""Memory plans: nothing overlaps in space and time, no byte more than needed where that is easy, writes in place."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphc.base.dims import Symbol, evaluate, size
from graphc.base.dtypes import F32
from graphc.graph_ir.ir.graph import Graph, GraphTensor
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.ir.verifier import verify
from graphc.graph_ir.passes.fuse import fuse
from graphc.graph_ir.passes.plan_memory import ALIGNMENT, MEMORY_PLAN, Life, MemoryPlan, plan_memory
from graphc.graph_ir.passes.remove_dead import remove_dead
from graphc.graph_ir.rewriting.groups import is_view, storage_root
from support.graphs import graph_of
from support.lowered import check_interpreted, context


def plan_of(graph: Graph, in_place: bool = True) -> MemoryPlan:
    ctx = context(disabled=() if in_place else ("in-place",))
    assert not plan_memory(graph, ctx), "the ops stay as they are"
    plan = MEMORY_PLAN.of(graph)
    check(graph, plan)
    return plan


def check(graph: Graph, plan: MemoryPlan) -> None:
    """Every computed tensor that is not the caller's has an offset; lives that meet in time lie apart."""
    callers = {storage_root(op.inputs[0]) for op in graph.outputs}
    placed = {
        y
        for op in graph.ops
        if op.kind not in ("source", "sink") and not is_view(op)
        for y in op.outputs
    }
    assert set(plan.offsets) == placed - callers
    assert all(offset % ALIGNMENT == 0 for offset in plan.offsets.values())
    spans = [(plan.offsets[life.tensors[0]], life) for life in plan.lives]
    for offset, life in spans:
        assert all(plan.offsets[x] == offset for x in life.tensors)
        assert life.size % ALIGNMENT == 0
        assert all(x.details.size_bytes <= life.size for x in life.tensors)
        assert offset >= 0 and offset + life.size <= plan.arena_bytes
    for i, (start, one) in enumerate(spans):
        for other_start, other in spans[:i]:
            if one.begin <= other.end and other.begin <= one.end:
                assert start + one.size <= other_start or other_start + other.size <= start
    assert plan.lower_bound == max(
        (live(plan.lives, at) for at in range(len(graph.ops))), default=0
    )
    assert plan.lower_bound <= plan.arena_bytes <= sum(life.size for life in plan.lives)


def live(lives: tuple[Life, ...], at: int) -> int:
    return sum(life.size for life in lives if life.begin <= at <= life.end)


SIZES = st.sampled_from([0, 1, 15, 16, 17, 100, 1000])


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Ops that read any earlier tensors, of any sizes; some elementwise, some views, some unused."""
    graph = Graph("random")
    tensors = [graph.make_input(LogicalTensor(F32, (draw(SIZES),)), f"x{i}") for i in range(2)]

    def make(op_name: str, *inputs: GraphTensor, **attrs: object) -> None:
        tensors.append(graph.make(op_name, inputs, attrs).outputs[0])

    for _ in range(draw(st.integers(1, 14))):
        x = draw(st.sampled_from(tensors[-6:]))
        kind = draw(st.sampled_from(["elementwise", "two", "resize", "view"]))
        size = x.details.elements
        if kind == "elementwise":
            make("neg", x)
        elif kind == "two":
            make("add", x, draw(st.sampled_from([y for y in tensors if y.details == x.details])))
        elif kind == "view":
            make("reshape", x, shape=(1, *x.details.plain_dims) if x.details.rank == 1 else (size,))
        else:
            flat = graph.make("reshape", (x,), {"shape": (size,)}).outputs[0]
            total = graph.make("reduce_sum", (flat,), {"axes": (0,), "keep_dims": True}).outputs[0]
            make("broadcast", total, shape=(draw(SIZES),))
    for tensor in draw(st.lists(st.sampled_from(tensors), min_size=1, max_size=3)):
        graph.make_output(tensor)
    return graph


@given(graphs(), st.booleans(), st.booleans())
def test_no_two_lives_overlap_in_space_and_time(graph: Graph, fused: bool, in_place: bool) -> None:
    if fused:
        remove_dead(graph, context())
        fuse(graph, context())
        verify(graph)
    plan_of(graph, in_place)


@given(graphs(), st.booleans())
def test_programs_in_a_planned_arena_mean_the_same(graph: Graph, in_place: bool) -> None:
    disabled = ("fuse", "simplify", *(() if in_place else ("in-place",)))
    check_interpreted(graph, context(disabled=disabled), exact=False)


def chain(*op_names: str, dims: str = "100") -> Graph:
    body, last = f"%x = Node[type=input] () -> f32[{dims}]\n", "x"
    for number, op_name in enumerate(op_names):
        attrs = ", attrs = {axis: 0}" if op_name == "cumulative" else ""
        body += f"%n{number} = Node[type={op_name}] (inputs = (x=%{last}){attrs}) -> f32[{dims}]\n"
        last = f"n{number}"
    return graph_of(body + f"return (y=%{last})")


def test_a_chain_of_elementwise_ops_lives_in_one_block() -> None:
    plan = plan_of(chain("neg", "abs", "exp", "neg"))
    assert len(plan.lives) == 1 and len(plan.lives[0].tensors) == 3
    assert plan.arena_bytes == plan.lower_bound == 448  # 400 bytes, up to the next 64


def test_without_in_place_a_chain_takes_two_blocks_in_turn() -> None:
    plan = plan_of(chain("neg", "abs", "exp", "neg"), in_place=False)
    assert len(plan.lives) == 3
    assert plan.arena_bytes == plan.lower_bound == 2 * 448


def test_the_callers_memory_is_no_part_of_the_plan() -> None:
    plan = plan_of(chain("neg"))
    assert plan == MemoryPlan({}, 0, 0, ())


def test_a_tensor_still_needed_is_not_written_over() -> None:
    plan = plan_of(
        graph_of(
            """
            %x = Node[type=input] () -> f32[16]
            %a = Node[type=neg] (inputs = (x=%x)) -> f32[16]
            %b = Node[type=exp] (inputs = (x=%a)) -> f32[16]
            %c = Node[type=add] (inputs = (a=%a, b=%b)) -> f32[16]
            %d = Node[type=abs] (inputs = (x=%c)) -> f32[16]
            return (y=%d)
            """
        )
    )
    by_name = {x.name: offset for x, offset in plan.offsets.items()}
    assert by_name["a"] == by_name["c"] != by_name["b"], "c is the last to read a"


def test_what_moves_elements_is_not_done_in_place() -> None:
    body = """
        %x = Node[type=input] () -> f32[4,4]
        %a = Node[type=neg] (inputs = (x=%x)) -> f32[4,4]
        %t = Node[type=transpose] (inputs = (x=%a), attrs = {perm: {1, 0}}) -> f32[4,4]
        %b = Node[type=exp] (inputs = (x=%t)) -> f32[4,4]
        return (y=%b)
    """
    plan = plan_of(graph_of(body))
    assert len(plan.lives) == 2 and plan.arena_bytes == 2 * 64
    graph = graph_of(body)
    fuse(graph, context())
    assert plan_of(graph).arena_bytes == 0, "one kernel, from the caller's memory to the caller's"


def test_a_view_lives_as_long_as_what_it_shows() -> None:
    plan = plan_of(
        graph_of(
            """
            %x = Node[type=input] () -> f32[16]
            %a = Node[type=neg] (inputs = (x=%x)) -> f32[16]
            %v = Node[type=reshape] (inputs = (x=%a), attrs = {shape: {4, 4}}) -> f32[4,4]
            %b = Node[type=exp] (inputs = (x=%x)) -> f32[16]
            %c = Node[type=reduce_sum] (inputs = (x=%v), attrs = {axes: {0}}) -> f32[4]
            %d = Node[type=reduce_sum] (inputs = (x=%b)) -> f32[]
            %e = Node[type=add] (inputs = (a=%c, b=%d)) -> f32[4]
            return (y=%e)
            """
        )
    )
    by_name = {x.name: offset for x, offset in plan.offsets.items()}
    assert by_name["a"] != by_name["b"]


def test_another_size_of_element_is_not_written_over() -> None:
    plan = plan_of(
        graph_of(
            """
            %x = Node[type=input] () -> f32[16]
            %a = Node[type=neg] (inputs = (x=%x)) -> f32[16]
            %b = Node[type=cast] (inputs = (x=%a), attrs = {dtype: "s32"}) -> s32[16]
            %c = Node[type=cast] (inputs = (x=%b), attrs = {dtype: "s8"}) -> s8[16]
            %d = Node[type=abs] (inputs = (x=%c)) -> s8[16]
            return (y=%d)
            """
        )
    )
    by_name = {x.name: offset for x, offset in plan.offsets.items()}
    assert by_name["a"] == by_name["b"] != by_name["c"]


def test_the_check_of_these_tests_notices_an_overlap() -> None:
    graph = chain("neg", "abs", "exp", "neg")
    plan = plan_of(graph, in_place=False)
    broken = replace(plan, offsets=dict.fromkeys(plan.offsets, 0))
    with pytest.raises(AssertionError):
        check(graph, broken)


def test_blocks_of_dynamic_sizes_are_no_larger_than_their_elements() -> None:
    """A number of 4 bytes for each pair of positions took 64, as much as the alignment of the whole."""
    graph, n = Graph("scores"), size(Symbol("N", 1, 4096))
    x = graph.make_input(LogicalTensor(F32, (n, 64)), "x")
    scores = graph.make("matmul_core", [x, x], {"transpose_b": True}, "scores").outputs[0]
    total = graph.make("reduce_sum", [scores], {"axes": (0,)}).outputs[0]
    graph.make_output(graph.make("relu", [total]).outputs[0])
    plan_memory(graph, context())
    plan = MEMORY_PLAN.of(graph)
    for number in (1, 7, 64, 1000):
        nbytes = 4 * number * number + 4 * number
        assert nbytes <= evaluate(plan.arena_bytes, {"N": number}) <= nbytes + 2 * 64 * 64
    assert evaluate(plan.offset(plan.lives[-1]), {"N": 7}) % ALIGNMENT == 0
