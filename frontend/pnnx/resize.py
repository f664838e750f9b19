"""Reads and writes resampling: nn.Upsample, F.interpolate and its older names."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...graph_ir.ir.graph import Op
from ..adaptive_pool import adaptive_pool
from ..correspondence.reading import Pair
from ..correspondence.values import same
from ..correspondence.writing import InexpressibleError
from .export import Exporter
from .scope import Node, Value
from .windows import per_axis

_LINEAR = ("linear", "bilinear", "trilinear")
_MODES: dict[str, dict[str, Any]] = {
    # PyTorch's nearest is the element before, its nearest-exact the nearest one.
    "nearest": {"mode": "nearest", "coordinates": "asymmetric", "nearest_mode": "floor"},
    "nearest-exact": {
        "mode": "nearest",
        "coordinates": "half_pixel",
        "nearest_mode": "round_prefer_ceil",
    },
    **dict.fromkeys(_LINEAR, {"mode": "linear", "coordinates": "half_pixel"}),
    "bicubic": {"mode": "cubic", "coordinates": "half_pixel", "cubic_coeff": -0.75},
}
_ANTIALIASED_CUBIC = -0.5  # Pillow's coefficient, which PyTorch uses for antialiasing


def _attributes(name: str, is_aligned: bool, is_filtered: bool) -> dict[str, Any]:
    """The attributes of the op for a mode, align_corners and antialias."""
    attrs = {**_MODES[name], "antialias": is_filtered, "exclude_outside": is_filtered}
    if is_aligned:
        attrs["coordinates"] = "align_corners"
    if is_filtered and name == "bicubic":
        attrs["cubic_coeff"] = _ANTIALIASED_CUBIC
    return attrs


def _read_resize(node: Node, op_name: str) -> Value:
    """Older names say the mode; upsample_bilinear aligns corners."""
    x = node.tensor_of()
    dims = x.details.plain_dims
    if len(dims) < 3:
        raise node.rule("the input must have spatial axes", str(x.details))
    named = next((mode for mode in ("nearest", "bilinear") if mode in node.type.lower()), None)
    mode = named or node.attr_text("mode", "nearest")
    is_aligned = node.attr_bool("align_corners", named == "bilinear")
    sizes, scales = _sizes(node, dims[2:])
    if mode == "area":
        return adaptive_pool(node, x, sizes, is_mean=True)
    if mode not in _MODES:
        raise node.rule(f"mode must be area, {', '.join(_MODES)}", mode)
    attrs = _attributes(mode, is_aligned, node.attr_bool("antialias", False))
    if scales is not None and not is_aligned:
        attrs["scales"] = (1.0, 1.0, *scales)
    return node.make(op_name, x, **attrs, shape=(*dims[:2], *sizes))


def _sizes(node: Node, dims: Sequence[int]) -> tuple[tuple[int, ...], tuple[float, ...] | None]:
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
    sizes = tuple(math.floor(size * f) for size, f in zip(dims, exact, strict=True))
    return sizes, None if is_recomputed else exact


def _write_resize(e: Exporter, op: Op, type_name: str) -> Any:
    x, y = op.inputs[0].details.plain_dims, op.outputs[0].details.plain_dims
    params = _mode_params(op, len(x) - 2)
    if params is None or x[:2] != y[:2] or op.attr("extrapolation"):
        how = f"{op.attr('mode')}, {op.attr('coordinates')}"
        raise InexpressibleError(f"resize of {op.inputs[0].details} to {list(y)}, {how}")
    scales = op.attr("scales")
    if scales is None or params.get("align_corners"):
        return e.call(op, type_name, size=y[2:], **params)
    floor = [math.floor(n * s) for n, s in zip(x, scales, strict=True)]
    if tuple(floor) != y or tuple(scales[:2]) != (1, 1):
        raise InexpressibleError(f"resize by {list(scales)} to {list(y)}")
    return e.call(op, type_name, scale_factor=[float(s) for s in scales[2:]], **params)


def _mode_params(op: Op, spatial: int) -> dict[str, Any] | None:
    """The parameters of the mode that gives the op's attributes; None if there is none."""
    smooth = {1: ("linear",), 2: ("bilinear", "bicubic"), 3: ("trilinear",)}.get(spatial, ())
    cases = [(mode, False, False) for mode in ("nearest", "nearest-exact")]
    cases += [(mode, aligned, False) for mode in smooth for aligned in (False, True)]
    if spatial == 2:
        cases += [(mode, aligned, True) for mode in smooth for aligned in (False, True)]
    for mode, is_aligned, is_filtered in cases:
        wanted = _attributes(mode, is_aligned, is_filtered)
        if all(same(op.attr(key), value) for key, value in wanted.items()):
            params: dict[str, Any] = {"mode": mode}
            if mode in smooth:
                params["align_corners"] = is_aligned
            return params | ({"antialias": True} if is_filtered else {})
    return None


PAIRS = {"resize": Pair(_read_resize, _write_resize)}
"""Functions that rows name after `by`."""
