"""Convolutions and resampling as core ATen has them."""

from __future__ import annotations

from ..correspondence.compositions.regions import align_regions
from ..correspondence.compositions.sampling import sample_grid
from ..correspondence.reading import Pair
from ..torch_calls.call import Value
from ..torch_calls.op_table import READS
from .node import Node, Read


def _read_convolution(node: Node, _: str) -> Value:
    """One operator for all: of any number of axes, transposed or not."""
    is_transposed = node.attr_bool("transposed")
    spatial = len(node.attr_ints("padding"))
    node.type = f"{node.type}{node.tensor_of('weight').details.rank - 2}d" if spatial else node.type
    node.argument("output_padding")
    return READS["convolution"](node, "convolution_transpose" if is_transposed else "convolution")


_GRID_MODES = ("linear", "nearest", "cubic")
_GRID_PADDINGS = ("zeros", "border", "reflection")


def _read_grid_sampler(node: Node) -> Value:
    """grid_sample, whose mode and padding are numbers."""
    mode = _GRID_MODES[node.attr_int("interpolation_mode")]
    padding = _GRID_PADDINGS[node.attr_int("padding_mode")]
    aligned = node.attr_bool("align_corners", False)
    x, grid = node.tensor_of(), node.tensor_of("grid")
    return sample_grid(node, x, grid, mode, padding, aligned, by_tap=True)


def _read_roi_align(node: Node) -> Value:
    """torchvision's: regions are an image and two corners each; a ratio of 0 or less adapts to each region."""
    x, regions = node.tensor_of(), node.tensor_of("rois")
    owners, boxes = node.sliced(regions, 1, 0, 1), node.sliced(regions, 1, 1, 4)
    grid = {
        "cells": tuple(node.attr_int(f"pooled_{name}") for name in ("height", "width")),
        "samples": max(node.attr_int("sampling_ratio", 0), 0),
        "scale": node.attr_float("spatial_scale"),
        "half_pixel": node.attr_bool("aligned", False),
    }
    images = node.reshaped(owners, regions.details.plain_dims[:1])
    return align_regions(node, x, boxes, images, grid)


HANDLERS: dict[str, Read] = {
    "torchvision::roi_align": _read_roi_align,
    "grid_sampler_2d": _read_grid_sampler,
    "grid_sampler_3d": _read_grid_sampler,
    "col2im": lambda node: READS["fold"](node, "fold"),
}

PAIRS = {"general_convolution": Pair(_read_convolution)}
