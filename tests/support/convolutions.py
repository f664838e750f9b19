"""Sizes of 3 x 3 convolutions around the tiles of Winograd forms, and the convolution as a sum over windows."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphc.base.dtypes import F32
from graphc.graph_ir.ir.graph import Array, Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor

from .lowered import integers

Pair = tuple[int, int]

# (batch, channels, outputs, height, width, before, after, dilations where they are not 1)
SIZES: tuple[tuple[Any, ...], ...] = (
    (1, 1, 1, 1, 1, (1, 1), (1, 1)),
    (2, 3, 5, 3, 2, (1, 1), (1, 1)),
    (1, 16, 17, 4, 5, (1, 1), (1, 1)),
    (1, 15, 33, 7, 9, (0, 1), (2, 0)),
    (2, 17, 16, 10, 6, (1, 1), (1, 1)),
    (1, 33, 49, 17, 13, (0, 0), (0, 0)),
    (1, 8, 70, 8, 8, (2, 3), (1, 4)),
    (
        2,
        5,
        17,
        17,
        9,
        (2, 1),
        (2, 3),
        (2, 3),
    ),  # phases of 9 and 8 rows: a tile of the second has none
    (1, 3, 5, 3, 11, (4, 1), (5, 1), (4, 1)),
)


def convolution(x: Array, w: Array, before: Pair, after: Pair, dilations: Pair = (1, 1)) -> Array:
    """The sums over 3 x 3 windows of x[N, C, H, W] by w[O, C, 3, 3], in their type."""
    pads, (down, across) = [(0, 0), (0, 0), *zip(before, after, strict=True)], dilations
    reach = 2 * down + 1, 2 * across + 1
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(x, pads), reach, (2, 3))
    windows = windows[..., ::down, ::across]
    return np.asarray(np.einsum("nchwij,ocij->nohw", windows, w, optimize=True))


def layer(size: tuple[Any, ...], results: int, seed: int = 0, with_post: bool = False) -> Graph:
    """A 3 x 3 convolution in a Winograd form, integers as weights; with `with_post` bias, residual and relu too."""
    batch, channels, outputs, height, width, before, after, *dilated = size
    graph = Graph("layer")
    x = graph.make_input(LogicalTensor(F32, (batch, channels, height, width)), "x")
    w = graph.make_constant(integers((outputs, channels, 3, 3), seed), "w")
    u = graph.make("winograd_weights", [w], {"results": results}, "u").outputs[0]
    attrs = {"results": results, "before": before, "after": after}
    attrs |= {"dilations": dilated[0]} if dilated else {}
    y = graph.make("winograd_convolution", [x, u], attrs, "conv").outputs[0]
    if with_post:
        bias = graph.make_constant(integers((1, outputs, 1, 1), seed + 1), "bias")
        other = graph.make_input(y.details, "other")
        y = graph.make("add", [y, bias], {}, "biased").outputs[0]
        y = graph.make("add", [y, other], {}, "sum").outputs[0]
        y = graph.make("relu", [y], {}, "relu").outputs[0]
    graph.make_output(y)
    return graph


def arrays_of(graph: Graph) -> list[Array]:
    """Integers for each input."""
    return [integers(op.outputs[0].details.plain_dims, 7 + i) for i, op in enumerate(graph.inputs)]
