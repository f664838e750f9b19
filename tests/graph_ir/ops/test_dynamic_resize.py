"""Resizing to and from dynamic sizes: indices and weights that are computed when the model runs."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphc
from graphc import Graph
from graphc.base.dims import Size, Symbol, size
from graphc.base.dtypes import F32
from graphc.base.scaled_sizes import scaled
from graphc.driver.compiler import compile_stages
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.targets.isa import Target
from support.images import SIZES, H, Layers, N, W, agree, image


def resized(n: Size, h: Size, w: Size) -> Graph:
    """A network that halves its image, and makes it as large as it was in several ways."""
    layers = Layers(3, n, h, w)
    half = layers.convolve(4, 3, strides=(2, 2))
    shape = (n, 4, h, w)
    ways: tuple[dict[str, object], ...] = (
        {"mode": "linear", "coordinates": "pytorch_half_pixel", "shape": shape},
        {"mode": "linear", "coordinates": "align_corners", "shape": shape},
        {"mode": "nearest", "coordinates": "asymmetric", "nearest_mode": "floor", "shape": shape},
        {"mode": "cubic", "coordinates": "half_pixel_symmetric", "shape": shape},
        {"mode": "cubic", "cubic_coeff": -0.5, "exclude_outside": True, "shape": shape},
    )
    for number, way in enumerate(ways):
        layers.x = half
        layers.graph.make_output(layers.add("resize", **way), f"y{number}")
    return layers.graph


def test_resizing_to_the_size_of_the_input() -> None:
    model = graphc.compile(resized(N, H, W))
    for sizes in SIZES:
        agree(model, resized(*sizes), image(sizes[0], 3, *sizes[1:]))


def scaled_images(h: Size, w: Size) -> Graph:
    """An image resized with filters, cut regions and rounded coordinates to sizes of several kinds."""
    graph = Graph()
    x = graph.make_input(LogicalTensor(F32, (2, 1, h, w)), "x")
    linear: dict[str, Any] = {"mode": "linear", "coordinates": "half_pixel"}
    nearest: dict[str, Any] = {
        "mode": "nearest",
        "coordinates": "asymmetric",
        "nearest_mode": "floor",
    }
    cut: dict[str, Any] = {"coordinates": "tf_crop_and_resize"}
    region = graph.make_constant(np.array([0, 0, 0.2, -0.3, 1, 1, 0.8, 1.4]), "region")
    third, more = (scaled(h, 0.3), scaled(w, 1.7)), (scaled(h, 1.1), scaled(w, 2.3))
    scales: dict[str, Any] = {"scales": (1.0, 1.0, 1.1, 2.3)}
    ways: tuple[tuple[dict[str, Any], tuple[Size, Size]], ...] = (
        ({**linear, "antialias": True, "exclude_outside": True}, (5, 1)),
        ({**linear, "mode": "cubic", "antialias": True}, third),
        ({**linear, **cut, "extrapolation": 7.0}, (5, w)),
        ({**nearest, **cut}, (1, 9)),
        ({**nearest, **scales, "by_step": True}, more),
        ({**nearest, "coordinates": "half_pixel", "nearest_mode": "round_prefer_ceil"}, third),
    )
    for number, (way, sizes) in enumerate(ways):
        inputs = [x, region] if way.get("coordinates") == cut["coordinates"] else [x]
        op = graph.make("resize", inputs, {**way, "shape": (2, 1, *sizes)}, f"r{number}")
        graph.make_output(op.outputs[0], f"y{number}")
    return graph


def test_filters_regions_and_scales_of_dynamic_sizes() -> None:
    dynamic = graphc.compile(scaled_images(size(Symbol("H", 4)), size(Symbol("W", 4))))
    for h, w in ((4, 4), (37, 20), (10, 100)):
        x = np.random.default_rng(h).integers(-9, 9, (2, 1, h, w)).astype(np.float32)
        wanted = scaled_images(h, w).evaluate([x])
        for found, y in zip(dynamic.run(None, {"x": x}), wanted, strict=True):
            np.testing.assert_allclose(found, y, 1e-4, 1e-4)


def test_an_axis_takes_few_kernels() -> None:
    """Indices and weights of all neighbors are one kernel each, as every kernel takes time to compile."""
    graph, (h, w) = Graph("image"), (size(Symbol(name)) for name in "HW")
    x = graph.make_input(LogicalTensor(F32, (1, 4, h, w)), "x")
    sizes = {"shape": (1, 4, scaled(h, 1.7), scaled(w, 1.7)), "scales": (1.0, 1.0, 1.7, 1.7)}
    attrs = {**sizes, "mode": "cubic"}
    graph.make_output(graph.make("resize", [x], attrs).outputs[0], "y")
    assert len(compile_stages(graph, Target("avx2")).lowered.calls) <= 18
