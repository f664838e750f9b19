"""The direct convolution template: every geometry around its tiles and borders, exactly, natively and interpreted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from graphc.base.dtypes import F32
from graphc.codegen.host import host_supports
from graphc.driver.compiler import compile as compile_model
from graphc.graph_ir.ir.graph import Array, Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.ir.schedule import parse_schedule
from graphc.graph_ir.ops.convolution import DirectConvolution
from graphc.graph_ir.rewriting.kernel_group import group_of
from graphc.graph_ir.schedule.direct_convolution import DirectSpace
from graphc.graph_ir.schedule.query_format import query_format
from graphc.tools.fuzz.guarded import Edge, guarded, guarded_copy
from support.lowered import check_interpreted, context, integers

SIZES, CHANNELS = range(1, 18), (1, 3, 15, 16, 17, 33)
NATIVE_ISAS = [isa for isa in ("avx512", "avx2") if host_supports(isa)]
Shapes = tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]


def convolution(
    x: tuple[int, ...], w: tuple[int, ...], constant: bool = True, **attrs: object
) -> Graph:
    graph = Graph("convolution")
    image = graph.make_input(LogicalTensor(F32, x), "x")
    groups = attrs.get("groups", 1)
    if isinstance(groups, int) and groups > 1:
        w = (groups, w[0] // groups, *w[1:])
    if constant:
        weights = graph.make_constant(integers(w, 3), "w")
    else:
        weights = graph.make_input(LogicalTensor(F32, w), "w")
    graph.make_output(graph.make("direct_convolution", (image, weights), attrs).outputs[0])
    return graph


@pytest.mark.exhaustive
@pytest.mark.parametrize("isa", ["avx512", "avx2", "generic"])
@pytest.mark.parametrize(
    ("x", "w", "attrs"),
    [
        ((1, 3, 9, 8), (17, 3, 3, 3), {"before": (1, 1), "after": (1, 1)}),
        ((2, 17, 5, 6), (20, 17, 3, 3), {"before": (1, 0), "after": (0, 2)}),
        ((1, 20, 5, 6), (20, 20, 1, 1), {}),
        ((1, 17, 9, 17), (8, 17, 3, 2), {"strides": (2, 2)}),
        ((1, 17, 9, 9), (8, 17, 3, 2), {"dilations": (2, 2), "before": (1, 3), "after": (2, 1)}),
        ((2, 20, 17), (20, 20, 3), {"strides": (2,), "before": (2,)}),
        ((1, 32, 5, 4), (32, 16, 3, 3), {"groups": 2, "before": (1, 1)}),
        ((1, 32, 5, 4), (32, 16, 1, 1), {"groups": 2}),
        ((1, 17, 2, 2), (50, 17, 3, 3), {"before": (1, 1), "after": (1, 1)}),
    ],
)
def test_interpreted(isa: str, x: tuple[int, ...], w: tuple[int, ...], attrs: Any) -> None:
    check_interpreted(convolution(x, w, **attrs), context(isa))


def test_weights_given_at_run_time() -> None:
    check_interpreted(convolution((1, 17, 4, 5), (9, 17, 3, 3), False, before=(1, 1)), context())


@pytest.mark.exhaustive
@pytest.mark.parametrize("threads", [2, 3])
@pytest.mark.parametrize(("size", "outputs"), [(5, 26), (2, 90)])
def test_tasks(threads: int, size: int, outputs: int) -> None:
    graph = convolution((1, 17, size, size), (outputs, 17, 3, 3), before=(1, 1), after=(1, 1))
    check_interpreted(graph, context(threads=threads))


def direct(graph: Graph, layouts: int = 0) -> DirectConvolution:
    """A direct convolution alone, in one of the layouts it offers."""
    shapes = [x.details for x in graph.ops[-2].inputs]
    attrs = graph.ops[-2].attrs

    def made(details: list[LogicalTensor]) -> DirectConvolution:
        alone = Graph("alone")
        inputs = [alone.make_input(d) for d in details]
        op = alone.make("direct_convolution", inputs, attrs)
        assert isinstance(op, DirectConvolution)
        return op

    choice = query_format(made(shapes), context())[layouts]
    op = made([d.with_format(f) for d, f in zip(shapes, choice.inputs, strict=True)])
    op.outputs[0].details = op.outputs[0].details.with_format(choice.outputs[0])
    return op


def test_every_block_on_offer_gives_the_same_result() -> None:
    graph = convolution((1, 5, 5, 3), (26, 5, 3, 3), before=(1, 1), after=(1, 1))
    ctx = context()
    op = direct(graph)
    space = DirectSpace(op, group_of(op), ctx)
    assert {space.point(schedule).word("band") for schedule in space.candidates} == {"rows"}
    for rows, k_block, groups in ((1, 1, 1), (2, 6, 2), (5, 15, 1), (2, 30, 1), (5, 45, 2)):
        text = f"band=rows mc={rows} kc={k_block} ng={groups}"
        requested = space.complete(parse_schedule(text))
        asking = replace(ctx, requested={"direct_convolution": requested})
        lowered = check_interpreted(graph, asking)
        assert any(str(requested) in call.note for call in lowered.calls)


def test_a_schedule_measured_in_other_layouts_runs_with_the_band_of_these() -> None:
    op = direct(convolution((1, 5, 5, 3), (26, 5, 3, 3), before=(1, 1), after=(1, 1)))
    space = DirectSpace(op, group_of(op), context())
    measured = parse_schedule("direct band=patches mr=4 nv=2 mc=2 kc=45 ng=1 use=fma")
    kept = space.point(space.tuned(measured))
    assert (kept.word("band"), kept.number("mr"), kept.number("mc")) == ("rows", 4, 2)


@pytest.mark.exhaustive
@pytest.mark.parametrize("residual", ["full", "column", "none"])
@pytest.mark.parametrize("kernel", [1, 3])
@pytest.mark.parametrize("size", [2, 5])
def test_epilogues_run_on_the_accumulators(residual: str, kernel: int, size: int) -> None:
    graph, border = Graph("layer"), (kernel // 2,) * 2
    shape = (2, 17, size, size)
    x = graph.make_input(LogicalTensor(F32, shape), "x")
    w = graph.make_constant(integers((17, 17, kernel, kernel), 3), "w")
    attrs = {"before": border, "after": border}
    y = graph.make("direct_convolution", (x, w), attrs).outputs[0]
    y = graph.make("add", (y, graph.make_constant(integers((17, 1, 1), 4), "b"))).outputs[0]
    if residual != "none":
        other = shape if residual == "full" else (1, 1, 1, size)
        added = graph.make_input(LogicalTensor(F32, other), "residual")
        y = graph.make("add", (y, added)).outputs[0]
    graph.make_output(graph.make("relu", (y,)).outputs[0])
    lowered = check_interpreted(graph, context())
    kernels = [call.kernel for call in lowered.calls if "_conv_" in call.kernel]
    assert len(kernels) == 1 and "relu" in kernels[0]
    assert not any("relu" in call.kernel for call in lowered.calls if call.kernel != kernels[0])


@pytest.mark.exhaustive
@pytest.mark.parametrize("width", [1, 2])
@pytest.mark.parametrize(("groups", "kernel"), [(2, 3), (1, 3), (1, 1)])
def test_epilogues_find_their_pixel_in_narrow_images(width: int, groups: int, kernel: int) -> None:
    """An axis of one element is read at index 0: rows must not be counted along it."""
    graph, border = Graph("layer"), (kernel // 2,) * 2
    x = graph.make_input(LogicalTensor(F32, (1, 4, 3, width)), "x")
    w = graph.make_constant(integers((4, 4 // groups, kernel, kernel), 3), "w")
    attrs = {"before": border, "after": border, "groups": groups}
    y = graph.make("convolution", (x, w), attrs).outputs[0]
    graph.make_output(graph.make("add", (y, x)).outputs[0])
    lowered = check_interpreted(graph, context())
    assert any("_add_" in call.kernel for call in lowered.calls)


def boundary_cases() -> list[Shapes]:
    """Random geometries of the boundary grid: sizes, channels, kernels, strides, dilations, padding, groups."""
    rng = np.random.default_rng(0)
    found: list[Shapes] = []
    while len(found) < 36:
        groups = int(rng.choice([1, 1, 1, 2, 3]))
        channels, outputs = (int(rng.choice(CHANNELS)) for _ in range(2))
        image, kernel = rng.integers(1, 18, 2), rng.integers(1, 8, 2)
        attrs = {
            "strides": tuple(map(int, rng.integers(1, 4, 2))),
            "dilations": tuple(map(int, rng.choice([1, 1, 2, 3], 2))),
            "before": tuple(map(int, rng.integers(0, 5, 2))),
            "after": tuple(map(int, rng.integers(0, 5, 2))),
            "groups": groups,
        }
        reach = (kernel - 1) * np.array(attrs["dilations"]) + 1
        if (reach <= image + np.array(attrs["before"]) + np.array(attrs["after"])).all():
            x = (int(rng.integers(1, 3)), channels * groups, *map(int, image))
            found.append((x, (outputs * groups, channels, *map(int, kernel)), attrs))
    return found


@pytest.mark.exhaustive
@pytest.mark.parametrize("isa", NATIVE_ISAS)
def test_boundary_grid_natively_between_guard_pages(isa: str) -> None:
    graph, arrays = Graph("grid"), []
    for number, (x, w, attrs) in enumerate(boundary_cases()):
        image = graph.make_input(LogicalTensor(F32, x), f"x{number}")
        weights = graph.make_constant(integers(w, number), f"w{number}")
        if attrs["groups"] > 1:
            grouped = (attrs["groups"], w[0] // attrs["groups"], *w[1:])
            weights = graph.make("reshape", (weights,), {"shape": grouped}).outputs[0]
        graph.make_output(graph.make("direct_convolution", (image, weights), attrs).outputs[0])
        arrays.append(integers(x, number + 1))
    wanted = graph.evaluate(arrays)
    model = compile_model(graph, target=isa)
    ends: tuple[Edge, ...] = ("start", "end")
    for at in ends:
        inputs = {t.name: guarded_copy(a, at) for t, a in zip(model.inputs, arrays, strict=True)}
        outputs = [guarded(e.shape, F32, at) for e in wanted]
        model.bind(inputs, outputs)()
        for result, expected, case in zip(outputs, wanted, boundary_cases(), strict=True):
            assert np.array_equal(result, expected), case


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_finite_stays_where_it_is(value: float) -> None:
    """Zeros of the padding meet finite weights only, and an infinite pixel the windows that see it."""
    graph = convolution((1, 17, 6, 5), (9, 17, 3, 3), before=(1, 1), after=(1, 1))
    x: Array = integers((1, 17, 6, 5))
    x[0, 0, 0, 0] = value
    result = compile_model(graph)(x)
    assert not np.isfinite(result[0, :, :2, :2]).any()
    assert np.isfinite(result[0, :, 2:]).all() and np.isfinite(result[0, :, :, 2:]).all()
