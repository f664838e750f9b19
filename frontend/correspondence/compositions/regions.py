"""Parts of images at coordinates that only a run knows, resampled to a fixed size."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ....base.dtypes import S64
from ....graph_ir.ir.graph import GraphTensor as Tensor
from ...op_builder import OpBuilder


def align_regions(
    node: OpBuilder, x: Tensor, boxes: Tensor, images: Tensor, grid: Mapping[str, Any]
) -> Tensor:
    """x [n, c, h, w] at boxes [r, 4] (x1 y1 x2 y2) of images [r], as RoIAlign of Mask R-CNN: [r, c, height, width].

    16-bit floats are resampled in f32. `grid`: attributes of the op.
    """
    wide = x.details.dtype.accumulator
    channels_last = node.transposed(node.converted(x, wide), (0, 2, 3, 1))
    owners = node.converted(images, S64)
    cells = node.helper("align_regions", channels_last, node.converted(boxes, wide), owners, **grid)
    return node.converted(node.transposed(cells, (0, 3, 1, 2)), x.details.dtype)
