"""The form of a convolution, switches that turn forms off, and equal results of every form."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from graphc.base.dtypes import F32, S8, S32, DType
from graphc.base.options import SWITCHES, CompileOptions
from graphc.driver.compiler import compile_stages
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.ops.convolution import Convolution
from graphc.graph_ir.rewriting.decisions import log_of
from graphc.graph_ir.schedule.context import LowerContext
from graphc.graph_ir.schedule.convolution_forms import FORMS, ranked_forms
from graphc.graph_ir.schedule.convolution_sizes import geometry_of
from graphc.runtime.executor import CompiledModel
from graphc.targets.isa import Target
from support.lowered import integers, lower

CTX = LowerContext(Target("avx512", l2_bytes=1 << 20))


def layer(
    channels: int,
    size: int,
    kernel: int = 3,
    groups: int = 1,
    constant: bool = True,
    **attrs: object,
) -> Graph:
    """A convolution of as many results as channels, integers as weights."""
    graph = Graph("layer")
    x = graph.make_input(LogicalTensor(F32, (1, channels, size, size)), "x")
    shape = (channels, channels // groups, kernel, kernel)
    if constant:
        w = graph.make_constant(integers(shape, 1), "w")
    else:
        w = graph.make_input(LogicalTensor(F32, shape), "w")
    pad = (kernel // 2,) * 2
    attrs = {"before": pad, "after": pad, "groups": groups, **attrs}
    graph.make_output(graph.make("convolution", [x, w], attrs, "conv").outputs[0])
    return graph


def names(graph: Graph, ctx: LowerContext = CTX) -> list[str]:
    op = next(op for op in graph.ops if isinstance(op, Convolution))
    return [form.name for form, _ in ranked_forms(op, ctx)]


def asking(winograd: str = "auto", *disabled: str) -> LowerContext:
    return replace(CTX, options=CompileOptions(disabled=frozenset(disabled), winograd=winograd))


def test_large_images_take_large_tiles_and_small_ones_small_tiles() -> None:
    assert names(layer(64, 56))[0] == "winograd-f4"
    assert names(layer(512, 7))[0] == "winograd-f2"
    for dilation, form in ((2, "winograd-f4"), (12, "direct")):  # phases of 28 and of 5 rows
        pads = (dilation, dilation)
        assert names(layer(64, 56, dilations=pads, before=pads, after=pads))[0] == form, dilation


def test_few_channels_are_not_worth_the_transforms() -> None:
    assert names(layer(3, 12))[0] == "direct"


@pytest.mark.parametrize(
    "graph", [layer(8, 4), layer(16, 4, kernel=2, before=(0, 0), after=(0, 0)), layer(8, 8)]
)
def test_the_order_of_sums_is_that_of_one_image_for_any_number(graph: Graph) -> None:
    """A dynamic batch has the bits of each: im2col and the direct form add in other orders."""
    op = next(op for op in graph.ops if isinstance(op, Convolution))
    one, many = (
        ranked_forms(op, asking("auto", "winograd"), replace(geometry_of(op), batch=images))
        for images in (1, 64)
    )
    assert [form.name for form, _ in one] == [form.name for form, _ in many]
    assert [64 * cycles for _, cycles in one] == pytest.approx([cycles for _, cycles in many], 0.1)


def test_depthwise() -> None:
    assert names(layer(64, 28, groups=64))[0] == "depthwise"
    assert "depthwise" not in names(layer(64, 28, groups=32))


@pytest.mark.parametrize(
    "graph",
    [
        layer(64, 56, strides=(2, 2)),
        layer(64, 56, kernel=5),
        layer(64, 56, groups=2),
        layer(64, 56, constant=False),
    ],
    ids=["stride", "kernel", "groups", "weights"],
)
def test_winograd_is_for_constant_3_x_3_windows_of_stride_1(graph: Graph) -> None:
    assert not any(name.startswith("winograd") for name in names(graph))


@pytest.mark.parametrize("dtype", [None, S32])
def test_winograd_of_bytes_is_for_results_of_s32(dtype: DType | None) -> None:
    """Sums that wrap to bytes are those of the other forms."""
    graph, attrs = Graph("bytes"), {} if dtype is None else {"dtype": dtype}
    x = graph.make_input(LogicalTensor(S8, (1, 64, 28, 28)), "x")
    w = graph.make_constant(integers((64, 64, 3, 3)).astype(np.int8), "w")
    window = {"before": (1, 1), "after": (1, 1)}
    graph.make_output(graph.make("convolution", [x, w], {**window, **attrs}, "conv").outputs[0])
    ctx = LowerContext(Target("avx2", features="+avx2,+fma"))
    assert any("winograd" in name for name in names(graph, ctx)) == (dtype == S32)
    assert lower(graph, ctx).calls


def test_options() -> None:
    graph = layer(64, 56)
    assert names(graph, asking("f2"))[0] == "winograd-f2"
    assert "winograd-f4" not in names(graph, asking("f2"))
    assert names(layer(3, 12), asking("f4"))[0] == "winograd-f4"
    assert names(graph, asking("f4", "winograd"))[0] == "direct"
    assert not names(graph, asking("auto", "fold"))[0].startswith("winograd")
    off = asking("auto", "channel-windows")
    assert "depthwise" not in names(layer(64, 28, groups=64), off)


def test_every_form_has_a_switch_but_the_last() -> None:
    assert all(set(form.switches) <= set(SWITCHES) and form.switches for form in FORMS[:-1])


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("graph", "ctx", "kernel", "exact"),
    [
        (layer(24, 13), asking("f2"), "winograd_f2", True),
        (layer(24, 13), asking("f4"), "winograd_f4", False),
        (layer(24, 13), asking("auto", "winograd"), "conv_", True),
        (layer(24, 13, groups=24), asking(), "depthwise", True),
        (layer(24, 13, groups=24), asking("auto", "channel-windows"), "", True),
    ],
    ids=["f2", "f4", "no winograd", "depthwise", "no depthwise"],
)
def test_native(graph: Graph, ctx: LowerContext, kernel: str, exact: bool) -> None:
    x = integers((1, 24, 13, 13), 2)
    (expected,) = graph.evaluate([x])
    made = compile_stages(graph, "native", ctx.options)
    assert any(kernel in call.kernel for call in made.lowered.calls)
    result = np.asarray(CompiledModel(made.artifact)(x))
    np.testing.assert_allclose(result, expected, rtol=0, atol=0 if exact else 2e-3)


def test_the_choice_is_recorded_with_its_alternatives() -> None:
    made = compile_stages(layer(64, 28), Target("avx512", l2_bytes=1 << 20), CompileOptions())
    log = log_of(made.graph)
    (text,) = [d.text for d in log.story("conv") if d.kind == "form"]
    assert text.startswith("winograd-f4, ") and "direct" in text and "times" in text


@pytest.mark.parametrize("winograd", ["f2", "f4"])
def test_errors_do_not_grow_through_a_deep_network(winograd: str) -> None:
    """Ten layers with ReLU: also with the larger tiles the result is ten times within 1e-4 of float64."""
    rng = np.random.default_rng(5)
    graph = Graph("deep")
    y = graph.make_input(LogicalTensor(F32, (1, 32, 14, 14)), "x")
    exact = x = rng.standard_normal((1, 32, 14, 14)).astype(np.float32)
    for number in range(10):
        w = (rng.standard_normal((32, 32, 3, 3)) * np.sqrt(2 / 288)).astype(np.float32)
        constant = graph.make_constant(w, f"w{number}")
        attrs = {"before": (1, 1), "after": (1, 1)}
        y = graph.make("convolution", [y, constant], attrs, f"conv{number}").outputs[0]
        y = graph.make("relu", [y], {}, f"relu{number}").outputs[0]
        padded = np.pad(exact.astype(np.float64), [(0, 0), (0, 0), (1, 1), (1, 1)])
        windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
        exact = np.maximum(np.einsum("nchwij,ocij->nohw", windows, w, optimize=True), 0)
    graph.make_output(y)
    made = compile_stages(graph, "native", CompileOptions(winograd=winograd))
    assert sum(f"winograd_{winograd}" in call.kernel for call in made.lowered.calls) == 10
    result = np.asarray(CompiledModel(made.artifact)(x))
    assert np.abs(result - exact).max() <= 1e-5 * np.abs(exact).max()
