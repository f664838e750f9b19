"""The schedules of kernels: who chooses them, what is refused, and that the text of a graph with them is all of it."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from graphc.base.dtypes import F32
from graphc.base.errors import UserError
from graphc.graph_ir.ir.graph import Graph, GraphTensor
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.ir.schedule import Schedule, parse_schedule
from graphc.graph_ir.lowering.lower_graph import lower_graph
from graphc.graph_ir.passes import pipeline
from graphc.graph_ir.passes.plan_memory import plan_memory
from graphc.graph_ir.schedule.context import LowerContext
from graphc.graph_ir.schedule.spaces import space_of
from graphc.graph_ir.text.parser import parse_graph
from graphc.graph_ir.text.printer import print_graph
from support.lowered import Make, build, context, integers, interpret


def network() -> Graph:
    """Convolutions, a pool, matmuls, attention, a row panel, a reduction, a transpose."""

    def body(make: Make, x: dict[str, GraphTensor]) -> GraphTensor:
        image = make("convolution", x["image"], x["w"], before=(1, 1), after=(1, 1))
        image = make("convolution", make("relu", image), x["d"], groups=16)
        image = make("max_pool", image, kernel=(2, 2))
        rows = make("reshape", make("reduce_sum", image, axes=(2,), keep_dims=False), shape=(16, 3))
        rows = make("matmul_core", rows, x["v"])
        scores = make("softmax", make("matmul_core", rows, x["k"], transpose_b=True), axis=-1)
        mixed = make("matmul_core", scores, x["k"])
        return make("transpose", make("softmax", mixed, axis=-1), perm=(1, 0))

    shapes = {
        "image": (1, 20, 6, 6), "w": (16, 20, 3, 3), "d": (16, 1, 3, 3), "v": (3, 24), "k": (40, 24),
    }  # fmt: skip
    return build(shapes, body)


def optimized(graph: Graph, ctx: LowerContext) -> Graph:
    work = graph.copy()
    pipeline.run(work, ctx)
    return work


def schedules(graph: Graph) -> dict[str, Schedule]:
    return {op.name: op.schedule for op in graph.ops if op.schedule is not None}


def run(graph: Graph, ctx: LowerContext) -> np.ndarray:
    arrays = [integers(op.outputs[0].details.plain_dims, i) for i, op in enumerate(graph.inputs)]
    (output,) = graph.outputs
    result = np.zeros(output.inputs[0].details.plain_dims, np.float32)
    interpret(lower_graph(graph, ctx), arrays, [result])
    return result


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("isa", ["avx2", "avx512"])
def test_every_kernel_has_a_schedule_it_can_run_with(isa: str, threads: int) -> None:
    ctx = context(isa, threads)
    graph = optimized(network(), ctx)
    found = {schedule.algorithm for schedule in schedules(graph).values()}
    assert {"windows", "attention", "rows", "transpose", "reduction"} <= found
    steps = [one.steps for one in schedules(graph).values()]
    assert any("stage A at y0" in x for x in steps) and any("over m1 n1 k1" in x for x in steps)
    for op in graph.ops:
        space = space_of(op, ctx) if op.schedule is not None else None
        if space is not None:
            assert op.schedule == space.pick == space.candidates[0]
            assert list(space.point(space.pick).settings) == list(space.meanings)
            for schedule in space.candidates:
                assert space.check(schedule) is schedule
                assert parse_schedule(str(schedule)) == schedule


def test_the_text_of_a_graph_with_schedules_is_the_whole_input_of_lowering() -> None:
    """Print, edit, parse, lower, run."""
    ctx = context()
    graph = optimized(network(), ctx)
    text = print_graph(graph, full=True)
    again = parse_graph(text)
    assert print_graph(again, full=True) == text and schedules(again) == schedules(graph)
    edited = text
    for old, new in (
        ("split m 16", "split m 8"),
        ("split y 6", "split y 2"),
        ("rows=16", "rows=8"),
        ("np=3", "np=2"),
    ):
        assert old in edited
        edited = edited.replace(old, new)
    other = parse_graph(edited)
    assert schedules(other) != schedules(graph) and other.hash_contents() != graph.hash_contents()
    for each in (again, other):
        plan_memory(each, ctx)
    expected = run(graph, ctx)
    np.testing.assert_allclose(run(again, ctx), expected, rtol=0, atol=0)
    np.testing.assert_allclose(run(other, ctx), expected, rtol=1e-5)
    notes = [call.note for call in lower_graph(other, ctx).calls]
    assert all(any(str(s) in note for note in notes) for s in schedules(other).values())


def test_what_is_requested_goes_before_what_was_measured_and_the_model() -> None:
    ctx = context()
    graph = build(
        {"x": (12, 40), "w": (40, 50)}, lambda make, x: make("matmul_core", x["x"], x["w"])
    )
    (pick,) = schedules(optimized(graph, ctx)).values()
    other = parse_schedule(pick.steps.replace("split k 40", "split k 20"))
    measured = {"matmul m12n50k40 f32": other}
    (found,) = schedules(optimized(graph, replace(ctx, tuned=measured))).values()
    assert found == other != pick
    both = replace(ctx, tuned=measured, requested={"matmul_core": parse_schedule("mc=6 kc=10")})
    work = optimized(graph, both)
    (found,) = schedules(work).values()
    assert (found.number("mc"), found.number("kc")) == (6, 10)
    assert found.number("nv") == pick.number("nv"), "what was left out is as the model has it"


@pytest.mark.parametrize("requested", ["b=panels nv=1", "b=plain", "nv=2 mr=5"])
def test_a_schedule_requested_decides_layouts_too(requested: str) -> None:
    ctx = replace(context(), requested={"matmul_core": parse_schedule(requested)})
    graph = build(
        {"x": (12, 40), "w": (40, 50)}, lambda make, x: make("matmul_core", x["x"], x["w"])
    )
    work = optimized(graph, ctx)
    (op,) = [op for op in work.ops if op.op_name == "matmul_core"]
    assert op.schedule is not None
    assert parse_schedule(requested).settings.items() <= op.schedule.settings.items()
    assert op.inputs[1].details.format.is_blocked == (op.schedule.word("b") == "panels")


def test_a_measurement_that_does_not_fit_is_left_aside() -> None:
    ctx = context()
    graph = build(
        {"x": (12, 40), "w": (40, 50)}, lambda make, x: make("matmul_core", x["x"], x["w"])
    )
    for text in ("direct band=rows", "gemm zz=3", "gemm mr=999 nv=3"):
        work = optimized(graph, replace(ctx, tuned={"matmul m12n50k40 f32": parse_schedule(text)}))
        assert all(s.steps or s.algorithm == "pointwise" for s in schedules(work).values())


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("zzz", "mr=4", "schedule of 'zzz': the op must be one of the model's kernels, got no such op"),
        ("matmul_core", "qq=4", "schedule of 'matmul_core': there is no parameter 'qq', got 'qq=4'; gemm takes mr: "),
        ("matmul_core", "direct mr=4", "the algorithm must be gemm, got 'direct mr=4'"),
        ("matmul_core", "mr=0", "mr must be a number from 1"),
        ("matmul_core", "mr=big", "mr must be a number from 1"),
        ("matmul_core", "b=3", "b must be a word"),
        ("matmul_core", "mr=99 nv=3", "mr x nv must be at most 64 on avx2"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_refused(name: str, text: str, message: str) -> None:
    graph = build(
        {"x": (12, 40), "w": (40, 50)}, lambda make, x: make("matmul_core", x["x"], x["w"])
    )
    ctx = replace(context(), requested={name: parse_schedule(text)})
    with pytest.raises(UserError, match=re.escape(message)):
        optimized(graph, ctx)


STEPS = "split n 24; split m 6; split k 20; reorder m0 k0 n0 m1 n1 k1; tensorize 3x3 over m1 n1 k1"

PANELS = STEPS.replace("; tensorize", "; stage B at root as panels; tensorize")


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("constant", [False, True])
def test_steps_that_are_requested_run_as_they_are(packed: bool, constant: bool) -> None:
    """Steps say that B lies in panels, which decides its layout."""
    graph = Graph("layer")
    x = graph.make_input(LogicalTensor(F32, (12, 40)), "x")
    w = graph.make_constant(integers((40, 50), 1), "w")
    if not constant:
        w = graph.make_input(LogicalTensor(F32, (40, 50)), "w")
    y = graph.make("matmul_core", [x, w], {}, "fc").outputs[0]
    graph.make_output(graph.make("relu", [y]).outputs[0])
    text = (
        STEPS.replace("; tensorize", "; stage B at root as panels; tensorize") if packed else STEPS
    )
    ctx = replace(context(), requested={"fc": parse_schedule(text)})
    work = optimized(graph, ctx)
    (found,) = [s for s in schedules(work).values() if s.steps]
    assert str(found) == text == str(parse_schedule(text))
    arrays = [integers(op.outputs[0].details.plain_dims, i) for i, op in enumerate(graph.inputs)]
    np.testing.assert_array_equal(run(work, ctx), graph.evaluate(arrays)[0])


def test_steps_of_a_convolution_run_as_they_are() -> None:
    text = (
        "split n 16; split y 3; reorder b0 b1 y0 n0 ky y1 m n1 kx k; stage A at y0 as band[iy,ix,k]; "
        "tensorize 5x2 over m n1 kx k; parallelize b0 b1 y0"
    )
    ctx = replace(context(), requested={"conv": parse_schedule(text)})
    work = optimized(layer(), ctx)
    assert [str(s) for s in schedules(work).values() if s.steps] == [text]
    expected = layer().evaluate([integers((1, 16, 7, 7))])[0]
    np.testing.assert_array_equal(run(work, ctx), expected)


FACTORS = "the factors must be numbers from 1, each dividing the one before it, got"
REFUSED = {
    "split n 24": "the last steps must contain one such as tensorize 8x3 over m n k",
    "tensorize 3x3 over m n k": "a tile has 24 columns, not 50; split n 24",
    STEPS.replace("split n 24", "split n 48"): "a tile has 24 columns, not 48",
    STEPS.replace("3x3 over", "3x3 dot4 over"): "use must be fma",
    STEPS.replace("; ten", "; stage A at k0 as rows; ten"): "k0 must be inside, as A is copied",
    STEPS.replace("; ten", "; stage A at root as rows; ten"): "m0 must be outside",
    STEPS.replace("; ten", "; stage B at m0 as panel; ten"): "k0 must be outside",
    STEPS.replace("; ten", "; stage C at n0 as m0; ten"): "a name that nothing else has",
    PANELS.replace(
        "split n 24", "split n 16"
    ): "B lies in blocks of 24, which 16 must divide or hold",
    STEPS.replace(
        "; reorder", "; chunk m0 2; reorder m0_chunk"
    ): "it must be a loop over panels of n",
    STEPS.replace("split m 6", "split m 0"): f"{FACTORS} '0'",
    STEPS.replace("split m 6", "split m x"): f"{FACTORS} 'x'",
    STEPS.replace("reorder m0", "reorder 7"): "names must be a name, got '7'",
    STEPS.replace("3x3", "0x3"): "the last steps must contain one such as tensorize",
    STEPS.replace("m1 n1 k1;", "m1 k1 n1;"): "m1 n1 k1 must be the innermost loops",
    "stage A at": "the last steps must contain one such as tensorize",
    f"{STEPS}; parallelize k0": "a reduced loop must stay serial",
    f"{STEPS}; prefetch B big": "rows must be a number, got 'big'; the step must look like 'prefetch B 8'",
}


@pytest.mark.parametrize("steps", REFUSED)
def test_steps_that_cannot_run_are_refused_in_a_sentence(steps: str) -> None:
    graph = build(
        {"x": (12, 40), "w": (40, 50)}, lambda make, x: make("matmul_core", x["x"], x["w"])
    )
    ctx = replace(context(), requested={"matmul_core": parse_schedule(steps)})
    with pytest.raises(UserError) as caught:
        optimized(graph, ctx)
    assert REFUSED[steps] in str(caught.value) and len(str(caught.value).splitlines()) == 1


def test_an_edited_text_that_cannot_run_is_refused_when_it_is_lowered() -> None:
    ctx = context()
    graph = optimized(network(), ctx)
    text = print_graph(graph, full=True)
    broken = parse_graph(re.sub(r"stage A at \w+", "stage A at sideways", text))
    plan_memory(broken, ctx)
    with pytest.raises(UserError, match="'conv.*': .* there is no loop 'sideways'"):
        lower_graph(broken, ctx)


def layer(outputs: int = 16, kernel: int = 3, groups: int = 1, **attrs: object) -> Graph:
    """A padded convolution called conv with constant weights, and ReLU."""
    graph = Graph("layer")
    x = graph.make_input(LogicalTensor(F32, (1, 16, 7, 7)), "x")
    w = graph.make_constant(integers((outputs, 16 // groups, kernel, kernel), 1), "w")
    pad = (kernel // 2,) * 2
    attrs = {"before": pad, "after": pad, "groups": groups, **attrs}
    y = graph.make("convolution", [x, w], attrs, "conv").outputs[0]
    graph.make_output(graph.make("relu", [y], {}, "relu").outputs[0])
    return graph


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("graph", "requested", "schedule"),
    [
        (layer(), "algorithm=direct", "split n .*split y "),
        (layer(), "direct band=rows mc=2", "split n .*split y 2;.*band\\[iy,ix,k\\]"),
        (layer(), "algorithm=winograd", "winograd form=f"),
        (layer(), "winograd form=f2", "winograd form=f2 "),
        (layer(), "form=f4 tiles=2", "winograd form=f4 .*tiles=2 "),
        (layer(), "winograd-f4", "winograd form=f4 "),
        (layer(), "im2col", "split n .*over m1 n1 k1"),
        (layer(), "algorithm=im2col kc=48", "split n .*split k 48;"),
        (layer(), "gemm mc=8", "split n .*split m 8;"),
        (layer(outputs=4), "im2col", "split n .*over m1 n1 k1"),
        (layer(), "reduction tasks=3", "reduction .*tasks=3"),
        (layer(groups=16), "algorithm=depthwise", "row-windows rows="),
        (layer(groups=16), "row-windows height=2", "row-windows .*height=2 "),
        (layer(groups=16), "windows nc=8", "windows .*nc=8 "),
        (layer(groups=16), "reduction", "reduction "),
    ],
)  # fmt: skip
def test_the_form_of_a_convolution_follows_what_was_requested(
    graph: Graph, requested: str, schedule: str
) -> None:
    ctx = replace(context(), requested={"conv": parse_schedule(requested)})
    work = optimized(graph, ctx)
    found = [str(s) for s in schedules(work).values()]
    assert any(re.match(schedule, s) for s in found), found
    np.testing.assert_allclose(
        run(work, ctx), graph.evaluate([integers((1, 16, 7, 7))])[0], atol=0.01
    )


@pytest.mark.parametrize(
    ("graph", "requested", "message"),
    [
        (layer(kernel=5), "winograd", "schedule of 'conv': winograd needs f32, a 3 x 3 kernel with strides "
         "of 1, one group and finite constant weights, got 'winograd'; this convolution runs as direct, "
         "im2col, reduction"),
        (layer(strides=(2, 2)), "form=f4", "the form needs f32, a 3 x 3 kernel"),
        (layer(), "depthwise", "depthwise needs floats or bytes, one channel and one result per group"),
        (layer(), "rows", "schedule of 'conv': there is no such form, got 'rows'; this convolution runs as direct, "
         "winograd-f2, winograd-f4, im2col, reduction"),
        (layer(), "winograd form=f3", "there is no such form, got 'winograd form=f3'"),
        (layer(), "winograd band=rows", "there is no parameter 'band'"),
    ],
)  # fmt: skip
def test_a_form_that_cannot_run_is_refused(graph: Graph, requested: str, message: str) -> None:
    ctx = replace(context(), requested={"conv": parse_schedule(requested)})
    with pytest.raises(UserError, match=re.escape(message)):
        optimized(graph, ctx)


def test_a_form_that_is_switched_off_is_refused() -> None:
    ctx = replace(context(disabled=("winograd",)), requested={"conv": parse_schedule("winograd")})
    with pytest.raises(UserError, match="winograd is switched off by 'winograd', got"):
        optimized(layer(), ctx)


def test_the_form_of_a_matmul_is_not_requested() -> None:
    """im2col is a form of convolutions alone, though its kernel is a matmul."""
    graph = build(
        {"x": (12, 40), "w": (40, 50)}, lambda make, x: make("matmul_core", x["x"], x["w"])
    )
    ctx = replace(context(), requested={"matmul_core": parse_schedule("im2col")})
    with pytest.raises(UserError, match="the algorithm must be gemm, got 'im2col'"):
        optimized(graph, ctx)
