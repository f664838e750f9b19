"""Convolutions of f64, f16, bf16 and bytes: every geometry around tiles, groups and borders, exactly."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from graphc.base.dtypes import BF16, F16, F32, F64, S8, S32, U8, DType
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.ir.schedule import parse_schedule
from graphc.graph_ir.schedule.context import LowerContext
from graphc.targets.isa import Target
from graphc.tensor_ir.nodes import Brgemm
from graphc.tensor_ir.visitor import walk
from support.compiled import run_native
from support.lowered import check_interpreted, context, integers

FLOATS = (F64, F16, BF16)
BYTES = (U8, S8)
DOTS = LowerContext(Target("avx512", features="+avx512bf16,+avx512vnni"), context().options)
CONTEXTS = {"dots": DOTS, "avx512": context("avx512"), "avx2": context("avx2")}
GEOMETRIES: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((1, 3, 9, 8), (17, 3, 3, 3), {"before": (1, 1), "after": (1, 1)}),
    ((2, 17, 5, 6), (20, 17, 3, 3), {"before": (1, 0), "after": (0, 2)}),
    ((1, 20, 5, 6), (33, 20, 3, 3), {"before": (1, 1), "after": (1, 1)}),
    ((1, 20, 5, 6), (20, 20, 1, 1), {}),
    ((1, 19, 5, 6), (20, 19, 1, 1), {"strides": (2, 2)}),
    ((1, 17, 9, 9), (8, 17, 3, 2), {"dilations": (2, 2), "before": (1, 3), "after": (2, 1)}),
    ((1, 32, 5, 4), (32, 16, 3, 3), {"groups": 2, "before": (1, 1)}),
    ((1, 4, 5, 6), (6, 2, 3, 2), {"groups": 2, "strides": (1, 2), "before": (0, 1)}),
    ((2, 20, 17), (20, 20, 3), {"strides": (2,), "before": (2,)}),
    ((1, 16, 2, 2), (50, 16, 3, 3), {"before": (1, 1), "after": (1, 1)}),
    ((1, 24, 7, 9), (24, 1, 3, 3), {"groups": 24, "before": (1, 1), "after": (1, 1)}),
]


def convolution(
    dtype: DType, x: tuple[int, ...], w: tuple[int, ...], constant: bool = True, **attrs: Any
) -> Graph:
    """A convolution of floats, or of bytes by signed bytes."""
    graph = Graph("convolution")
    weights = dtype if dtype.is_float else S8
    if not dtype.is_float:
        attrs = {**attrs, "dtype": S32}
    image = graph.make_input(LogicalTensor(dtype, x), "x")
    if constant:
        matrix = graph.make_constant(integers(w, 3).astype(weights.numpy), "w")
    else:
        matrix = graph.make_input(LogicalTensor(weights, w), "w")
    graph.make_output(graph.make("convolution", (image, matrix), attrs).outputs[0])
    return graph


def groups_of(graph: Graph, ctx: LowerContext) -> set[int]:
    module = check_interpreted(graph, ctx).module
    return {node.k_group for node in walk(module) if isinstance(node, Brgemm)}


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", CONTEXTS)
@pytest.mark.parametrize("dtype", FLOATS + BYTES, ids=str)
@pytest.mark.parametrize(("x", "w", "attrs"), GEOMETRIES)
def test_every_geometry(kind: str, dtype: DType, x: Any, w: Any, attrs: Any) -> None:
    lowered = check_interpreted(convolution(dtype, x, w, **attrs), CONTEXTS[kind])
    assert not any("_convolution_" in call.kernel for call in lowered.calls), "no loops"


@pytest.mark.exhaustive
@pytest.mark.parametrize("dtype", FLOATS + BYTES, ids=str)
@pytest.mark.parametrize("channels", [16, 17])
def test_weights_given_at_run_time(dtype: DType, channels: int) -> None:
    """Groups of floats that do not come out even are not used, as nothing defines the padding."""
    for size in (1, 3):
        graph = convolution(dtype, (1, channels, 5, 5), (40, channels, size, size), False)
        check_interpreted(graph, DOTS)


def test_pairs_and_quads_are_used_where_the_target_has_them() -> None:
    for dtype, group in ((BF16, 2), (U8, 4), (F16, 1), (F64, 1)):
        for channels in (16, 17):
            graph = convolution(dtype, (1, channels, 5, 5), (40, channels, 3, 3))
            assert groups_of(graph, DOTS) == {group}
    assert groups_of(convolution(BF16, (1, 16, 5, 5), (40, 16, 3, 3)), context("avx2")) == {1}


@pytest.mark.exhaustive
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("bias", [F32, None], ids=["f32", "own"])
def test_a_bias_of_f32_or_of_the_same_type_is_the_epilogue(
    dtype: DType, bias: DType | None
) -> None:
    graph = convolution(dtype, (1, 16, 6, 5), (24, 16, 3, 3))
    output = graph.ops.pop()
    y = output.inputs[0]
    y.uses.clear()
    kind = bias or dtype
    wide = y if bias is None else graph.make("cast", [y], {"dtype": kind.name}).outputs[0]
    b = graph.make_constant(integers((24, 1, 1), 5).astype(kind.numpy), "b")
    wide = graph.make("relu", [graph.make("add", [wide, b]).outputs[0]]).outputs[0]
    back = wide if bias is None else graph.make("cast", [wide], {"dtype": dtype.name}).outputs[0]
    graph.make_output(back)
    lowered = check_interpreted(graph, DOTS)
    if dtype != F64 or bias is None:
        assert sum("add" in call.kernel for call in lowered.calls) == 1
        assert all("conv" in call.kernel for call in lowered.calls if "add" in call.kernel)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("dtype", "band"),
    [(x, band) for x in (*FLOATS, U8) for band in ("rows", "image")
     if (x, band) != (F16, "image")],  # nothing is converted in place
    ids=str,
)  # fmt: skip
def test_every_band_on_offer(dtype: DType, band: str) -> None:
    border = (0, 0) if band == "image" else (1, 1)
    graph = convolution(dtype, (1, 16, 5, 3), (26, 16, 3, 3), before=border, after=border)
    requested = {"convolution": parse_schedule(f"direct band={band}")}
    lowered = check_interpreted(graph, replace(DOTS, requested=requested))
    layouts = {"rows": "band[iy,ix,k]", "image": "ky kx k"}
    assert any(layouts[band] in call.note for call in lowered.calls)


@pytest.mark.exhaustive
@pytest.mark.parametrize("dtype", [*FLOATS, *BYTES], ids=str)
@pytest.mark.parametrize(("x", "w", "attrs"), GEOMETRIES[:6])
def test_native_code(dtype: DType, x: Any, w: Any, attrs: Any) -> None:
    """Integers are exact in every type."""
    graph = convolution(dtype, x, w, **attrs)
    image = np.abs(integers(x, 1)) if dtype == U8 else integers(x, 1)
    arrays = [image.astype(dtype.numpy)]
    np.testing.assert_array_equal(run_native(graph, arrays)[0], graph.evaluate(arrays)[0])


def test_rows_that_do_not_fit_the_stack_take_another_form() -> None:
    """A long signal with padding: its copy would not fit, nor would its sums."""
    for dtype in (F32, BF16):
        graph = convolution(dtype, (1, 64, 100_000), (64, 64, 3), before=(1,), after=(1,))
        image = np.ones((1, 64, 100_000), dtype.numpy)
        image[:, 2:] = 0
        (result,) = run_native(graph, [image])
        weights = integers((64, 64, 3), 3)[:, :2]
        np.testing.assert_array_equal(result[0, :, 500], weights.sum((1, 2)).astype(dtype.numpy))
