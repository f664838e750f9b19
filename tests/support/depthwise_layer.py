"""A depthwise convolution of bytes with known weights and bias."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphc.base.dtypes import F32, S32, U8, DType
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor

PADDED = {"before": (1, 1), "after": (1, 1)}
DEPTHWISE: list[tuple[tuple[int, int, int], tuple[int, int], dict[str, tuple[int, int]]]] = [
    ((32, 3, 11), (3, 3), PADDED),
    ((40, 9, 8), (3, 3), {**PADDED, "strides": (2, 2)}),
    ((33, 6, 7), (5, 5), {"before": (2, 3), "after": (2, 1)}),
    ((7, 4, 3), (3, 3), {"dilations": (2, 2), "before": (2, 2), "after": (2, 2)}),
    ((8, 2, 1), (4, 1), {"before": (2, 0), "after": (3, 0)}),
    ((48, 3, 9), (1, 3), {"before": (0, 1), "after": (0, 1)}),
]


def depthwise_layer(
    case: Any = DEPTHWISE[0], dtype: DType = U8, form: str = "convolution", bias: int = 9999
) -> tuple[Graph, np.ndarray]:
    """Sums of a depthwise convolution that become bytes; extreme weights and every value of the image's type."""
    (channels, *image), kernel, attrs = case
    rng, graph = np.random.default_rng(3), Graph("layer")
    limits = np.iinfo(dtype.numpy)
    x = rng.choice([limits.min, limits.max, *range(limits.min, limits.max)], (2, channels, *image))
    x = x.astype(dtype.numpy)
    w = rng.choice([-128, 127, -3, 0], (channels, 1, *kernel)).astype(np.int8)

    def make(op: str, *inputs: Any, **attrs: Any) -> Any:
        return graph.make(op, inputs, attrs).outputs[0]

    sums = graph.make_input(LogicalTensor(dtype, x.shape), "x")
    weights = graph.make_constant(w, "w")
    sums = make(form, sums, weights, groups=channels, dtype=S32, **attrs)
    if bias:
        added = rng.integers(-bias, bias + 1, (channels, 1, 1), np.int32)
        sums = make("add", sums, graph.make_constant(added))
    real = make("mul", make("cast", sums, dtype=F32), graph.make_constant(np.float32(1 / 512)))
    graph.make_output(make("round_saturate", real, low=0, high=255, zero=100, dtype=U8))
    return graph, x
