"""Resampling: nn.Upsample, F.interpolate and its older names, grid_sample and affine_grid."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..adaptive_pool import adaptive_pool
from ..grid_sample import Sampling, grid_sample
from ..op_builder import OpBuilder
from .scope import Handler, Node, Value
from .windows import per_axis

_MODES: dict[str, dict[str, Any]] = {
    # PyTorch's nearest is the element before, its nearest-exact the nearest one.
    "nearest": {"mode": "nearest", "coordinates": "asymmetric", "nearest_mode": "floor"},
    "nearest-exact": {"mode": "nearest", "nearest_mode": "round_prefer_ceil"},
    **dict.fromkeys(("linear", "bilinear", "trilinear"), {"mode": "linear"}),
    "bicubic": {"mode": "cubic", "cubic_coeff": -0.75},
}
_ANTIALIASED_CUBIC = -0.5  # Pillow's coefficient, which PyTorch uses for antialiasing


def _resample(mode: str | None, align_corners: bool = False) -> Handler:
    """`mode` and `align_corners` are those of the operator's name, None where parameters say so."""

    def run(node: Node) -> Value:
        x = node.tensor_of()
        spatial = x.details.rank - 2
        if spatial < 1:
            raise node.rule("the input must have spatial axes", str(x.details))
        name = node.attr_text("mode", "nearest") if mode is None else mode
        aligned = (
            node.attr_bool("align_corners", False) if node.given("align_corners") else align_corners
        )
        sizes, scales = _sizes(node, x.details.plain_dims[2:])
        if name == "area":
            return adaptive_pool(node, x, sizes, is_mean=True)
        if name not in _MODES:
            raise node.rule(f"mode must be area, {', '.join(_MODES)}", name)
        attrs = {**_MODES[name], "shape": (*x.details.plain_dims[:2], *sizes)}
        if aligned:
            attrs["coordinates"] = "align_corners"
        elif scales is not None:
            attrs["scales"] = (1.0, 1.0, *scales)
        if node.attr_bool("antialias", False):
            attrs.update(antialias=True, exclude_outside=True)
            if name == "bicubic":
                attrs["cubic_coeff"] = _ANTIALIASED_CUBIC
        return node.make("resize", x, **attrs)

    return Handler(run, ("input", "size", "scale_factor"))


def _sizes(node: Node, dims: Sequence[int]) -> tuple[tuple[int, ...], tuple[float, ...] | None]:
    """Sizes of the result, and the scale of the coordinates where it is not the ratio of the sizes."""
    if node.given("size") == node.given("scale_factor"):
        raise node.rule(
            "size or scale_factor must be given", "both" if node.given("size") else "neither"
        )
    recomputed = node.attr_bool("recompute_scale_factor", False)
    if node.given("size"):
        return per_axis(node, "size", len(dims), None), None
    given = node.argument("scale_factor")
    factors = given if isinstance(given, list) else [given]
    factors = factors * len(dims) if len(factors) == 1 else factors
    numbers = [f for f in factors if isinstance(f, (int, float)) and 0 < f < math.inf]
    if len(numbers) != len(factors) or len(factors) != len(dims):
        wanted = f"scale_factor must be {len(dims)} positive numbers"
        raise node.rule(wanted, str(factors)[:64])
    # PNNX stores f32; 1.7 was meant, not the f32 next to it, which would shift integer positions.
    exact = tuple(float(str(np.float32(f))) for f in numbers)
    sizes = tuple(math.floor(size * f) for size, f in zip(dims, exact, strict=True))
    return sizes, None if recomputed else exact


# Sampling at positions that the model computes.


def _affine_grid(node: Node) -> Value:
    """theta [N, 2, 3] or [N, 3, 4] as the mapped positions [N, sizes..., 2 or 3] of a regular grid."""
    theta = node.tensor_of()
    _, _, *sizes = node.attr_ints("size")
    rank, dtype = len(sizes), theta.details.dtype
    if rank not in (2, 3) or theta.details.plain_dims[1:] != (rank, rank + 1):
        raise node.rule(f"theta must have shape [N,{rank},{rank + 1}]", str(theta.details))
    aligned = node.attr_bool("align_corners", False)
    lines = [_regular(size, aligned) for size in sizes]
    axes = np.meshgrid(*lines, indexing="ij")
    points = np.stack([*reversed(axes), np.ones_like(axes[0])], -1).reshape(-1, rank + 1)
    places = node.make("matmul_core", node.constant(points, dtype), theta, transpose_b=True)
    return node.reshaped(places, (theta.details.plain_dims[0], *sizes, rank))


def _regular(size: int, aligned: bool) -> Any:
    """`size` positions from -1 to 1: the borders of the image, or the centres of its pixels."""
    if aligned:
        return np.linspace(-1, 1, size) if size > 1 else np.zeros(size)
    return (2 * np.arange(size) + 1) / max(size, 1) - 1


def _grid_sample(node: Node) -> Value:
    """x [N, C, sizes...] at positions [N, out..., rank] in [-1, 1], the last axis first."""
    x, grid = node.tensor_of(), node.tensor_of("grid")
    rank = x.details.rank - 2
    mode = node.attr_text("mode", "bilinear")
    if rank not in (2, 3) or grid.details.plain_dims[-1:] != (rank,):
        raise node.rule("the last axis of grid must be that of an image", str(grid.details))
    if mode not in ("bilinear", "nearest"):
        raise node.unsupported(f"mode={mode}")
    padding = node.attr_text("padding_mode", "zeros")
    if padding not in ("zeros", "border", "reflection"):
        raise node.rule("padding_mode must be zeros, border or reflection", padding)
    aligned = node.attr_bool("align_corners", False)
    how = Sampling("linear" if mode == "bilinear" else mode, padding, aligned)
    return grid_sample(OpBuilder(node.graph, node.type, node.name), x, grid, how)


HANDLERS: dict[str, Handler] = {
    **dict.fromkeys(("nn.Upsample", "F.interpolate", "F.upsample"), _resample(None)),
    **dict.fromkeys(("nn.UpsamplingNearest2d", "F.upsample_nearest"), _resample("nearest")),
    **dict.fromkeys(
        ("nn.UpsamplingBilinear2d", "F.upsample_bilinear"), _resample("bilinear", True)
    ),
    "F.affine_grid": Handler(_affine_grid, ("input", "size")),
    "F.grid_sample": Handler(_grid_sample, ("input", "grid")),
}
"""Operators of this family."""
