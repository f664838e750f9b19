"""Resize and Upsample."""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np

from ...base.dims import is_known
from ...base.dtypes import F32, F64, S64
from ...graph_ir.ir.graph import GraphTensor, Op
from ...graph_ir.ops.resize import Resize
from ..correspondence.compositions.windows import scaled_sizes
from ..correspondence.reading import Pair
from ..correspondence.writing import InexpressibleError
from ..op_builder import Value
from .export import ELEMENT_TYPES, Exporter
from .scope import Handler, NodeContext


def _read_resize(node: NodeContext, _: str) -> Value:
    if node.opset < 11:
        return _old_resize(node, _floats(node, 1, "scales"), node.attr_text("mode"))
    axes = _axes(node, node.details(0).rank)
    attrs = node.row_attributes() | _sizes(node, axes)
    is_cropped = attrs["coordinates"] == "tf_crop_and_resize"
    return _made(node, attrs, *([_region(node, axes)] if is_cropped else []))


def _made(node: NodeContext, attrs: dict[str, Any], *region: GraphTensor) -> Value:
    """The op; integers are interpolated as f32."""
    x = node.tensor(0)
    dtype = x.details.dtype
    wide = x if attrs["mode"] == "nearest" or dtype.is_float else node.converted(x, F32)
    return node.converted(node.make("resize", wide, *region, **attrs), dtype)


def _axes(node: NodeContext, rank: int) -> tuple[int, ...]:
    given = node.attr_ints("axes", None)
    axes = tuple(range(rank)) if given is None else tuple(node.axis(a, rank) for a in given)
    if len(set(axes)) != len(axes):
        raise node.rule("axes must be distinct", str(list(given or ())))
    return axes


def _floats(node: NodeContext, index: int, what: str) -> tuple[float, ...]:
    return tuple(float(v) for v in node.array(index, what).reshape(-1))


def _is_given(node: NodeContext, index: int) -> bool:
    """Return whether an input is given; opset 11 passes an empty tensor for a missing one."""
    return node.has(index) and node.details(index).elements > 0


def _sizes(node: NodeContext, axes: tuple[int, ...]) -> dict[str, Any]:
    """`shape`, and `scales` where they are not the ratio of the sizes."""
    dims = node.details(0).plain_dims
    if _is_given(node, 2) == _is_given(node, 3):
        raise node.rule("scales or sizes must be given", "both" if _is_given(node, 2) else "none")
    if _is_given(node, 2):
        scales = _floats(node, 2, "scales")
        _check_count(node, "scales", len(scales), len(axes))
        return _scaled(node, _on_axes(scales, axes, (1.0,) * len(dims)))
    policy = node.attr_text("keep_aspect_ratio_policy")
    sizes = node.ints(3, "sizes", sizes=policy == "stretch")
    _check_count(node, "sizes", len(sizes), len(axes))
    if policy == "stretch":
        return {"shape": _on_axes(sizes, axes, dims)}
    if policy not in ("not_larger", "not_smaller"):
        raise node.rule(
            "keep_aspect_ratio_policy must be stretch, not_larger or not_smaller", f"'{policy}'"
        )
    ratios = [n / dims[axis] for n, axis in zip(sizes, axes, strict=True) if dims[axis]]
    if not ratios:
        raise node.rule("the input must have elements", str(node.details(0)))
    ratio = min(ratios) if policy == "not_larger" else max(ratios)
    shape = [math.floor(ratio * dims[axis] + 0.5) for axis in axes]
    return {
        "shape": tuple(int(n) for n in _on_axes(shape, axes, dims)),
        "scales": _on_axes((ratio,) * len(axes), axes, (1.0,) * len(dims)),
    }


def _scaled(node: NodeContext, scales: tuple[float, ...]) -> dict[str, Any]:
    """Sizes from scales: as ONNX Runtime rounds them, unless the file declares those of exact arithmetic."""
    dims = node.details(0).plain_dims
    if any(not 0 < scale < math.inf for scale in scales):
        raise node.rule("scales must be positive", str(list(scales)))
    shape, declared = scaled_sizes(dims, scales), node.scope.declared.get(node.node.output[0])
    if declared and is_known(*dims):
        exact = tuple(math.floor(n * scale) for n, scale in zip(dims, scales, strict=True))
        shape = exact if exact == declared else shape
    return {"shape": shape, "scales": scales}


def _on_axes(
    values: tuple[Any, ...] | list[Any], axes: tuple[int, ...], others: tuple[Any, ...]
) -> tuple[Any, ...]:
    result = list(others)
    for axis, value in zip(axes, values, strict=True):
        result[axis] = value
    return tuple(result)


def _check_count(node: NodeContext, what: str, count: int, wanted: int) -> None:
    if count != wanted:
        raise node.rule(f"{what} must have {wanted} entries", str(count))


def _region(node: NodeContext, axes: tuple[int, ...]) -> GraphTensor:
    """The starts of all axes, then their ends: f64[2 * rank]."""
    rank, known = node.details(0).rank, node.known(1)
    _check_count(node, "roi", node.details(1).elements if node.has(1) else 0, 2 * len(axes))
    region = np.repeat((0.0, 1.0), rank)
    at = [axis + end * rank for end in (0, 1) for axis in axes]
    if known is not None:
        region[at] = known.reshape(-1)
        return node.constant(region, F64)
    ends = (node.constant(region, F64), node.constant(at, S64), node.converted(node.tensor(1), F64))
    return node.helper("scatter_elements", *ends, axis=0)


def _upsample(node: NodeContext) -> Value:
    scales = _floats(node, 1, "scales") if node.opset >= 9 else node.attr_floats("scales")
    return _old_resize(node, scales, node.attr_text("mode"))


def _old_resize(node: NodeContext, scales: tuple[float, ...], mode: str) -> Value:
    """Before opset 11: element i is at i / scale; nearest is the previous element, or the next one if x shrinks."""
    _check_count(node, "scales", len(scales), node.details(0).rank)
    mode = "linear" if mode == "bilinear" else mode
    shrinks, grows = any(s < 1 for s in scales), any(s > 1 for s in scales)
    if mode == "nearest" and shrinks and grows:
        raise node.unsupported("nearest that shrinks some axes and stretches others")
    attrs = {
        "mode": mode,
        "coordinates": "asymmetric",
        "nearest_mode": "ceil" if shrinks else "floor",
        **_scaled(node, scales),
    }
    return _made(node, attrs)


def _write_resize(e: Exporter, op: Op, op_type: str) -> None:
    dims = op.inputs[0].details.plain_dims
    shape, scales = op.attr("shape"), op.attr("scales")
    if op.attr("by_step") and not cast(Resize, op).is_same_by_step:
        raise InexpressibleError("resize by multiplying with the step")
    inputs = [*e.values(op)[:1], "", "", ""]
    if len(op.inputs) > 1:
        inputs[1] = e.part(op, "Cast", e.values(op)[1:], F32, to=ELEMENT_TYPES[F32])
    if scales is None:
        inputs[3] = e.constant(op, "sizes", np.array(shape, np.int64))
    else:
        inputs[2] = e.constant(op, "scales", np.array(scales, np.float32))
        inputs.pop()
        if scaled_sizes(dims, scales) != tuple(shape):
            raise InexpressibleError("resize to other sizes than its scales give")
    ignored = cast(Resize, op).ignored_attributes  # ONNX Runtime refuses them
    kept = {name: value for name, value in e.row_attributes(op).items() if name not in ignored}
    e.node(op, op_type, inputs, **kept)


PAIRS = {"resize": Pair(_read_resize, _write_resize)}

HANDLERS: dict[str, Handler] = {"Upsample": _upsample}
