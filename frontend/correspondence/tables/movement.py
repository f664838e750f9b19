"""Shapes, orders of axes, copies, parts, joins and borders."""

from __future__ import annotations

from ..compositions import movement as means
from ..row import Means, Op

SHAPES = (
    Op("reshape", onnx="Reshape(data, shape=shape | allowzero) by reshape write only"),
    Means(means.reshape, onnx="Reshape(data, shape=shape | allowzero)"),
    Op("broadcast", onnx="Expand(input, shape=shape) write only"),
    Means(means.expand, onnx="Expand(input, shape=shape)"),
    Op("transpose", onnx="Transpose(data | perm) by transpose"),
    Means(means.flatten, onnx="Flatten(input | axis=split)"),
    Means(means.squeeze, onnx="Squeeze(data, axes=axes?)"),
    Means(means.unsqueeze, onnx="Unsqueeze(data, axes=at)"),
    Means(means.tile, onnx="Tile(input, repeats=repeats)"),
    Means(means.depth_to_space, onnx="DepthToSpace(input | blocksize=block, mode)"),
    Means(means.space_to_depth, onnx="SpaceToDepth(input | blocksize=block, mode)"),
    Means(means.triangle, onnx="Trilu(input, k=diagonal? | upper)"),
)

PARTS = (
    Op("concat", onnx="Concat(inputs* | axis)"),
    Op("slice", onnx="Slice(data, starts, ends, axes?, steps?) by slice"),
    Op("pad", onnx="Pad(data, pads, constant_value?, axes? | mode) by pad"),
)

ROWS = (*SHAPES, *PARTS)
