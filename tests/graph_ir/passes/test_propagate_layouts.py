"""Layouts: weights in panels, no reorder that does not pay, every decision kept with its alternatives."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.base.dtypes import F32
from graphc.graph_ir.ir.format import Format, parse_format
from graphc.graph_ir.ir.graph import Graph, GraphTensor
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.ir.registry import lookup
from graphc.graph_ir.ir.verifier import verify
from graphc.graph_ir.passes.fold_constants import fold_constants
from graphc.graph_ir.passes.propagate_layouts import (
    LAYOUT_DECISIONS,
    LayoutDecision,
    propagate_layouts,
)
from graphc.graph_ir.rewriting.groups import is_view
from graphc.graph_ir.schedule.context import LowerContext
from graphc.graph_ir.schedule.format_choice import FormatChoice
from graphc.graph_ir.schedule.matmul_tile import pick_tile
from graphc.graph_ir.schedule.query_format import RULES
from graphc.targets.microkernels import f32_kernel, f32_tiles
from support.graphs import graph_of, run_pass, text_of
from support.lowered import Make, build, check_interpreted, context, integers


def layer(n: int = 30, k: int = 8, m: int = 4, transpose_b: bool = False) -> Graph:
    """x @ w with constant w."""
    graph = Graph("layer")
    x = graph.make_input(LogicalTensor(F32, (m, k)), "x")
    w = graph.make_constant(integers((n, k) if transpose_b else (k, n)), "w")
    fc = graph.make("matmul_core", (x, w), {"transpose_b": transpose_b}, "fc")
    graph.make_output(fc.outputs[0], "y")
    return graph


def decisions(graph: Graph, ctx: LowerContext | None = None) -> list[LayoutDecision]:
    propagate_layouts(graph, ctx or context())
    verify(graph)
    return LAYOUT_DECISIONS.of(graph)


def layouts(graph: Graph) -> dict[str, str]:
    return {y.name: str(y.details.format) for op in graph.ops for y in op.outputs}


def panels_for(m: int, n: int, ctx: LowerContext | None = None) -> str:
    """The layout of B for the tile that wastes least on m x n."""
    target = (ctx or context()).target
    return f"NK{pick_tile(m, n, target, f32_kernel(target)).columns(target)}n"


def test_weights_computed_of_constants_lie_in_panels_as_constants_do() -> None:
    def matmuls(graph: Graph) -> Graph:
        fc = next(op for op in graph.ops if op.name == "fc")
        moved = graph.make("transpose", (fc.inputs[1],), {"perm": (1, 0)}, "moved").outputs[0]
        fc.set_input(1, graph.make("transpose", (moved,), {"perm": (1, 0)}, "again").outputs[0])
        graph.sort()
        return graph

    (folded,) = decisions(matmuls(layer(m=128)))
    assert folded.candidates[folded.chosen].inputs[1].is_blocked
    (unfolded,) = decisions(matmuls(layer(m=128)), context(disabled=["fold"]))
    assert unfolded.costs[folded.chosen] > folded.costs[folded.chosen], (
        "the panels are made at run time"
    )


def test_constant_weights_lie_in_panels_after_folding() -> None:
    graph = layer()
    assert run_pass(propagate_layouts, graph)
    panels = panels_for(4, 30)
    assert layouts(graph) == {"x": "AB", "w": "AB", "w.reorder": panels, "fc": "MN"}
    assert run_pass(fold_constants, graph)
    (weight,) = [op for op in graph.ops if op.op_name == "constant" and op.outputs[0].uses]
    assert str(weight.outputs[0].details.format) == panels
    assert graph.ops[-2].inputs[1] is weight.outputs[0]


@pytest.mark.parametrize("isa", ["avx512", "avx2", "generic"])
@pytest.mark.parametrize("n", [4, 8, 16, 24, 32, 48, 96])
@pytest.mark.parametrize("transpose_b", [False, True])
def test_panels_are_as_wide_as_the_tile_that_wastes_least(
    isa: str, n: int, transpose_b: bool
) -> None:
    graph, ctx = layer(n, m=64, transpose_b=transpose_b), context(isa)
    decisions(graph, ctx)
    assert layouts(graph)["w.reorder"] == panels_for(64, n, ctx)


def test_a_dynamic_right_hand_side_stays_where_it_lies() -> None:
    graph = build({"x": (4, 8), "w": (8, 30)}, lambda make, x: make("matmul_core", x["x"], x["w"]))
    before = text_of(graph)
    assert not run_pass(propagate_layouts, graph)
    assert text_of(graph) == before


def test_every_candidate_is_recorded_with_its_cost() -> None:
    graph = layer()
    (decision,) = decisions(graph)
    assert decision.op_name == "fc"
    rights = [str(choice.inputs[1]) for choice in decision.candidates]
    assert rights.pop() == "KN16n16k" and decision.candidates[-1].on_request
    target = context().target
    widths = {tile.columns(target) for tile in f32_tiles(target)}
    assert rights[0] == "KN" and len(rights) == len(decision.costs) - 1 == len(widths) + 1
    assert set(rights[1:]) == {f"NK{width}n" for width in widths}
    assert rights[decision.chosen] == panels_for(4, 30)
    assert decision.costs[0] == 8 * 30 * 4, "plain: copied into panels in every run"
    assert decision.costs[decision.chosen] == 0, "packed once, before any run, for the best tile"


def test_the_cost_of_a_dynamic_reorder_is_read_and_written_bytes() -> None:
    graph = build({"x": (4, 8), "w": (8, 48)}, lambda make, x: make("matmul_core", x["x"], x["w"]))
    (decision,) = decisions(graph)
    by_format = {
        str(c.inputs[1]): cost for c, cost in zip(decision.candidates, decision.costs, strict=True)
    }
    assert by_format[panels_for(4, 48)] == pytest.approx(0.9 * 2 * 8 * 48 * 4)
    assert decision.chosen == 0


def test_without_blocked_layouts_everything_is_plain() -> None:
    graph = layer()
    (decision,) = decisions(graph, context(disabled=("blocked-layouts",)))
    assert layouts(graph) == {"x": "AB", "w": "AB", "fc": "MN"}
    assert [str(c.inputs[1]) for c in decision.candidates] == ["KN"] and decision.chosen == 0


def test_untuned_matmuls_are_plain() -> None:
    graph = graph_of(
        """
        %x = Node[type=input] () -> s32[4,8]
        %w = Node[type=constant] (attrs = {value: [1 2 3 4 5 6 7 8]}) -> s32[8,1]
        %fc = Node[type=matmul_core] (inputs = (a=%x, b=%w)) -> s32[4,1]
        return (y=%fc)
        """
    )
    (decision,) = decisions(graph)
    assert len(decision.candidates) == 1
    assert "reorder" not in text_of(graph)


def test_one_weight_read_twice_is_reordered_once() -> None:
    graph = Graph("shared")
    w = graph.make_constant(integers((8, 8)), "w")
    results = []
    for name in "ab":
        x = graph.make_input(LogicalTensor(F32, (4, 8)), name)
        results.append(graph.make("matmul_core", (x, w)).outputs[0])
    for result in results:
        graph.make_output(result)
    graph.sort()
    assert len(decisions(graph)) == 2
    assert sum(op.op_name == "reorder" for op in graph.ops) == 1


@pytest.fixture
def blocked_exp(monkeypatch: pytest.MonkeyPatch) -> Format:
    fmt = parse_format("MK4k", "MK")
    cls = lookup("exp")
    monkeypatch.setattr(cls, "kind", "tunable")
    plain_2d = parse_format("MK", "MK")
    entries = {**RULES._entries, cls: lambda op, ctx: [FormatChoice((plain_2d,), (fmt,))]}
    monkeypatch.setattr(RULES, "_entries", entries)
    return fmt


def test_elementwise_chains_keep_the_layout_of_their_input(blocked_exp: Format) -> None:
    def body(make: Make, x: dict[str, GraphTensor]) -> GraphTensor:
        y = make("relu", make("exp", x["x"]))
        return make("add", make("mul", y, x["z"]), x["row"])

    graph = build({"x": (3, 6), "z": (3, 6), "row": (6,)}, body)
    run_pass(propagate_layouts, graph, exact=False)
    found = layouts(graph)
    assert {name: found[name] for name in ("exp", "relu", "mul", "add")} == dict.fromkeys(
        ("exp", "relu", "mul", "add"), "MK4k"
    )
    assert found["z.reorder"] == "MK4k", "operands of the same shape follow"
    assert found["row"] == "A" and "row.reorder" not in found, "others stay plain"
    assert found["add.reorder"] == "AB", "the caller's tensors are plain"


def test_blocked_chains_compute_what_plain_ones_do() -> None:
    """Padded blocks, in place, with a value per row and per column."""

    def body(make: Make, x: dict[str, GraphTensor]) -> GraphTensor:
        y = make("add", make("relu", x["x"]), x["row"])
        return make("sub", make("max", y, x["column"]), x["x"])

    graph = build({"x": (5, 7), "row": (7,), "column": (5, 1)}, body)
    fmt = parse_format("KM4m2k", "MK")
    blocked = graph.copy()
    for op in blocked.ops:
        for y in op.outputs:
            if y.details.plain_dims == (5, 7) and op.op_name != "input":
                y.details = y.details.with_format(fmt)
    x = blocked.inputs[0].outputs[0]
    users = list(x.uses)
    laid_out = blocked.make("reorder", (x,), {"format": fmt}).outputs[0]
    for index, user in users:
        user.set_input(index, laid_out)
    (output,) = blocked.outputs
    last = blocked.make("reorder", (output.inputs[0],), {"format": parse_format("MK", "MK")})
    output.set_input(0, last.outputs[0])
    blocked.sort()
    verify(blocked)
    arrays = [integers(op.outputs[0].details.plain_dims, i) for i, op in enumerate(graph.inputs)]
    np.testing.assert_array_equal(blocked.evaluate(arrays)[0], graph.evaluate(arrays)[0])
    for disabled in ((), ("fuse",), ("fuse", "in-place")):
        _check_as_laid_out(blocked, disabled)


def _check_as_laid_out(graph: Graph, disabled: tuple[str, ...]) -> None:
    """Lower as the graph stands: the pipeline would choose the layouts anew."""
    from graphc.graph_ir.lowering.lower_graph import lower_graph
    from graphc.graph_ir.passes.fuse import fuse
    from graphc.graph_ir.passes.plan_memory import plan_memory
    from support.lowered import interpret

    ctx, work = context(disabled=disabled), graph.copy()
    if "fuse" not in disabled:
        fuse(work, ctx)
    plan_memory(work, ctx)
    arrays = [integers(op.outputs[0].details.plain_dims, i) for i, op in enumerate(graph.inputs)]
    (expected,) = graph.evaluate(arrays)
    result = np.full_like(expected, 77)
    interpret(lower_graph(work, ctx), arrays, [result])
    np.testing.assert_array_equal(result, expected)


def test_many_matmuls_in_a_row_are_chosen_one_after_the_other() -> None:
    """Four choices each: 4 ** 5 combinations are too many to try, and the answer is the same."""
    graph = Graph("deep")
    y = graph.make_input(LogicalTensor(F32, (4, 24)), "x")
    for number in range(5):
        w = graph.make_constant(integers((24, 24), number), f"w{number}")
        y = graph.make("relu", graph.make("matmul_core", (y, w)).outputs).outputs[0]
    graph.make_output(y)
    found = decisions(graph)
    assert [str(d.candidates[d.chosen].inputs[1]) for d in found] == [panels_for(4, 24)] * 5
    check_interpreted(graph, context(), exact=False)


def convolutions(count: int, size: int = 9) -> tuple[Graph, list[GraphTensor]]:
    """A graph of convolutions in a row, each with ReLU, and the result of each."""
    graph = Graph("network")
    x = graph.make_input(LogicalTensor(F32, (1, 32, size, size)), "x")
    results = []
    for number in range(count):
        w = graph.make_constant(integers((32, 32, 3, 3), number), f"w{number}")
        attrs = {"before": (1, 1), "after": (1, 1)}
        x = graph.make("direct_convolution", (x, w), attrs, f"conv{number}").outputs[0]
        x = graph.make("relu", (x,), {}, f"relu{number}").outputs[0]
        results.append(x)
    return graph, results


def test_a_long_region_has_one_layout() -> None:
    """Ten convolutions of three choices each are too many combinations to try."""
    graph, results = convolutions(10)
    graph.make_output(results[-1])
    for decision in decisions(graph, context("avx512")):
        assert str(decision.candidates[decision.chosen].outputs[0]) == "NHWC"
        assert decision.costs[decision.chosen] == min(decision.costs)
    reorders = [op.name for op in graph.ops if op.op_name == "reorder"]
    dynamic = [name for name in reorders if not name.startswith("w")]
    assert dynamic == ["x.reorder", "relu9.reorder"]


def test_what_keeps_the_axes_keeps_the_layout() -> None:
    graph, (first, second) = convolutions(2)
    pool = graph.make("max_pool", (second,), {"kernel": (2, 2), "strides": (1, 1)}, "pool")
    pad = graph.make("pad", pool.outputs, {"before": (0, 0, 1, 0), "after": (0, 0, 0, 1)}, "pad")
    joined = graph.make("concat", (first, pad.outputs[0]), {"axis": 1}, "concat")
    part = {"starts": (0, 8, 0, 0), "sizes": (1, 40, 9, 9)}
    part_of = graph.make("slice", joined.outputs, part, "slice")
    mean = {"axes": (2, 3), "keep_dims": True}
    graph.make_output(graph.make("reduce_mean", part_of.outputs, mean, "mean").outputs[0])
    decisions(graph, context("avx512"))
    found = layouts(graph)
    names = ("relu0", "relu1", "pool", "pad", "concat", "slice", "mean")
    assert {found[name] for name in names} == {"NHWC"}
    dynamic = [op for op in graph.ops if op.op_name == "reorder" and op.name[0] != "w"]
    assert [op.name for op in dynamic] == ["x.reorder", "mean.reorder"]
    assert is_view(dynamic[1]), "one element a channel lies the same in both layouts"


def test_rows_are_reduced_in_the_plain_layout() -> None:
    """Softmax over the last axis has a loop that keeps a plain row in cache."""
    graph, (first,) = convolutions(1)
    axes = {"axes": (3,), "keep_dims": True}
    graph.make_output(graph.make("reduce_max", (first,), axes, "most").outputs[0])
    decisions(graph, context("avx512"))
    assert layouts(graph)["most"] == "ABDE"


def test_statistics_of_images_are_reduced_in_the_layout_of_convolutions() -> None:
    """Instance normalization between convolutions needs no reorder."""
    graph, (first,) = convolutions(1)
    flat = graph.make("reshape", (first,), {"shape": (1, 32, 81)}, "flat").outputs[0]
    mean = graph.make("reduce_mean", (flat,), {"axes": (2,), "keep_dims": True}, "mean").outputs[0]
    centered = graph.make("sub", (flat, mean), {}, "centered").outputs[0]
    image = graph.make("reshape", (centered,), {"shape": (1, 32, 9, 9)}, "image").outputs[0]
    w = graph.make_constant(integers((32, 32, 3, 3), 5), "w")
    graph.make_output(graph.make("direct_convolution", (image, w), name="next").outputs[0])
    decisions(graph, context("avx512"))
    found = layouts(graph)
    assert {found[name] for name in ("flat", "mean", "centered")} == {"ADB"}
    moved = [
        op for op in graph.ops if op.op_name == "reorder" and op.name[0] != "w" and not is_view(op)
    ]
    assert [op.name for op in moved] == ["x.reorder", "next.reorder"]


def test_a_reorder_that_moves_nothing_costs_nothing() -> None:
    """An image of one pixel: channels last is the plain layout."""
    graph = Graph("pixel")
    x = graph.make_input(LogicalTensor(F32, (1, 64, 1, 1)), "x")
    w = graph.make_constant(integers((64, 64, 3, 3)), "w")
    attrs = {"before": (1, 1), "after": (1, 1)}
    graph.make_output(graph.make("direct_convolution", (x, w), attrs).outputs[0])
    (decision,) = decisions(graph, context("avx512"))
    assert decision.costs[decision.chosen] == 0
