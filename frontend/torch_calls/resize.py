"""Resampling: nn.Upsample, F.interpolate and its older names."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...base.scaled_sizes import scaled
from ..adaptive_pool import adaptive_pool
from .call import Call, Value
from .windows import per_axis

_LINEAR = ("linear", "bilinear", "trilinear")
_NEAREST = {"mode": "nearest", "by_step": True}
_MODES: dict[str, dict[str, Any]] = {
    # PyTorch's nearest is the element before, its nearest-exact the nearest one.
    "nearest": {**_NEAREST, "coordinates": "asymmetric", "nearest_mode": "floor"},
    "nearest-exact": {**_NEAREST, "nearest_mode": "round_prefer_ceil", "coordinates": "half_pixel"},
    **dict.fromkeys(_LINEAR, {"mode": "linear", "coordinates": "half_pixel"}),
    "bicubic": {"mode": "cubic", "coordinates": "half_pixel", "cubic_coeff": -0.75},
}
_ANTIALIASED_CUBIC = -0.5  # Pillow's coefficient, which PyTorch uses for antialiasing


def resize_attributes(name: str, is_aligned: bool, is_filtered: bool) -> dict[str, Any]:
    """The attributes of the op for a mode, align_corners and antialias."""
    attrs = {**_MODES[name], "antialias": is_filtered, "exclude_outside": is_filtered}
    if is_aligned:
        attrs["coordinates"] = "align_corners"
    if is_filtered and name == "bicubic":
        attrs["cubic_coeff"] = _ANTIALIASED_CUBIC
    return attrs


def _read_resize(node: Call, op_name: str) -> Value:
    """Older names say the mode; upsample_bilinear aligns corners."""
    x = node.tensor_of()
    dims = x.details.plain_dims
    if len(dims) < 3:
        raise node.rule("the input must have spatial axes", str(x.details))
    named = next((mode for mode in ("nearest", "bilinear") if mode in node.type.lower()), None)
    mode = named or node.attr_text("mode", "nearest")
    is_aligned = node.attr_bool("align_corners", named == "bilinear")
    flags = (is_aligned, node.attr_bool("antialias", False))
    return resized(node, op_name, mode, flags, *_sizes(node, dims[2:]))


def resized(
    node: Call,
    op_name: str,
    mode: str,
    flags: tuple[bool, bool],
    sizes: tuple[int, ...],
    scales: Sequence[float] | None,
) -> Value:
    """Images in other sizes. `flags`: align_corners and antialias; `scales`, if not the ratios of the sizes, are those
    of the coordinates."""
    x = node.tensor_of()
    if mode == "area":
        return adaptive_pool(node, x, sizes, is_mean=True)
    if mode not in _MODES:
        raise node.rule(f"mode must be area, {', '.join(_MODES)}", mode)
    attrs = resize_attributes(mode, *flags)
    if scales is not None and not flags[0]:
        attrs["scales"] = (1.0, 1.0, *scales)
    return node.make(op_name, x, **attrs, shape=(*x.details.plain_dims[:2], *sizes))


def _sizes(node: Call, dims: Sequence[int]) -> tuple[tuple[int, ...], tuple[float, ...] | None]:
    """Sizes of the result, and the scale of the coordinates where it is not the ratio of the sizes."""
    if node.given("size") == node.given("scale_factor"):
        given = "both" if node.given("size") else "neither"
        raise node.rule("size or scale_factor must be given", given)
    is_recomputed = node.attr_bool("recompute_scale_factor", False)
    if node.given("size"):
        return per_axis(node, "size", len(dims)), None
    factors = node.read_attribute("scale_factor", "floats", None)
    factors = factors * len(dims) if len(factors) == 1 else factors
    if len(factors) != len(dims) or not all(0 < f < math.inf for f in factors):
        wanted = f"scale_factor must be {len(dims)} positive numbers"
        raise node.rule(wanted, str([*factors])[:64])
    # PNNX stores f32; 1.7 was meant, not the f32 next to it, which would shift integer positions.
    exact = tuple(float(str(np.float32(f))) for f in factors)
    sizes = tuple(map(scaled, dims, exact))
    return sizes, None if is_recomputed else exact


def _read_upsample(node: Call, name: str) -> Value:
    """`upsample_bilinear2d` and its like: the mode is in the name, scales are one per axis or a list."""
    kind = node.type.rpartition(".")[2]
    word, axes = re.findall(r"upsample_(?:nearest_)?([a-z]+)([123])d", kind)[0]
    mode = "nearest-exact" if word == "exact" else word
    dims = node.tensor_of().details.plain_dims[2:]
    names = ["scales"] if axes == "1" else [f"scales_{axis}" for axis in "dhw"[-int(axes) :]]
    found = [node.argument(one) for one in (*names, "scale_factors")]
    listed = next((one for one in found if isinstance(one, list)), found)
    given = [scale for scale in listed if isinstance(scale, float)]
    scales = given if len(given) == len(dims) else None
    sizes = node.attr_ints("output_size", None)
    if sizes is None:
        sizes = tuple(map(scaled, dims, given))
    flags = (node.attr_bool("align_corners", False), kind.endswith("_aa"))
    if all(flags):
        raise node.unsupported("align_corners=True with antialiasing")
    return resized(node, name, mode, flags, sizes, scales)


READS = {"resize": _read_resize, "upsample": _read_upsample}
