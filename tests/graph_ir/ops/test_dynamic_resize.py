"""Resizing to and from dynamic sizes: indices and weights that are computed when the model runs."""

from __future__ import annotations

import graphc
from graphc import Graph
from graphc.base.dims import Size
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
