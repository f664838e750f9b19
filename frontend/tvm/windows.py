"""Convolutions, pools and resampling. What a kernel's name leaves open is read from the sizes where only one usual
reading fits."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ...graph_ir.ir.graph import GraphTensor
from ..adaptive_pool import adaptive_pool
from ..axis_layout import AxisLayout, parse_layout, relaid
from .scope import Operator, OperatorContext, UndeterminedError

_SPATIAL = ("W", "HW", "DHW")


def layout(op: OperatorContext, *keys: str, default: str) -> AxisLayout:
    """The layout of the first attribute that is given."""
    text = next((str(op.attr(key)) for key in keys if op.has(key)), default)
    found = parse_layout(text)
    if found is None:
        raise op.rule(f"attribute '{keys[0]}' must be a layout such as NCHW8c", f"'{text}'")
    return found


class _Image:
    """The first operand as [N, C, sizes...], and the way back to its layout."""

    def __init__(self, op: OperatorContext, axes: int) -> None:
        self.op, self.spatial = op, _SPATIAL[axes - 1]
        self.plain = _plain(f"NC{self.spatial}")
        dims = op.x.details.plain_dims
        default = f"NC{self.spatial}"
        if len(dims) == axes + 3:
            default += f"{dims[-1]}c"
        self.layout = layout(op, "data_layout", "layout", default=default)
        self.x = relaid(op, op.x, self.layout, self.plain)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Those of the spatial axes."""
        return self.x.details.plain_dims[2:]

    @property
    def results(self) -> tuple[int, ...] | None:
        """The spatial sizes of what the kernel gives; None where they are not known."""
        if self.op.final is None:
            return None
        dims = self.op.final.plain_dims
        out = self.out_layout(dims)
        if out is None or not out.fits(dims):
            return None
        sizes = out.plain_dims(dims)
        return tuple(sizes[letter] for letter in self.spatial)

    def out_layout(self, dims: Sequence[int] | None) -> AxisLayout | None:
        """The layout of the result: that of the input, with blocks as its own sizes have them."""
        if self.op.has("out_layout") and str(self.op.attr("out_layout")):
            return layout(self.op, "out_layout", default="")
        last, block = self.layout.axes[-1]
        if not block or dims is None or len(dims) != len(self.layout.axes):
            return self.layout
        return AxisLayout((*self.layout.axes[:-1], (last, dims[-1])))

    def back(self, y: GraphTensor) -> GraphTensor:
        """[N, C, sizes...] in the layout of the result."""
        final = self.op.final
        target = self.out_layout(None if final is None else final.plain_dims)
        return relaid(self.op, y, self.plain, target or self.layout)

    def per_axis(self, key: str, default: int | None = None) -> tuple[int, ...]:
        """An entry per spatial axis; one stands for all."""
        count = len(self.spatial)
        values = self.op.integers(key, None if default is None else [default] * count)
        values = values * count if len(values) == 1 else values
        if len(values) != count:
            raise self.op.rule(f"attribute '{key}' must have {count} entries", str(values))
        return tuple(values)

    def padding(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Before and after: one number, one per axis, or all befores and then all afters."""
        count = len(self.spatial)
        values = self.op.integers("padding", [0])
        values = values * count if len(values) == 1 else values
        values = values * 2 if len(values) == count else values
        if len(values) != 2 * count:
            raise self.op.rule(
                f"attribute 'padding' must have 1, {count} or {2 * count} entries", str(values)
            )
        return tuple(values[:count]), tuple(values[count:])


def _plain(text: str) -> AxisLayout:
    found = parse_layout(text)
    assert found is not None
    return found


def _steps_and_padding(
    image: _Image, kernel: Sequence[int], dilations: Sequence[int]
) -> dict[str, tuple[int, ...]]:
    """strides, before and after: the attributes, or per axis the only usual reading of the sizes.

    Usual is a stride that skips no element (but any for a window of one), with no padding, the same on both sides up
    to half of the window, or TensorFlow's SAME (the odd element behind). UndeterminedError where several fit, or none.
    """
    op = image.op
    given_steps = image.per_axis("strides", 1) if op.stored or op.has("strides") else None
    given_pads = image.padding() if op.stored or op.has("padding") else None
    if given_steps and given_pads:
        return {"strides": given_steps, "before": given_pads[0], "after": given_pads[1]}
    results = image.results
    if results is None:
        raise UndeterminedError("padding" if given_steps else "strides")
    found: list[tuple[int, int, int]] = []
    for i, (size, extent, out) in enumerate(
        zip(
            image.sizes,
            [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)],
            results,
            strict=True,
        )
    ):
        most = extent if extent > 1 else size
        steps = [given_steps[i]] if given_steps else list(range(1, most + 1))
        pads = [(given_pads[0][i], given_pads[1][i])] if given_pads else None
        readings = _readings(size, extent, out, steps, pads)
        if len({(step, before) for step, before, _ in readings}) != 1:
            several = len({step for step, _, _ in readings}) > 1
            raise UndeterminedError("padding" if given_steps or not several else "strides")
        found.append(readings[0])
    strides, before, after = (tuple(part) for part in zip(*found, strict=True))
    return {"strides": strides, "before": before, "after": after}


def _readings(
    size: int, extent: int, out: int, steps: Sequence[int], pads: Sequence[tuple[int, int]] | None
) -> list[tuple[int, int, int]]:
    """(stride, before, after) that give `out` places; where there is only one place, any stride means the same."""
    found = []
    for step in steps if out > 1 else steps[:1]:
        total = max((-(-size // step) - 1) * step + extent - size, 0)
        usual = [(p, p) for p in range((extent + 1) // 2)] + [(total // 2, total - total // 2)]
        for before, after in pads if pads is not None else usual:
            room = size + before + after - extent
            if room >= 0 and room // step + 1 == out:
                found.append((step, before, after))
    return found


def _convolution(axes: int) -> Operator:
    def build(op: OperatorContext) -> GraphTensor:
        image = _Image(op, axes)
        w = _weights(op, image)
        channels, kernel = image.x.details.plain_dims[1], w.details.plain_dims[2:]
        inner = w.details.plain_dims[1]
        if not inner or channels % inner:
            raise op.rule(f"the weights must be for {channels} channels", str(w.details))
        groups = op.integer("groups", 1) if op.stored or op.has("groups") else channels // inner
        if groups == channels and inner > 1 and w.details.plain_dims[0] == channels:
            w = op.reshaped(w, (channels * inner, 1, *kernel))  # TVM's [channels, multiplier]
        dilations = (
            image.per_axis("dilation", 1) if op.stored or op.has("dilation") else (1,) * axes
        )
        attrs: dict[str, Any] = _steps_and_padding(image, kernel, dilations)
        y = op.make("convolution", image.x, w, **attrs, dilations=dilations, groups=groups)
        return image.back(_biased(op, y))

    return build


def _weights(op: OperatorContext, image: _Image) -> GraphTensor:
    """The second operand as [O, I, kernel...]; blocked weights have their blocks of I before those of O."""
    w = op.operand(1)
    dims, spatial = w.details.plain_dims, image.spatial
    last = image.layout.letters[-1] == "C"
    depthwise = "depthwise" in op.type
    default = f"{spatial}{'OI' if depthwise else 'IO'}" if last else f"OI{spatial}"
    if len(dims) == len(spatial) + 4:
        default += f"{dims[-2]}i{dims[-1]}o"
    source = layout(op, "kernel_layout", default=default)
    return relaid(op, w, source, _plain(f"OI{spatial}"))


def _biased(op: OperatorContext, y: GraphTensor) -> GraphTensor:
    """Plus the third operand of an uncompiled convolution."""
    if not op.stored or len(op.operands) < 3:
        return y
    channels = y.details.plain_dims[1]
    bias = op.operand(2)
    if bias.details.elements != channels:
        raise op.rule(f"the bias must have {channels} elements", str(bias.details))
    return op.helper("add", y, op.reshaped(bias, (channels,) + (1,) * (y.details.rank - 2)))


def _convolution_transpose(axes: int) -> Operator:
    def build(op: OperatorContext) -> GraphTensor:
        image = _Image(op, axes)
        source = layout(op, "kernel_layout", default=f"OI{image.spatial}")
        # TVM names the axis that meets the input O in old files and I in new ones: it is the first in both.
        letters = "IO" if source.letters.index("I") < source.letters.index("O") else "OI"
        w = relaid(op, op.operand(1), source, _plain(f"{letters}{image.spatial}"))
        kernel = w.details.plain_dims[2:]
        groups = op.integer("groups", 1) if op.stored or op.has("groups") else 1
        dilations = (
            image.per_axis("dilation", 1) if op.stored or op.has("dilation") else (1,) * axes
        )
        attrs = _transposed_attrs(image, kernel, dilations)
        attrs |= {"dilations": dilations, "groups": groups}
        return image.back(_biased(op, op.make("convolution_transpose", image.x, w, **attrs)))

    return build


def _transposed_attrs(
    image: _Image, kernel: Sequence[int], dilations: Sequence[int]
) -> dict[str, Any]:
    op = image.op
    if not (op.stored or op.has("strides")):
        raise UndeterminedError("strides")
    if not (op.stored or op.has("padding")):
        raise UndeterminedError("padding")
    strides, (before, after) = image.per_axis("strides", 1), image.padding()
    extra = image.per_axis("output_padding", 0) if op.stored or op.has("output_padding") else None
    if extra is None:
        if image.results is None:
            raise UndeterminedError("output_padding")
        extra = tuple(
            out - ((n - 1) * s + (k - 1) * d + 1 - b - a)
            for out, n, s, k, d, b, a in zip(
                image.results, image.sizes, strides, kernel, dilations, before, after, strict=True
            )
        )
    return {"strides": strides, "before": before, "after": after, "output_padding": extra}


def _pool(op_name: str, axes: int) -> Operator:
    """The size of the window is in no kernel's name."""

    def build(op: OperatorContext) -> GraphTensor:
        image = _Image(op, axes)
        kernel = image.per_axis("pool_size")
        dilations = (
            image.per_axis("dilation", 1) if op.stored or op.has("dilation") else (1,) * axes
        )
        ceil = op.flag("ceil_mode", False) if op.stored or op.has("ceil_mode") else False
        attrs: dict[str, Any] = _steps_and_padding(image, kernel, dilations)
        attrs |= {"kernel": kernel, "dilations": dilations, "ceil_mode": ceil}
        if op_name == "avg_pool":
            if not op.stored and not op.has("count_include_pad") and any(attrs["before"]):
                raise UndeterminedError("count_include_pad")
            known = op.stored or op.has("count_include_pad")
            attrs["count_include_pad"] = op.flag("count_include_pad", False) if known else False
        return image.back(op.make(op_name, image.x, **attrs))

    return build


def _global_pool(op_name: str, axes: int) -> Operator:
    def build(op: OperatorContext) -> GraphTensor:
        image = _Image(op, axes)
        spatial = tuple(range(2, image.x.details.rank))
        return image.back(op.make(op_name, image.x, axes=spatial, keep_dims=True))

    return build


def _adaptive(is_mean: bool, axes: int) -> Operator:
    def build(op: OperatorContext) -> GraphTensor:
        image = _Image(op, axes)
        wanted = image.results
        if op.has("output_size"):
            given = image.per_axis("output_size")
            wanted = tuple(g if g > 0 else n for g, n in zip(given, image.sizes, strict=True))
        if wanted is None:
            raise UndeterminedError("output_size")
        return image.back(adaptive_pool(op, image.x, wanted, is_mean))

    return build


def _upsampling(op: OperatorContext) -> GraphTensor:
    """`scale` (NNVM) or scale_h and scale_w (Relay); what the sizes say needs no attribute."""
    image = _Image(op, 2)
    method = str(op.attr("method", "NEAREST_NEIGHBOR")).lower()
    if method not in ("nearest_neighbor", "bilinear"):
        raise op.unsupported(f"method '{method}'")
    sizes = image.results
    if sizes is None:
        both = ("scale", "scale") if op.has("scale") else ("scale_h", "scale_w")
        scales = [op.number(key, 1.0) for key in both]
        sizes = tuple(round(n * s) for n, s in zip(image.sizes, scales, strict=True))
    shape = (*image.x.details.plain_dims[:2], *sizes)
    if method == "nearest_neighbor":
        attrs = {"mode": "nearest", "coordinates": "asymmetric", "nearest_mode": "floor"}
    else:
        aligned = op.flag("align_corners", False) if op.stored or op.has("align_corners") else False
        attrs = {"mode": "linear", "coordinates": "align_corners" if aligned else "asymmetric"}
    return image.back(op.make("resize", image.x, shape=shape, **attrs))


def _resize(op: OperatorContext) -> GraphTensor:
    """image.resize2d: the method and where elements lie are in no kernel's name."""
    image = _Image(op, 2)
    method = str(op.attr("method", "linear"))
    places = str(op.attr("coordinate_transformation_mode", "half_pixel"))
    if method not in ("nearest_neighbor", "linear"):
        raise op.unsupported(f"method '{method}'")
    sizes = image.results if not op.has("size") else image.per_axis("size")
    if sizes is None:
        raise UndeterminedError("size")
    shape = (*image.x.details.plain_dims[:2], *sizes)
    mode = "nearest" if method == "nearest_neighbor" else "linear"
    extra = {}
    if mode == "nearest":
        rounding = str(op.attr("rounding_method", "round")) if op.has("rounding_method") else ""
        by_place = "round_prefer_ceil" if places == "align_corners" else "floor"
        by_name = {"round": "round_prefer_floor", "floor": "floor", "ceil": "ceil"}
        by_name["round_prefer_ceil"] = "round_prefer_ceil"
        extra["nearest_mode"] = by_name.get(rounding, by_place)
    y = op.make("resize", image.x, shape=shape, mode=mode, coordinates=places, **extra)
    return image.back(y)


def _layout_transform(op: OperatorContext) -> GraphTensor:
    """From src_layout to dst_layout; without them, the only pair of usual layouts that the sizes fit."""
    if op.has("src_layout") and op.has("dst_layout"):
        source, target = (layout(op, key, default="") for key in ("src_layout", "dst_layout"))
        return relaid(op, op.x, source, target)
    if op.result is None:
        raise UndeterminedError("src_layout")
    old, new = op.x.details.plain_dims, op.result.plain_dims
    fits = [
        (source, target)
        for source, target in _usual_pairs(old, new)
        if _sizes_after(source, target, old) == new
    ]
    if len(fits) != 1:
        raise UndeterminedError("src_layout")
    return relaid(op, op.x, *fits[0])


def _usual_pairs(old: Sequence[int], new: Sequence[int]) -> list[tuple[AxisLayout, AxisLayout]]:
    """Layouts of images and of weights with these numbers of axes, in pairs of the same axes."""
    sides = []
    for dims in (old, new):
        texts = {4: ["NCHW", "NHWC", "OIHW", "HWIO"], 5: [f"NCHW{dims[-1]}c"]}.get(len(dims), [])
        if len(dims) == 6:
            texts = [f"OIHW{dims[-2]}i{dims[-1]}o"]
        sides.append([found for text in texts if (found := parse_layout(text)) is not None])
    return [
        (a, b) for a in sides[0] for b in sides[1]
        if a != b and sorted(a.letters) == sorted(b.letters)
    ]  # fmt: skip


def _sizes_after(source: AxisLayout, target: AxisLayout, dims: Sequence[int]) -> tuple[int, ...]:
    """The sizes in `target` of a tensor that has these in `source`."""
    plain = source.plain_dims(dims)
    blocks = {
        letter: math.prod(block for other, block in target.axes if other == letter and block)
        for letter in plain
    }
    return tuple(block or plain[letter] // blocks[letter] for letter, block in target.axes)


_POOLS: dict[str, Callable[[int], Operator]] = {
    "max": lambda axes: _pool("max_pool", axes),
    "avg": lambda axes: _pool("avg_pool", axes),
    "global_max": lambda axes: _global_pool("reduce_max", axes),
    "global_avg": lambda axes: _global_pool("reduce_mean", axes),
    "adaptive_max": lambda axes: _adaptive(False, axes),
    "adaptive_avg": lambda axes: _adaptive(True, axes),
}

OPERATORS: dict[str, tuple[int, Operator]] = {
    **{f"{p}conv{n}d": (2, _convolution(n)) for p in ("nn_", "") for n in (1, 2, 3)},
    **{f"{p}conv{n}d_transpose": (2, _convolution_transpose(n)) for p in ("nn_", "") for n in (1, 2, 3)},
    **{f"{p}{name}_pool{n}d": (1, pool(n)) for name, pool in _POOLS.items() for p in ("nn_", "") for n in (1, 2, 3)},
    "nn_contrib_conv2d_NCHWc": (2, _convolution(2)), "nn_contrib_depthwise_conv2d_NCHWc": (2, _convolution(2)),
    "contrib_conv2d_NCHWc": (2, _convolution(2)), "_contrib_conv2d_NCHWc": (2, _convolution(2)),
    "nn_upsampling": (1, _upsampling), "upsampling": (1, _upsampling), "image_resize2d": (1, _resize),
    "layout_transform": (1, _layout_transform), "__layout_transform__": (1, _layout_transform),
}  # fmt: skip
"""Operator to the number of its operands and its meaning."""
