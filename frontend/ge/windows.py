"""Convolutions, pools and resampling. Images are transposed to channels first; layout passes remove the transposes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...base.dtypes import F64
from ...graph_ir.ir.graph import GraphTensor
from ..adaptive_pool import adaptive_pool
from ..axis_layout import Image, known_layout, relaid
from ..correspondence.compositions.windows import (
    biased,
    global_pool,
    mean_by,
    same_padding,
    scaled_sizes,
    transposed_padding,
    windowed,
)
from ..correspondence.reading import Pair
from ..op_builder import Value
from .contraction import sums_of_bytes
from .export_windows import write_resize
from .scope import Handler, NodeContext

_SPATIAL = {4: "HW", 5: "DHW"}


class _Image(Image):
    """Input `x` of a node as [N, C, sizes...], and the attributes that have an entry per axis of its data format."""

    def __init__(self, node: NodeContext, rank: int = 4) -> None:
        spatial = _SPATIAL[rank]
        self.node, self.format = node, node.attr_text("data_format")
        if self.format not in (f"NC{spatial}", f"N{spatial}C"):
            raise node.unsupported(f"data_format '{self.format}'")
        super().__init__(node, node.tensor("x"), known_layout(self.format), spatial)

    def entries(self, key: str) -> tuple[int, ...]:
        """The spatial entries of a list; the others must be 1. Lists of spatial entries alone are taken too."""
        values = self.node.attr_ints(key)
        if len(values) == len(self.spatial):
            return values
        if len(values) != len(self.format):
            raise self.node.rule(f"{key} must have {len(self.format)} entries", str(list(values)))
        if any(v not in (0, 1) for v, c in zip(values, self.format, strict=True) if c in "NC"):
            raise self.node.unsupported(f"{key} {list(values)} over batch or channels")
        return tuple(values[self.format.index(letter)] for letter in self.spatial)

    def filter(self) -> GraphTensor:
        """The weights, whose layout follows the data format, as [N, C, kernel...]."""
        own = self.plain if self.format[1] == "C" else known_layout(f"{self.spatial}CN")
        w = self.node.tensor_as("filter", self.x.details.dtype)
        return relaid(self.node, w, own, self.plain)


def _pads(node: NodeContext, key: str, count: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Before and after of each spatial axis; the text lists them as top, bottom, left, right."""
    pads = node.attr_ints(key) or (0,) * (2 * count)
    if len(pads) != 2 * count:
        raise node.rule(f"{key} must have {2 * count} entries", str(list(pads)))
    return pads[::2], pads[1::2]


def _same(
    node: NodeContext, sizes: Sequence[int], kernel: Sequence[int], attrs: dict[str, Any]
) -> dict[str, Any]:
    """SAME padding: `before` and `after` for one output per `strides` elements; the odd element goes after."""
    strides, dilations = attrs["strides"], attrs.get("dilations", (1,) * len(kernel))
    if min((*strides, *dilations)) < 1:
        raise node.rule("strides and dilations must be 1 or more", f"{strides} and {dilations}")
    before, after = same_padding(sizes, kernel, strides, dilations)
    return {"before": before, "after": after}


def _convolution(node: NodeContext) -> Value:
    image = _Image(node, 5 if node.type == "Conv3D" else 4)
    w = image.filter()
    groups = 1
    if node.type == "DepthwiseConv2D":
        w, groups = _by_channel(node, image, w), image.x.details.plain_dims[1]
    elif "groups" in node.signature.defaults:
        groups = node.attr_int("groups")
    kernel = w.details.plain_dims[2:]
    attrs: dict[str, Any] = {key: image.entries(key) for key in ("strides", "dilations")}
    before, after = _pads(node, "pads", len(kernel))
    if set(before + after) == {-1}:
        attrs |= _same(node, image.sizes, kernel, attrs)
    else:
        attrs |= {"before": before, "after": after}
    _check_unquantized(node)
    attrs |= sums_of_bytes(image.x, w)
    return _biased(node, image, windowed(node, "convolution", image.x, w, **attrs, groups=groups))


def _by_channel(node: NodeContext, image: _Image, w: GraphTensor) -> GraphTensor:
    """Weights [multiplier, C, kernel...], or [C * multiplier, 1, kernel...], as the latter."""
    channels, dims = image.x.details.plain_dims[1], w.details.plain_dims
    if dims[1] == channels:
        moved = node.transposed(w, (1, 0, *range(2, len(dims))))
        return node.reshaped(moved, (channels * dims[0], 1, *dims[2:]))
    if dims[1] != 1 or dims[0] % channels:
        raise node.rule(f"the filter must be for {channels} channels", str(w.details))
    return w


def _check_unquantized(node: NodeContext) -> None:
    if node.has("offset_w") or node.attr_int("offset_x"):
        raise node.unsupported("offset_w or offset_x other than 0")


def _biased(node: NodeContext, image: _Image, y: GraphTensor) -> Value:
    bias = node.tensor_as("bias", y.details.dtype) if node.has("bias") else None
    return image.back(biased(node, y, bias))


def _convolution_transpose(node: NodeContext) -> Value:
    image = _Image(node)
    w = image.filter()
    kernel = w.details.plain_dims[2:]
    attrs: dict[str, Any] = {key: image.entries(key) for key in ("strides", "dilations")}
    extra = image.entries("output_padding") if node.attr_ints("output_padding") else (0, 0)
    before, after = _pads(node, "pads", len(kernel))
    wanted = _wanted_sizes(node, image)
    if set(before + after) == {-1}:
        if wanted is None:
            raise node.rule("pads of -1 need an input_size", "none")
        room = {"strides": attrs["strides"], "dilations": attrs["dilations"]}
        pads = _same(node, wanted, kernel, room)
        before, after = pads["before"], pads["after"]
    if wanted is not None:
        steps, gaps = attrs["strides"], attrs["dilations"]
        totals = transposed_padding(image.sizes, kernel, steps, gaps, wanted)
        extra = tuple(b + a - t for b, a, t in zip(before, after, totals, strict=True))
    attrs |= {"before": before, "after": after, "output_padding": extra}
    _check_unquantized(node)
    groups = node.attr_int("groups")
    return _biased(
        node, image, node.make("convolution_transpose", image.x, w, **attrs, groups=groups)
    )


def _wanted_sizes(node: NodeContext, image: _Image) -> tuple[int, ...] | None:
    """Spatial sizes of the result; None where they are left to the attributes (zeros, as ONNX models have them)."""
    given = node.ints("input_size")
    if not any(given):
        return None
    if len(given) != len(image.format):
        raise node.rule(f"input_size must have {len(image.format)} entries", str(list(given)))
    return tuple(given[image.format.index(letter)] for letter in image.spatial)


def _pool(node: NodeContext) -> Value:
    """MaxPool, AvgPool, MaxPoolV3 and AvgPoolV2: an average never counts padding where `exclusive` is not false."""
    image = _Image(node)
    is_mean = node.type.startswith("Avg")
    given = node.signature.defaults
    if "global_pooling" in given and node.attr_bool("global_pooling"):
        return image.back(_whole(node, image, is_mean))
    attrs: dict[str, Any] = {"kernel": image.entries("ksize"), "strides": image.entries("strides")}
    mode = node.attr_text("padding_mode" if "padding_mode" in given else "padding")
    if mode == "SAME":
        attrs |= _same(node, image.sizes, attrs["kernel"], attrs)
    elif mode == "CALCULATED" and "pads" in given:
        attrs["before"], attrs["after"] = _pads(node, "pads", 2)
    elif mode != "VALID":
        raise node.rule("the padding must be SAME, VALID or, with pads, CALCULATED", f"'{mode}'")
    attrs["ceil_mode"] = "ceil_mode" in given and node.attr_bool("ceil_mode")
    if not is_mean:
        return image.back(windowed(node, "max_pool", image.x, **attrs))
    divisor = node.attr_int("divisor_override") if "divisor_override" in given else 0
    if divisor:
        return image.back(mean_by(node, image.x, divisor, **attrs))
    counted = "exclusive" in given and not node.attr_bool("exclusive")
    return image.back(windowed(node, "avg_pool", image.x, **attrs, count_include_pad=counted))


def _whole(node: NodeContext, image: _Image, is_mean: bool) -> GraphTensor:
    return global_pool(node, image.x, "reduce_mean" if is_mean else "reduce_max")


def _pooling(node: NodeContext) -> Value:
    """Caffe's pool: rounded up unless `ceil_mode` is 1, and an average counts padding."""
    image, mode = _Image(node), node.attr_int("mode")
    if mode not in (0, 1):
        raise node.rule("mode must be 0 (maximum) or 1 (average)", str(mode))
    if node.attr_bool("global_pooling"):
        return image.back(_whole(node, image, mode == 1))
    if set(node.attr_ints("dilation")) != {1}:
        raise node.unsupported("dilation other than 1")
    before, after = _pads(node, "pad", 2)
    attrs: dict[str, Any] = {
        "kernel": image.entries("window"),
        "strides": image.entries("stride"),
        "before": before,
        "after": after,
        "ceil_mode": node.attr_int("ceil_mode") == 0,
    }
    if mode == 1:
        attrs["count_include_pad"] = True
    return image.back(node.make("avg_pool" if mode else "max_pool", image.x, **attrs))


def _adaptive(node: NodeContext) -> Value:
    x = node.tensor("x")
    if x.details.rank != 4:
        raise node.rule("the input must be [N, C, H, W]", str(x.details))
    given = node.attr_ints("output_size")
    given = given * 2 if len(given) == 1 else given
    sizes = x.details.plain_dims[2:]
    if len(given) != 2:
        raise node.rule("output_size must have 2 entries", str(list(given)))
    wanted = [size if out in (-1, 0) else out for size, out in zip(sizes, given, strict=True)]
    return adaptive_pool(node, x, wanted, node.type == "AdaptiveAvgPool2d")


def _resize_by_size(node: NodeContext) -> Value:
    """TensorFlow's resize of H and W, whose positions follow from the data formats in the dump."""
    x = node.tensor("x")
    size = node.ints("size")
    if x.details.rank != 4 or len(size) != 2:
        raise node.rule("x must have 4 axes and size 2 entries", f"{x.details} and {list(size)}")
    stated = {n.attrs.get("data_format") for g in node.scope.session.dump.graphs for n in g.nodes}
    batch, *rest = x.details.plain_dims
    first = {"NCHW"} == stated - {None}  # TensorFlow's own layout has channels last
    shape = (batch, rest[0], *size) if first else (batch, *size, rest[2])
    aligned, half = node.attr_bool("align_corners"), node.attr_bool("half_pixel_centers")
    if node.type == "ResizeBilinearV2":
        coordinates = "align_corners" if aligned else "half_pixel" if half else "asymmetric"
        return node.make("resize", x, shape=shape, mode="linear", coordinates=coordinates)
    # TensorFlow's nearest: rounded half up when aligned; else floor, of i + 0.5 without an offset if half.
    coordinates = "align_corners" if aligned else "tf_half_pixel_for_nn" if half else "asymmetric"
    nearest = "round_prefer_ceil" if aligned else "floor"
    return node.make("resize", x, shape=shape, coordinates=coordinates, nearest_mode=nearest)


def _resize(node: NodeContext, op_name: str) -> Value:
    """ONNX's Resize: sizes, else scales, of all axes."""
    x = node.tensor("x")
    dims = x.details.plain_dims
    attrs = node.row_attributes()
    if node.has("sizes") and node.details("sizes").elements:
        attrs["shape"] = node.ints("sizes")
    else:
        scales = tuple(float(v) for v in node.array("scales").reshape(-1))
        if len(scales) != len(dims) or not all(0 < scale < 1e6 for scale in scales):
            raise node.rule(f"scales must be {len(dims)} positive numbers", str(list(scales)))
        attrs["scales"] = scales
        attrs["shape"] = scaled_sizes(dims, scales)
    is_cropped = attrs["coordinates"] == "tf_crop_and_resize"
    region = [node.converted(node.tensor("roi"), F64)] if is_cropped else []
    return node.make(op_name, x, *region, **attrs)


PAIRS = {"resize": Pair(_resize, write_resize)}

HANDLERS: dict[str, Handler] = {
    "Conv2D": _convolution, "Conv3D": _convolution, "DepthwiseConv2D": _convolution,
    "Conv2DTranspose": _convolution_transpose, "Conv2DTransposeD": _convolution_transpose,
    "MaxPool": _pool, "AvgPool": _pool, "MaxPoolV3": _pool, "AvgPoolV2": _pool, "Pooling": _pooling,
    "AdaptiveAvgPool2d": _adaptive, "AdaptiveMaxPool2d": _adaptive,
    "ResizeBilinearV2": _resize_by_size, "ResizeNearestNeighborV2": _resize_by_size,
}  # fmt: skip
