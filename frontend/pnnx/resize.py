"""Resampling: nn.Upsample, F.interpolate and its older names, grid_sample and affine_grid."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...dtypes import F32, S64
from ...graph_ir.graph import GraphTensor
from ..adaptive_pool import adaptive_pool
from .scope import Handler, Node, Value
from .windows import per_axis

_MODES: dict[str, dict[str, Any]] = {
    # PyTorch's nearest is the element before, its nearest-exact the nearest one.
    "nearest": {"mode": "nearest", "coordinates": "asymmetric", "nearest_mode": "floor"},
    "nearest-exact": {"mode": "nearest", "nearest_mode": "round_prefer_ceil"},
    **dict.fromkeys(("linear", "bilinear", "trilinear"), {"mode": "linear"}),
    "bicubic": {"mode": "cubic", "cubic_coeff": -0.75},
}
_ANTIALIASED_CUBIC = -0.5  # Pillow's coefficient, which PyTorch takes then


def _resample(mode: str | None, align_corners: bool = False) -> Handler:
    """`mode` and `align_corners` are those of the operator's name, None where parameters say so."""

    def run(node: Node) -> Value:
        x = node.tensor_of()
        spatial = x.details.rank - 2
        if spatial < 1:
            raise node.rule("the input must have spatial axes", str(x.details))
        name = node.word("mode", "nearest") if mode is None else mode
        aligned = (
            node.flag("align_corners", False) if node.given("align_corners") else align_corners
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
        if node.flag("antialias", False):
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
    recomputed = node.flag("recompute_scale_factor", False)
    if node.given("size"):
        return per_axis(node, "size", len(dims), None), None
    given = node.argument("scale_factor")
    factors = given if isinstance(given, list) else [given]
    factors = factors * len(dims) if len(factors) == 1 else factors
    numbers = [f for f in factors if isinstance(f, (int, float)) and 0 < f < math.inf]
    if len(numbers) != len(factors) or len(factors) != len(dims):
        wanted = f"scale_factor must be {len(dims)} positive numbers"
        raise node.rule(wanted, str(factors)[:64])
    # The tool keeps f32; 1.7 was meant, not the f32 next to it, which moves places that are whole.
    exact = tuple(float(str(np.float32(f))) for f in numbers)
    sizes = tuple(math.floor(size * f) for size, f in zip(dims, exact, strict=True))
    return sizes, None if recomputed else exact


# Sampling at places that the model computes.


def _affine_grid(node: Node) -> Value:
    """theta [N, 2, 3] or [N, 3, 4] as the places [N, sizes..., 2 or 3] of a regular grid, mapped."""
    theta = node.tensor_of()
    _, _, *sizes = node.integers("size")
    rank, dtype = len(sizes), theta.details.dtype
    if rank not in (2, 3) or theta.details.plain_dims[1:] != (rank, rank + 1):
        raise node.rule(f"theta must have shape [N,{rank},{rank + 1}]", str(theta.details))
    aligned = node.flag("align_corners", False)
    lines = [_regular(size, aligned) for size in sizes]
    axes = np.meshgrid(*lines, indexing="ij")
    points = np.stack([*reversed(axes), np.ones_like(axes[0])], -1).reshape(-1, rank + 1)
    places = node.make("matmul_core", node.constant(points, dtype), theta, transpose_b=True)
    return node.reshape(places, (theta.details.plain_dims[0], *sizes, rank))


def _regular(size: int, aligned: bool) -> Any:
    """`size` places from -1 to 1: the borders of the image, or the centres of its pixels."""
    if aligned:
        return np.linspace(-1, 1, size) if size > 1 else np.zeros(size)
    return (2 * np.arange(size) + 1) / max(size, 1) - 1


def _grid_sample(node: Node) -> Value:
    """x [N, C, sizes...] at places [N, out..., rank] in [-1, 1], the last axis first."""
    x, grid = node.tensor_of(), node.tensor_of("grid")
    rank = x.details.rank - 2
    mode = node.word("mode", "bilinear")
    if rank not in (2, 3) or grid.details.plain_dims[-1:] != (rank,):
        raise node.rule("the last axis of grid must be that of an image", str(grid.details))
    if mode not in ("bilinear", "nearest"):
        raise node.unsupported(f"mode={mode}")
    sampler = _Sampler(node, x, node.word("padding_mode", "zeros"))
    aligned = node.flag("align_corners", False)
    places = [
        sampler.place(grid, rank - 1 - axis, size, aligned)
        for axis, size in enumerate(sampler.sizes)
    ]
    if mode == "nearest":
        y = sampler.taken([node.helper("round", place) for place in places])
    else:
        y = sampler.interpolated(places)
    out = grid.details.plain_dims[1:-1]
    return node.reshape(y, (*x.details.plain_dims[:2], *out))


class _Sampler:
    """Elements of an image [N, C, sizes...] at computed places, each given as [N, 1, places] per axis."""

    def __init__(self, node: Node, x: GraphTensor, padding: str) -> None:
        if padding not in ("zeros", "border", "reflection"):
            raise node.rule("padding_mode must be zeros, border or reflection", padding)
        self.node = node
        self.padding = padding
        self.sizes = x.details.plain_dims[2:]
        self.dtype = x.details.dtype
        self.flat = node.reshape(x, (*x.details.plain_dims[:2], math.prod(self.sizes)))

    def number(self, value: float) -> GraphTensor:
        return self.node.constant(value, F32)

    def make(self, op_name: str, *inputs: GraphTensor, **attrs: Any) -> GraphTensor:
        return self.node.helper(op_name, *inputs, **attrs)

    def place(self, grid: GraphTensor, column: int, size: int, aligned: bool) -> GraphTensor:
        """Column of the grid as an index, moved into the image unless outside is zero."""
        dims = grid.details.plain_dims
        part = self.node.part().part_of(grid, len(dims) - 1, column, 1)
        part = self.node.reshape(part, (dims[0], 1, math.prod(dims[1:-1])))
        part = self.node.cast(part, F32)
        half = (size - 1) / 2 if aligned else size / 2
        middle = (size - 1) / 2
        at = self.make("add", self.make("mul", part, self.number(half)), self.number(middle))
        if self.padding == "reflection":
            low, high = (0.0, size - 1.0) if aligned else (-0.5, size - 0.5)
            at = self._reflected(at, low, high)
        return at if self.padding == "zeros" else self.make("clamp", at, min=0.0, max=size - 1.0)

    def _reflected(self, at: GraphTensor, low: float, high: float) -> GraphTensor:
        """Mirrored at both ends as often as needed: the distance from `low`, folded up every `high - low`."""
        span = high - low
        if span <= 0:
            return self.make("mul", at, self.number(0))
        away = self.make("abs", self.make("sub", at, self.number(low)))
        turn = self.make("mod", away, self.number(2 * span), sign="floor")
        back = self.make("sub", self.number(2 * span), turn)
        return self.make("add", self.make("min", turn, back), self.number(low))

    def taken(self, places: Sequence[GraphTensor]) -> GraphTensor:
        """The elements at whole places, zero outside."""
        flat: GraphTensor | None = None
        inside: GraphTensor | None = None
        for place, size in zip(places, self.sizes, strict=True):
            within = self.make(
                "and",
                self.make("ge", place, self.number(0)),
                self.make("le", place, self.number(size - 1)),
            )
            inside = within if inside is None else self.make("and", inside, within)
            held = self.make("clamp", place, min=0.0, max=size - 1.0)
            index = self.node.cast(held, S64)
            if flat is not None:
                index = self.make(
                    "add", self.make("mul", flat, self.node.constant(size, S64)), index
                )
            flat = index
        assert flat is not None and inside is not None  # an image has axes
        batch, channels, _ = self.flat.details.plain_dims
        index = self.node.broadcast(flat, (batch, channels, flat.details.plain_dims[-1]))
        found = self.make("gather_elements", self.flat, index, axis=2)
        return self.make("select", inside, found, self.node.constant(0, self.dtype))

    def interpolated(self, places: Sequence[GraphTensor]) -> GraphTensor:
        """The corners around each place, weighted by how near they are."""
        below = [self.make("floor", place) for place in places]
        shares = [self.make("sub", place, low) for place, low in zip(places, below, strict=True)]
        total: GraphTensor | None = None
        for corner in np.ndindex(*(2,) * len(places)):
            weight: GraphTensor | None = None
            at = []
            for step, low, share in zip(corner, below, shares, strict=True):
                at.append(self.make("add", low, self.number(1)) if step else low)
                factor = share if step else self.make("sub", self.number(1), share)
                weight = factor if weight is None else self.make("mul", weight, factor)
            assert weight is not None  # an image has axes
            term = self.make("mul", self.taken(at), self.node.cast(weight, self.dtype))
            total = term if total is None else self.make("add", total, term)
        assert total is not None
        return total


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
