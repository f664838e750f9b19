"""Conversion of a convolution op to the plain numbers of its geometry."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ...base.dims import bounds, evaluate, is_known, symbols_of
from ..ir.op import Op
from ..nest.convolution_geometry import ConvolutionGeometry
from ..ops.convolution import Convolution
from ..ops.winograd import WinogradConvolution

TYPICAL_IMAGE = 224
"""The height and width of images of any size that cost models assume."""


def geometry_of(op: Convolution) -> ConvolutionGeometry:
    """The numbers of a convolution; of more than two spatial axes all but the last count as rows.

    Of dynamic sizes, what cost models assume: `with_sizes_of` has the sizes themselves.
    """
    w, window, groups = op.weight_dims(op.inputs[1].details), op.window, op.groups
    x, y, is_dynamic = typical_images(op)
    return ConvolutionGeometry(
        x[0], groups, w[1], w[0] // groups, pair(x[2:]), pair(y[2:]), pair(window.kernel),
        pair(window.strides), pair(window.dilations), pair(window.before, 0), is_dynamic,
        _fewest(op),
    )  # fmt: skip


def _fewest(op: Op) -> int:
    images = op.inputs[0].details.plain_dims[0]
    return 0 if is_known(images) else max(1, bounds(images)[0])


def typical_images(op: Op) -> tuple[tuple[int, ...], tuple[int, ...], bool]:
    """The sizes of an op's image and result that cost models assume, and whether their spatial ones are dynamic."""
    x, y = (tensor.details.plain_dims for tensor in (op.inputs[0], op.outputs[0]))
    image = {
        symbol.name: min(max(symbol.least, TYPICAL_IMAGE), symbol.most)
        for symbol in symbols_of(x[2:])
    }
    image |= {s.name: s.typical for s in symbols_of((*x[:2], *y)) if s.name not in image}
    before, after = (tuple(evaluate(one, image) for one in dims) for dims in (x, y))
    return before, after, not is_known(*x[2:], *y[2:])


def with_sizes_of(geometry: ConvolutionGeometry, op: Op) -> ConvolutionGeometry:
    """The geometry with the sizes of images that an op has, which may be dynamic."""
    return with_images_of(
        geometry, op.inputs[0].details.plain_dims, op.outputs[0].details.plain_dims
    )


def with_images_of(
    geometry: ConvolutionGeometry, x: Sequence[Any], y: Sequence[Any]
) -> ConvolutionGeometry:
    """The geometry with the images of input and output dims."""
    return replace(geometry, batch=x[0], image=pair(x[2:]), result=pair(y[2:]))


def winograd_geometry(op: WinogradConvolution) -> ConvolutionGeometry:
    """The numbers of the convolution that a Winograd convolution computes; of dynamic sizes as `geometry_of`."""
    u = op.inputs[1].details.plain_dims
    x, y, is_dynamic = typical_images(op)
    before, _ = op.padding
    return ConvolutionGeometry(
        x[0], 1, x[1], u[2], pair(x[2:]), pair(y[2:]), (3, 3),
        dilations=pair(op.dilations), before=before, is_dynamic=is_dynamic,
    )  # fmt: skip


def few_geometry(op: WinogradConvolution, few: int) -> ConvolutionGeometry:
    """The numbers of one with about `few` pixels of results, of typical images as many as that are."""
    g = winograd_geometry(op)
    rows, columns = g.result
    if rows * columns <= few:
        return replace(g, batch=few // (rows * columns))
    size = max(1, math.isqrt(few))
    return replace(g, batch=1, image=(size, size), result=(size, size))


def pair(sizes: Sequence[Any], missing: int = 1) -> tuple[Any, Any]:
    """Return (rows, columns) of spatial axes, of which all but the last count as rows; `missing` rows for one axis."""
    *outer, last = sizes
    return (math.prod(outer) if outer else missing), last
