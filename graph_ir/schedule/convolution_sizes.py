"""From a convolution op to the plain numbers of its geometry."""

from __future__ import annotations

import math
from dataclasses import replace

from ...base.dims import typical
from ..ir.op import Op
from ..ops.convolution import Convolution
from ..ops.winograd import WinogradConvolution
from .convolution_geometry import ConvolutionGeometry


def geometry_of(op: Convolution) -> ConvolutionGeometry:
    """The numbers of a convolution; of more than two spatial axes all but the last count as rows.

    Of an open number of images, what cost models assume: `with_batch_of` has the number itself.
    """
    x, w = op.inputs[0].details.plain_dims, op.weight_dims(op.inputs[1].details)
    window, groups = op.window, op.groups
    result = op.outputs[0].details.plain_dims[2:]
    return ConvolutionGeometry(
        typical(x[0]), groups, w[1], w[0] // groups, _pair(x[2:]), _pair(result), _pair(window.kernel),
        _pair(window.strides), _pair(window.dilations), _pair(window.before, 0),
    )  # fmt: skip


def with_batch_of(geometry: ConvolutionGeometry, op: Op) -> ConvolutionGeometry:
    """The geometry with the number of images that an op has, which may be an open size."""
    return replace(geometry, batch=op.inputs[0].details.plain_dims[0])


def winograd_geometry(op: WinogradConvolution) -> ConvolutionGeometry:
    """The numbers of the convolution that a Winograd convolution computes."""
    x, u = (i.details.plain_dims for i in op.inputs)
    rows, columns = op.outputs[0].details.plain_dims[2:]
    before, _ = op.padding
    return ConvolutionGeometry(
        x[0], 1, x[1], u[2], (x[2], x[3]), (rows, columns), (3, 3), before=before
    )


def _pair(sizes: tuple[int, ...], missing: int = 1) -> tuple[int, int]:
    *outer, last = sizes
    return (math.prod(outer) if outer else missing), last
