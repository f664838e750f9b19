"""Convolutions over three axes as ones over two: which are, what they compute, and what fuses into them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from graphc.driver.compiler import compile as compile_model
from graphc.driver.compiler import compile_stages
from graphc.graph_ir.ir.schedule import parse_schedule
from graphc.graph_ir.passes.convolve_planes import convolve_planes
from support.expressions import graph_from
from support.graphs import run_pass
from support.lowered import context, integers

# (image, weights, attributes)
CASES = [
    ((2, 3, 5, 6, 7), (4, 3, 3, 3, 3), ""),
    ((1, 3, 5, 6, 7), (4, 3, 3, 3, 3), ", before=(1, 1, 1), after=(1, 1, 1)"),
    ((1, 2, 7, 6, 5), (3, 2, 3, 2, 1), ", strides=(2, 1, 2), before=(2, 0, 1), after=(0, 1, 0)"),
    ((1, 2, 9, 4, 4), (3, 2, 3, 1, 1), ", dilations=(3, 1, 1)"),
    ((1, 2, 4, 5, 6), (3, 2, 1, 3, 3), ""),
    ((1, 2, 4, 5, 6), (3, 2, 1, 1, 1), ", strides=(2, 2, 2)"),
    ((1, 1, 1, 1, 1), (1, 1, 1, 1, 1), ""),
]


@pytest.mark.exhaustive
@pytest.mark.parametrize(("x", "w", "attrs"), CASES)
def test_cases(x: tuple[int, ...], w: tuple[int, ...], attrs: str) -> None:
    text, shapes = f"convolution(x, w{attrs})", {"x": x, "w": w}
    graph = graph_from(text, **shapes)
    assert run_pass(convolve_planes, graph)
    (left,) = (op for op in graph.ops if op.op_name == "convolution")
    assert len(left.outputs[0].details.plain_dims) == 4
    assert not run_pass(convolve_planes, graph)
    arrays = [integers(x, 1), integers(w, 2)]
    (wanted,) = graph_from(text, **shapes).evaluate(arrays)
    for disabled in ((), ("direct-convolution",)):
        y = compile_model(graph_from(text, **shapes), disabled=disabled)(*arrays)
        np.testing.assert_array_equal(y, wanted)


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_sums_of_narrow_operands_stay_wide(dtype: str) -> None:
    sizes = {"x": (1, 8, 4, 6, 6), "w": (8, 8, 3, 3, 3)}
    arrays = [integers(shape, 1 + i) for i, shape in enumerate(sizes.values())]
    (wanted,) = graph_from("convolution(x, w)", **sizes).evaluate(arrays)
    found = compile_model(graph_from("convolution(x, w)", **sizes), precision=dtype)(*arrays)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(
    ("text", "dtype"),
    [
        ("convolution(x, w, groups=2)", "f32"),
        ("convolution(x, w)", "s32"),
        (
            "convolution(reshape(x, shape=(1, 4, 6, 20)), reshape(w, shape=(4, 2, 3, 4)), groups=2)",
            "f32",
        ),
    ],
)
def test_other_convolutions_are_unchanged(text: str, dtype: str) -> None:
    channels = 2 if "groups" in text else 4
    graph = graph_from(text, dtype, x=(1, 4, 6, 4, 5), w=(4, channels, 3, 2, 2))
    assert not run_pass(convolve_planes, graph)


def test_a_convolution_with_a_schedule_keeps_its_form() -> None:
    graph = graph_from("convolution(x, w)", x=(1, 2, 4, 4, 4), w=(4, 2, 3, 3, 3))
    requested = replace(context(), requested={"convolution": parse_schedule("im2col")})
    assert not convolve_planes(graph, requested)
    assert convolve_planes(graph, context())


def test_bias_and_residual_fuse_and_images_stay_channels_last() -> None:
    conv = "convolution({}, {}, before=(1, 1, 1), after=(1, 1, 1))"
    first = f"relu(add({conv.format('x', 'w')}, b))"
    text = f"relu(add(add({conv.format(first, 'v')}, b), {first}))"
    sizes = {"x": (1, 8, 4, 6, 6), "w": (8, 8, 3, 3, 3), "v": (8, 8, 3, 3, 3), "b": (8, 1, 1, 1)}
    compilation = compile_stages(graph_from(text, **sizes), "avx2")
    notes = [call.note for call in compilation.lowered.calls]
    convolutions = [note for note in notes if "convolution" in note and "relu" in note]
    assert len(convolutions) == 2, notes
    arrays = [integers(shape, i) for i, shape in enumerate(sizes.values())]
    (wanted,) = graph_from(text, **sizes).evaluate(arrays)
    np.testing.assert_array_equal(compile_model(graph_from(text, **sizes))(*arrays), wanted)
