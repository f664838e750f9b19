"""Strides of images in memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ...base.dims import Size
from ...tensor_ir.nodes import Buffer
from ..ir.format import Format
from ..ir.graph import GraphTensor
from ..nest.problem import View


def image_operand(tensor: GraphTensor, buffer: Buffer, pixels: tuple[Size, Size]) -> View:
    """Return the view of an image of one or two spatial axes, with channels in blocks or none; `pixels`: its height and
    width."""
    details = tensor.details
    if details.format.is_blocked:
        images, _, *line, block = math.prod(details.physical_dims[1:]), *details.physical_dims[1:]
        row = line[-1] * block if details.rank == 4 else 0
        blocks = {"c": (block, math.prod(line) * block)}
        return View(buffer, {"b0": images, "c": 1, "iy": row, "ix": block}, blocks)
    dims = *details.plain_dims[:2], *pixels[4 - details.rank :]
    image, channel, *line = strides_of(details.format, dims)
    return View(
        buffer, {"b0": image, "c": channel, "iy": line[0] if line[1:] else 0, "ix": line[-1]}
    )


def strides_of(fmt: Format, dims: Sequence[Any]) -> list[Any]:
    """The stride of each plain axis, in a layout without blocks."""
    strides: list[Any] = [0] * len(dims)
    stride: Any = 1
    for axis in reversed(fmt.order):
        strides[axis] = stride
        stride *= dims[axis]
    return strides
