"""Winograd convolutions of bytes: exact for any weights and images that the form admits; sizes around its tiles."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphc
from graphc.base.dims import Size, Symbol, size
from graphc.base.dtypes import F32, S8, S32, U8, DType
from graphc.base.options import CompileOptions
from graphc.driver.compiler import compile_stages
from graphc.graph_ir.ir.graph import Array, Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.schedule.convolution_forms import possible_forms
from graphc.runtime.executor import CompiledModel
from support.convolutions import SIZES, convolution
from support.lowered import check_interpreted, context

B, H, W = (size(Symbol(name, 1, 40)) for name in "BHW")


def extremes(dtype: DType, shape: tuple[int, ...], seed: int = 0) -> Array:
    """Mostly the largest and the least number, so that all transforms reach their largest ones."""
    limits = np.iinfo(dtype.numpy)
    values = [limits.min, limits.max, limits.min, limits.max, limits.max - 1, 3, 0]
    return np.random.default_rng(seed).choice(values, shape).astype(dtype.numpy)


def layer(
    sizes: tuple[Any, ...], results: int, dtype: DType, as_bytes: bool = False
) -> tuple[Graph, Array]:
    """A convolution in a Winograd form, with `as_bytes` and what makes bytes of its sums; and the weights."""
    batch, channels, outputs, height, width, before, after, *dilated = sizes
    graph = Graph("layer")
    x = graph.make_input(LogicalTensor(dtype, (batch, channels, height, width)), "x")
    weights = extremes(S8, (outputs, channels, 3, 3), 1)
    u = graph.make("winograd_weights", [graph.make_constant(weights, "w")], {"results": results})
    attrs = {"results": results, "before": before, "after": after}
    attrs |= {"dilations": dilated[0]} if dilated else {}
    y = graph.make("winograd_convolution", [x, *u.outputs], attrs, "conv").outputs[0]
    if as_bytes:
        y = graph.make("cast", [y], {"dtype": F32}).outputs[0]
        scale, zero = graph.make_constant(np.float32(997)), graph.make_constant(np.uint8(100))
        y = graph.make("quantize", [y, scale, zero], {"dtype": U8}).outputs[0]
    graph.make_output(y, "y")
    return graph, weights


def exact(x: Array, weights: Array, sizes: tuple[Any, ...]) -> Array:
    return convolution(x.astype(np.float64), weights.astype(np.float64), *sizes[5:])


@pytest.mark.exhaustive
@pytest.mark.parametrize("number", range(len(SIZES)))
def test_every_sum_is_exact(number: int) -> None:
    """Sizes around the tiles; each with both forms, types and targets in turn."""
    sizes, dtype = SIZES[number], (U8, S8)[number % 2]
    for results, target in zip(
        (2, 4), [("native", "avx2"), ("avx2", "native")][number // 2 % 2], strict=True
    ):
        graph, weights = layer(sizes, results, dtype)
        x = extremes(dtype, graph.inputs[0].outputs[0].details.plain_dims)
        expected = exact(x, weights, sizes)
        np.testing.assert_array_equal(graph.evaluate([x])[0], expected)
        result = np.asarray(graphc.compile(graph, target, threads=1)(x))
        np.testing.assert_array_equal(result, expected)


def test_interpreted_with_its_epilogue() -> None:
    lowered = check_interpreted(layer(SIZES[1], 2, U8, as_bytes=True)[0], context("avx2"))
    (call,) = [call for call in lowered.calls if "winograd" in call.kernel]
    assert "u8_winograd_f2" in call.kernel and "round_saturate" in call.note


@pytest.mark.exhaustive
@pytest.mark.parametrize(("target", "results", "outputs"), [("native", 2, 35), ("avx2", 4, 40)])
def test_threads_and_bytes(target: str, results: int, outputs: int) -> None:
    sizes = (3, 20, outputs, 19, 18, (1, 1), (1, 1))
    graph, weights = layer(sizes, results, U8, as_bytes=True)
    x = extremes(U8, (3, 20, 19, 18))
    expected = np.clip(np.rint(exact(x, weights, sizes) / 997) + 100, 0, 255)
    for threads in (1, 2):
        result = np.asarray(graphc.compile(graph, target, threads)(x))
        np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize(("target", "results", "step"), [("native", 4, 1), ("avx2", 2, 2)])
def test_dynamic_sizes(target: str, results: int, step: int) -> None:
    def sizes(*shape: Size) -> tuple[Any, ...]:
        batch, *image = shape
        return (batch, 9, 33, *image, *((step, step),) * 3)

    by_size = graphc.compile(layer(sizes(B, H, W), results, U8)[0], target, 1)
    for shape in ((7, 9, 14), (1, 1, 1), (2, 21, 30)):
        _, weights = layer(sizes(*shape), results, U8)
        x = extremes(U8, (shape[0], 9, *shape[1:]))
        np.testing.assert_array_equal(by_size(x), exact(x, weights, sizes(*shape)))


def convolution_of_bytes(batch: Size, weights: Array) -> Graph:
    graph = Graph("layer")
    x = graph.make_input(LogicalTensor(U8, (batch, weights.shape[1], 14, 14)), "x")
    w = graph.make_constant(weights, "w")
    attrs = {"before": (1, 1), "after": (1, 1), "dtype": S32}
    graph.make_output(graph.make("convolution", [x, w], attrs, "conv").outputs[0], "y")
    return graph


@pytest.mark.parametrize(("target", "batch"), [("native", 2), ("avx2", B)])
def test_the_switch_changes_no_bit(target: str, batch: Size) -> None:
    graph = convolution_of_bytes(batch, extremes(S8, (64, 64, 3, 3)))
    x, found = extremes(U8, (2, 64, 14, 14)), []
    for disabled in (frozenset[str](), frozenset({"byte-winograd"})):
        # Direct convolutions in tile registers are faster.
        options = CompileOptions(disabled=disabled | {"amx"})
        made = compile_stages(graph, target, options)
        used = any("winograd" in call.kernel for call in made.lowered.calls)
        assert used is not bool(disabled)
        found.append(CompiledModel(made.artifact)(x))
    np.testing.assert_array_equal(*found)


def test_weights_whose_sums_could_overflow_are_not_admitted() -> None:
    """F(4x4) has sums 64 times too large: of 2^25 and more they would wrap."""
    most = np.full((2, 128, 3, 3), 127, np.int8)
    for weights, forms in ((most[:, :114], {"f2", "f4"}), (most[:, :116], {"f2"})):
        graph = convolution_of_bytes(1, weights)
        found = {form.name for form, _ in possible_forms(graph.ops[-2], context())}
        assert {f"winograd-{name}" for name in forms} == {x for x in found if "winograd" in x}
