"""Activations rounded to 8 bits, with a scale per group or row."""

from __future__ import annotations

from ...base.dtypes import F32, S8
from ..ir.graph import GraphTensor
from ..ops.compose import Composer

STEPS = 127
"""The largest magnitude in steps of its scale: -128 is not used, so that scales are the same for both signs."""

SMALLEST_SCALE = 1e-30
"""Smallest scale: a group of zeros has none."""


def rounded_rows(make: Composer, x: GraphTensor, group: int) -> tuple[GraphTensor, GraphTensor]:
    """Return x f32 [m, k] as s8 [m, k], and its scales f32 [m, k / group].

    scale = max(max(|x|) * f32(1 / 127), 1e-30) of each group; bytes = round(x / scale), ties to even.
    """
    m, k = x.details.plain_dims
    groups = (m, k // group)
    apart = make("reshape", x, shape=(*groups, group))
    scale = scale_along(make, apart, (2,))
    whole = make("quantize", apart, scale, dtype=S8.name)
    return make("reshape", whole, shape=(m, k)), make("reshape", scale, shape=groups)


def scale_along(make: Composer, x: GraphTensor, axes: tuple[int, ...]) -> GraphTensor:
    """The scale with which the largest magnitude along `axes`, which are kept, is `STEPS`."""
    largest = make("reduce_max", make("abs", x), axes=axes, keep_dims=True)
    scale = make("mul", largest, make.scalar(1 / STEPS, F32))
    return make("max", scale, make.scalar(SMALLEST_SCALE, F32))
