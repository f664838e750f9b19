"""Strides of images in memory."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...tensor_ir.nodes import Buffer
from ..ir.format import Format
from ..ir.graph import GraphTensor
from ..nest.convolution import ImageOperand


def image_operand(tensor: GraphTensor, buffer: Buffer) -> ImageOperand:
    """Strides of an image of one or two spatial axes, with channels in blocks or none."""
    details = tensor.details
    if details.format.is_blocked:
        images, _, *line, block = math.prod(details.physical_dims[1:]), *details.physical_dims[1:]
        row = line[-1] * block if details.rank == 4 else 0
        return ImageOperand(buffer, images, row, block, math.prod(line), block)
    strides = strides_of(details.format, details.plain_dims)
    row = strides[2] if details.rank == 4 else 0
    return ImageOperand(buffer, strides[0], row, strides[-1], strides[1])


def strides_of(fmt: Format, dims: Sequence[int]) -> list[int]:
    """The stride of each plain axis, in a layout without blocks."""
    strides, stride = [0] * len(dims), 1
    for axis in reversed(fmt.order):
        strides[axis] = stride
        stride *= dims[axis]
    return strides
