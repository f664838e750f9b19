"""Convolutions, pools and resampling. Attributes missing in a kernel's name are inferred if only one usual
value fits the sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...graph_ir.ir.graph import GraphTensor
from ..adaptive_pool import adaptive_pool
from ..axis_layout import AxisLayout, Image, known_layout, parse_layout, relaid
from ..correspondence.compositions.windows import biased, global_pool, transposed_padding
from ..correspondence.reading import Pair
from .scope import OperatorContext, UndeterminedError

_SPATIAL = ("W", "HW", "DHW")


def _layout(op: OperatorContext, *keys: str, default: str) -> AxisLayout:
    """The layout of the first attribute that is given."""
    key = next((key for key in keys if op.has(key)), "")
    if not key:  # of a pattern of many nodes, if it can be that of this one
        texts = [op.call.fallback[key] for key in keys if key in op.call.fallback]
        default = next((text for text in texts if _could_be(text, default)), default)
    return _parsed(op, keys[0], op.attr_text(key) if key else default)


def _could_be(text: str, default: str) -> bool:
    """Return whether a layout has as many axes as the usual one."""
    given, usual = parse_layout(text), parse_layout(default)
    return given is None or usual is None or len(given.axes) == len(usual.axes)


def _parsed(op: OperatorContext, key: str, text: str) -> AxisLayout:
    found = parse_layout(text)
    if found is None:
        raise op.rule(f"attribute '{key}' must be a layout such as NCHW8c", f"'{text}'")
    return found


class _Image(Image):
    """The first operand as [N, C, sizes...]; a digit in the operator's name says how many sizes there are."""

    def __init__(self, op: OperatorContext) -> None:
        spatial = _SPATIAL[next((int(c) for c in op.type if c in "123"), 2) - 1]
        dims = op.x.details.plain_dims
        block = f"{dims[-1]}c" if len(dims) == len(spatial) + 3 else ""
        form = _layout(op, "data_layout", "layout", default=f"NC{spatial}{block}")
        super().__init__(op, op.x, form, spatial)
        self.op = op

    @property
    def results(self) -> tuple[int, ...] | None:
        """The spatial sizes of what the kernel gives; None where they are not known."""
        if self.op.final is None:
            return None
        dims = self.op.final.plain_dims
        out = self._out_layout(dims)
        if not out.fits(dims):
            return None
        sizes = out.plain_dims(dims)
        return tuple(sizes[letter] for letter in self.spatial)

    def _out_layout(self, dims: Sequence[int] | None) -> AxisLayout:
        """The layout of the result: that of the input, with blocks as its own sizes have them."""
        if self.op.has("out_layout") and self.op.attr_text("out_layout"):
            return _layout(self.op, "out_layout", default="")
        last, block = self.layout.axes[-1]
        if not block or dims is None or len(dims) != len(self.layout.axes):
            return self.layout
        return AxisLayout((*self.layout.axes[:-1], (last, dims[-1])))

    def result(self, y: GraphTensor) -> GraphTensor:
        """[N, C, sizes...] in the layout of the result."""
        final = self.op.final
        return self.back(y, self._out_layout(None if final is None else final.plain_dims))

    def entries(self, key: str, *default: int) -> tuple[int, ...]:
        """An attribute's entry per spatial axis."""
        given = self.op.attr_ints(key, default) if default else self.op.attr_ints(key)
        return self.per_axis(f"attribute '{key}'", given)

    def wanted(self, key: str) -> tuple[int, ...]:
        """The sizes that an attribute says, else those that are known of the result."""
        if not self.op.has(key) and self.results is not None:
            return self.results
        return self.entries(key)

    def padding(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Before and after: one number, one per axis, or all befores and then all afters."""
        count, values = len(self.spatial), self.op.attr_ints("padding", (0,))
        values = values * count if len(values) == 1 else values
        values = values * 2 if len(values) == count else values
        if len(values) != 2 * count:
            rule = f"attribute 'padding' must have 1, {count} or {2 * count} entries"
            raise self.op.rule(rule, str(list(values)))
        return values[:count], values[count:]


def _steps_and_padding(
    image: _Image, kernel: Sequence[int], dilations: Sequence[int]
) -> dict[str, tuple[int, ...]]:
    """strides, before and after: the attributes, or per axis the only usual reading of the sizes.

    Usual is a stride that skips no element (but any for a window of one), with no padding, the same on both sides up
    to half of the window, or TensorFlow's SAME (the odd element behind). Raise UndeterminedError if several fit, or
    none.
    """
    op = image.op
    given_steps = image.entries("strides", 1) if op.knows("strides") else None
    given_pads = image.padding() if op.knows("padding") else None
    if given_steps and given_pads:
        return {"strides": given_steps, "before": given_pads[0], "after": given_pads[1]}
    if image.results is None:
        raise UndeterminedError("padding" if given_steps else "strides")
    found: list[tuple[int, int, int]] = []
    sides = zip(image.sizes, kernel, dilations, image.results, strict=True)
    for i, (size, k, d, out) in enumerate(sides):
        extent = (k - 1) * d + 1
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
    """Return (stride, before, after) that give `out` positions; if there is only one position, any stride
    is equivalent."""
    found = []
    for step in steps if out > 1 else steps[:1]:
        total = max((-(-size // step) - 1) * step + extent - size, 0)
        usual = [(p, p) for p in range((extent + 1) // 2)] + [(total // 2, total - total // 2)]
        for before, after in pads if pads is not None else usual:
            room = size + before + after - extent
            if room >= 0 and room // step + 1 == out:
                found.append((step, before, after))
    return found


def _convolution(op: OperatorContext, op_name: str) -> GraphTensor:
    image = _Image(op)
    w = _weights(op, image)
    channels, (outer, inner, *kernel) = image.x.details.plain_dims[1], w.details.plain_dims
    if not inner or channels % inner:
        raise op.rule(f"the weights must be for {channels} channels", str(w.details))
    groups = op.attr_int("groups", 1) if op.knows("groups") else channels // inner
    if groups == channels and inner > 1 and outer == channels:
        w = op.reshaped(w, (channels * inner, 1, *kernel))  # TVM's [channels, multiplier]
    dilations = image.entries("dilation", 1)
    attrs: dict[str, Any] = _steps_and_padding(image, kernel, dilations)
    y = op.make(op_name, image.x, w, **attrs, dilations=dilations, groups=groups)
    return image.result(biased(op, y, _bias(op)))


def _weights(op: OperatorContext, image: _Image) -> GraphTensor:
    """The second operand as [O, I, kernel...]; blocked weights have their blocks of I before those of O."""
    w = op.operand(1)
    dims, spatial = w.details.plain_dims, image.spatial
    last = image.layout.letters[-1] == "C"
    depthwise = "depthwise" in op.type
    default = f"{spatial}{'OI' if depthwise else 'IO'}" if last else f"OI{spatial}"
    if len(dims) == len(spatial) + 4:
        default += f"{dims[-2]}i{dims[-1]}o"
    source = _layout(op, "kernel_layout", default=default)
    return relaid(op, w, source, known_layout(f"OI{spatial}"))


def _bias(op: OperatorContext) -> GraphTensor | None:
    """The third operand, as a vector."""
    if len(op.operands) < 3:
        return None
    return op.reshaped(op.operand(2), (op.operand(2).details.elements,))


def _convolution_transpose(op: OperatorContext, op_name: str) -> GraphTensor:
    image = _Image(op)
    source = _layout(op, "kernel_layout", default=f"OI{image.spatial}")
    # TVM names the axis that meets the input O in old files and I in new ones: it is the first in both.
    letters = "IO" if source.letters.index("I") < source.letters.index("O") else "OI"
    w = relaid(op, op.operand(1), source, known_layout(f"{letters}{image.spatial}"))
    dilations, kernel = image.entries("dilation", 1), w.details.plain_dims[2:]
    strides, (before, after) = image.entries("strides", 1), image.padding()
    if op.knows("output_padding"):
        extra = image.entries("output_padding", 0)
    elif image.results is None:
        raise UndeterminedError("output_padding")
    else:
        totals = transposed_padding(image.sizes, kernel, strides, dilations, image.results)
        extra = tuple(b + a - t for b, a, t in zip(before, after, totals, strict=True))
    attrs: dict[str, Any] = {"strides": strides, "before": before, "after": after}
    attrs |= {"output_padding": extra, "dilations": dilations, "groups": op.attr_int("groups", 1)}
    return image.result(biased(op, op.make(op_name, image.x, w, **attrs), _bias(op)))


def _pool(op: OperatorContext, op_name: str) -> GraphTensor:
    """The size of the window is in no kernel's name."""
    image = _Image(op)
    kernel, dilations = image.entries("pool_size"), image.entries("dilation", 1)
    attrs: dict[str, Any] = _steps_and_padding(image, kernel, dilations)
    attrs |= {
        "kernel": kernel,
        "dilations": dilations,
        "ceil_mode": op.attr_bool("ceil_mode", False),
    }
    if op_name == "avg_pool" and (op.knows("count_include_pad") or any(attrs["before"])):
        attrs["count_include_pad"] = op.attr_bool("count_include_pad", False)
    elif op_name == "avg_pool":
        attrs["count_include_pad"] = False
    return image.result(op.make(op_name, image.x, **attrs))


def _global_pool(op: OperatorContext, name: str) -> GraphTensor:
    image = _Image(op)
    reduction = "reduce_max" if "max" in name else "reduce_mean"
    return image.result(global_pool(op, image.x, reduction))


def _adaptive(op: OperatorContext, _: str) -> GraphTensor:
    image = _Image(op)
    pairs = zip(image.wanted("output_size"), image.sizes, strict=True)
    wanted = tuple(given if given > 0 else n for given, n in pairs)
    return image.result(adaptive_pool(op, image.x, wanted, "avg" in op.type))


def _upsampling(op: OperatorContext, op_name: str) -> GraphTensor:
    """`scale` (NNVM) or scale_h and scale_w (Relay); what the sizes say needs no attribute."""
    image = _Image(op)
    method = op.attr_text("method", "NEAREST_NEIGHBOR").lower()
    if method not in ("nearest_neighbor", "bilinear"):
        raise op.unsupported(f"method '{method}'")
    sizes = image.results
    if sizes is None:
        both = ("scale", "scale") if op.has("scale") else ("scale_h", "scale_w")
        scales = [op.attr_float(key, 1.0) for key in both]
        sizes = tuple(round(n * s) for n, s in zip(image.sizes, scales, strict=True))
    if method == "nearest_neighbor":
        attrs = {"mode": "nearest", "coordinates": "asymmetric", "nearest_mode": "floor"}
    else:
        aligned = op.attr_bool("align_corners", False)
        attrs = {"mode": "linear", "coordinates": "align_corners" if aligned else "asymmetric"}
    return _resized(image, op_name, sizes, **attrs)


def _resize(op: OperatorContext, op_name: str) -> GraphTensor:
    """image.resize2d: the method and where elements lie are in no kernel's name."""
    image = _Image(op)
    method = op.attr_text("method", "linear")
    coordinates = op.attr_text("coordinate_transformation_mode", "half_pixel")
    if method not in ("nearest_neighbor", "linear"):
        raise op.unsupported(f"method '{method}'")
    attrs = {"mode": "linear", "coordinates": coordinates}
    if method == "nearest_neighbor":
        rounding = op.attr_text("rounding_method", "round") if op.has("rounding_method") else ""
        usual = "round_prefer_ceil" if coordinates == "align_corners" else "floor"
        names = {"round": "round_prefer_floor", "floor": "floor", "ceil": "ceil"}
        names["round_prefer_ceil"] = "round_prefer_ceil"
        attrs |= {"mode": "nearest", "nearest_mode": names.get(rounding, usual)}
    return _resized(image, op_name, image.wanted("size"), **attrs)


def _resized(image: _Image, op_name: str, sizes: Sequence[int], **attrs: str) -> GraphTensor:
    shape = (*image.x.details.plain_dims[:2], *sizes)
    return image.result(image.op.make(op_name, image.x, shape=shape, **attrs))


def _layout_transform(op: OperatorContext, _: str) -> GraphTensor:
    source, target = (_parsed(op, key, op.attr_text(key)) for key in ("src_layout", "dst_layout"))
    return relaid(op, op.x, source, target)


PAIRS: dict[str, Pair] = {
    "convolution": Pair(_convolution), "convolution_transpose": Pair(_convolution_transpose), "pool": Pair(_pool),
    "global_pool": Pair(_global_pool), "adaptive": Pair(_adaptive), "upsampling": Pair(_upsampling),
    "resize": Pair(_resize), "layout_transform": Pair(_layout_transform),
}  # fmt: skip
