"""Writes resampling."""

from __future__ import annotations

import math
from typing import Any, cast

from ...graph_ir.ir.graph import Op
from ...graph_ir.ops.resize import Resize
from ..correspondence.values import same
from ..correspondence.writing import InexpressibleError
from ..torch_calls.resize import resize_attributes
from .export import Exporter


def _write_resize(e: Exporter, op: Op, type_name: str) -> Any:
    x, y = op.inputs[0].details.plain_dims, op.outputs[0].details.plain_dims
    params = _mode_params(op, len(x) - 2)
    if (
        params is None
        or not (op.attr("by_step") or cast(Resize, op).is_same_by_step)
        or x[:2] != y[:2]
        or op.attr("extrapolation")
    ):
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
        wanted = resize_attributes(mode, is_aligned, is_filtered) | {"by_step": op.attr("by_step")}
        if all(same(op.attr(key), value) for key, value in wanted.items()):
            params: dict[str, Any] = {"mode": mode}
            if mode in smooth:
                params["align_corners"] = is_aligned
            return params | ({"antialias": True} if is_filtered else {})
    return None


WRITES = {"resize": _write_resize}
