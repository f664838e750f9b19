"""align_regions: parts of images resampled to cells of a fixed number."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from ...base.dtypes import F32, F64, S64
from ..ir.attributes import BoolAttr, FloatAttr, IntAttr
from ..ir.axis_attributes import SizesAttr
from ..ir.graph import Array, Op
from ..ir.logical_tensor import LogicalTensor
from ..ir.operands import Operand
from ..ir.registry import register


@register("align_regions")
class AlignRegions(Op):
    """Cells [regions,rows,columns,channels] of regions of images, as RoIAlign of Mask R-CNN resamples them.

    A cell is the mean, or the largest weighted pixel, of samples at equal distances. Samples more than a pixel outside
    of the image are 0, and so is a cell without samples.
    """

    kind: ClassVar[str] = "loop"
    images = Operand("[images,height,width,channels]")
    boxes = Operand("x1, y1, x2, y2 of each region, [regions,4], in the type of the images")
    owners = Operand("image of each region, s64[regions]")
    cells = SizesAttr("rows and columns of cells", count=lambda op: 2)
    samples = IntAttr(
        "samples per cell along each axis; 0: the number of pixels that a cell spans, rounded up",
        default=0,
    )
    scale = FloatAttr("scale of the coordinates", default=1.0)
    half_pixel = BoolAttr(
        "put the center of the first pixel at 0.5; otherwise at 0, with regions of at least one pixel"
    )
    largest = BoolAttr("take the largest weighted pixel of a cell instead of the mean")

    def infer(self, inputs: list[LogicalTensor]) -> list[LogicalTensor]:
        """Raise UserError if shapes or dtypes do not fit."""
        images, boxes, owners = inputs
        if images.rank != 4 or boxes.plain_dims[1:] != (4,) or boxes.rank != 2:
            rule = "images must be [images, height, width, channels], boxes [regions, 4]"
            raise self.rule(rule, f"{images} and {boxes}")
        if owners.plain_dims != boxes.plain_dims[:1] or owners.dtype != S64:
            raise self.rule(f"owners must be s64[{boxes.plain_dims[0]}]", f"{owners}")
        if images.dtype not in (F32, F64) or boxes.dtype != images.dtype:
            rule = "images and boxes must both be f32 or f64"
            raise self.rule(rule, f"{images.dtype} and {boxes.dtype}")
        if self.samples < 0:
            raise self.rule("samples must be 0 or more", str(self.samples))
        return [
            LogicalTensor(images.dtype, (boxes.plain_dims[0], *self.cells, images.plain_dims[3]))
        ]

    def reference(self, inputs: list[Array]) -> list[Array]:
        """Each region by itself."""
        images, boxes, owners = inputs
        dtype, sizes = images.dtype.type, images.shape[1:3]
        result = np.zeros((len(boxes), *self.cells, images.shape[3]), dtype)
        corners = boxes * dtype(self.scale) - dtype(0.5 if self.half_pixel else 0)
        for region, (corner, owner) in enumerate(zip(corners, owners, strict=True)):
            axes = [self._taps(corner[1 - i :: 2], int(self.cells[i]), sizes[i]) for i in (0, 1)]
            (rows, row_shares), (columns, column_shares) = axes
            if not rows.size or not columns.size:
                continue
            image = images[min(max(int(owner), 0), len(images) - 1)]
            weighted = [
                image[rows[..., i]][:, :, columns[..., j]]
                * (row_shares[..., i, None, None] * column_shares[..., j])[..., None]
                for i in (0, 1)
                for j in (0, 1)
            ]
            if self.largest:
                result[region] = np.max(weighted, axis=0).max(axis=(1, 3))
            else:
                result[region] = sum(weighted[1:], weighted[0]).mean(axis=(1, 3))
        return [result]

    def _taps(self, ends: Array, cells: int, size: int) -> tuple[Array, Array]:
        """Return indices and weights of the two pixels around each sample of an axis, both [cells, samples, 2]."""
        dtype = ends.dtype.type
        length = ends[1] - ends[0]
        cell = (length if self.half_pixel else max(length, dtype(1))) / dtype(cells)
        count = self.samples or max(int(np.ceil(cell)), 0)
        begin = ends[0] + np.arange(cells, dtype=dtype)[:, None] * cell
        middles = np.arange(count, dtype=dtype) + dtype(0.5)
        at = begin + middles * cell / dtype(count or 1)
        outside = (at < -1) | (at > size)
        at = np.clip(at, 0, size - 1)
        low = np.floor(at)
        shares = np.stack([1 - (at - low), at - low], axis=-1) * ~outside[..., None]
        pixels = np.stack([low, np.minimum(low + 1, size - 1)], axis=-1).astype(np.int64)
        return pixels, shares.astype(dtype)

    def get_gflop(self) -> float:
        """Four multiply-adds for each sample, of which an adaptive count is taken for four."""
        samples = self.samples**2 or 4
        return 8 * self.outputs[0].details.typical.elements * samples / 1e9
