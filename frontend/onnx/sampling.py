"""Columns summed back into images, regions of images, and images at moved points: Col2Im, RoiAlign, DeformConv."""

from __future__ import annotations

from ...graph_ir.ops.regions import AlignRegions
from ..correspondence.compositions.deformable import Deformed, deformable_convolution
from ..correspondence.compositions.regions import align_regions
from ..correspondence.compositions.sampling import columns_to_image
from ..op_builder import Value
from .export import Exporter
from .scope import Handler, NodeContext
from .windows import convolution_attrs


def _col2im(node: NodeContext) -> Value:
    image, block = node.ints(1, "an image shape", sizes=True), node.ints(2, "a block shape")
    count = len(image)
    strides, dilations = (
        node.attr_ints(name, None) or (1,) * count for name in ("strides", "dilations")
    )
    pads = node.attr_ints("pads", None) or (0,) * (2 * count)
    padding = (pads[:count], pads[count:])
    return columns_to_image(node, node.tensor(0), image, block, strides, dilations, padding)


def _roi_align(node: NodeContext) -> Value:
    x, boxes, images = (node.tensor(i) for i in range(3))
    regions = boxes.details.plain_dims[:1]
    if x.details.rank != 4 or boxes.details.plain_dims[1:] != (4,):
        raise node.rule("X must be NCHW and rois [n, 4]", f"{x.details} and {boxes.details}")
    if images.details.plain_dims != regions:
        raise node.rule(f"batch_indices must have shape {list(regions)}", str(images.details))
    kind = node.attr_text("mode")
    if kind not in ("avg", "max"):
        raise node.rule("mode must be avg or max", f"'{kind}'")
    how = (
        node.attr_text("coordinate_transformation_mode")
        if node.opset >= 16
        else "output_half_pixel"
    )
    cells = tuple(node.attr_int(f"output_{name}") for name in ("height", "width"))
    grid = {
        "cells": cells,
        "samples": node.attr_int("sampling_ratio"),
        "scale": node.attr_float("spatial_scale"),
        "half_pixel": how == "half_pixel",
        "largest": kind == "max",
    }
    return align_regions(node, x, boxes, images, grid)


def _deformable(node: NodeContext) -> Value:
    x, weight, offset = (node.tensor(i) for i in range(3))
    attrs = convolution_attrs(node, x, weight)
    padding = (attrs["before"], attrs["after"])
    groups = attrs["groups"], node.attr_int("offset_group")
    how = Deformed(attrs["strides"], attrs["dilations"], padding, *groups)
    bias, mask = (node.tensor(i) if node.has(i) else None for i in (3, 4))
    return deformable_convolution(node, x, weight, offset, bias, mask, how)


HANDLERS: dict[str, Handler] = {
    "Col2Im": _col2im,
    "DeformConv": _deformable,
    "RoiAlign": _roi_align,
}


def _write_regions(e: Exporter, op: AlignRegions) -> None:
    images, boxes, owners = e.values(op)
    cells = e.part(
        op,
        "RoiAlign",
        [e.part(op, "Transpose", [images], perm=(0, 3, 1, 2)), boxes, owners],
        output_height=op.cells[0],
        output_width=op.cells[1],
        sampling_ratio=op.samples,
        spatial_scale=op.scale,
        coordinate_transformation_mode="half_pixel" if op.half_pixel else "output_half_pixel",
        mode="max" if op.largest else "avg",
    )
    e.node(op, "Transpose", [cells], perm=(0, 2, 3, 1))


EXPORTERS = {"align_regions": _write_regions}
