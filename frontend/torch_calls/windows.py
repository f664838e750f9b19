"""Convolutions, pools, windows as columns, and local response normalization."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any

from ...base.dims import Dim, Size, is_known
from ...base.dtypes import F64
from ...base.size_limits import at_least
from ...graph_ir.ir.graph import GraphTensor
from ..adaptive_pool import adaptive_pool, adaptive_pool_indices
from ..correspondence.compositions.movement import flip
from ..correspondence.compositions.sampling import columns_to_image
from ..correspondence.compositions.windows import biased, halved, mean_by
from ..op_builder import like
from .call import Call, Value
from .movement import padded

Images = Callable[[Call, GraphTensor, str], list[GraphTensor] | GraphTensor]
"""Builds what an operator makes of images [N, C, sizes...]; the last argument is the name of the row."""


def per_axis(node: Call, name: str, spatial: int, *default: int) -> tuple[int, ...]:
    """`spatial` integers; one counts for every axis. Without a default they must be given."""
    values = (node.attr_ints(name, default) or default) if default else node.attr_ints(name)
    values = values * spatial if len(values) == 1 else values
    if len(values) != spatial:
        raise node.rule(f"'{name}' must have one entry for each of {spatial} axes", str([*values]))
    return values


def _of_images(build: Images) -> Callable[[Call, str], Value | list[GraphTensor]]:
    """A single image [C, sizes...] has a batch axis while it is read. The operator's name says how many sizes."""

    def read(node: Call, row_name: str) -> Value | list[GraphTensor]:
        x = node.tensor_of()
        named = re.search(r"([123])d", node.type)
        spatial = int(named[1]) if named else 2
        if x.details.rank not in (spatial + 1, spatial + 2):
            rule = f"the input must have {spatial + 1} or {spatial + 2} axes"
            raise node.rule(rule, str(x.details))
        if x.details.rank == spatial + 2:
            return build(node, x, row_name)
        found = build(node, node.reshaped(x, (1, *x.details.plain_dims)), row_name)
        several = found if isinstance(found, list) else [found]
        single = [node.reshaped(y, y.details.plain_dims[1:]) for y in several]
        return single if isinstance(found, list) else single[0]

    return read


def _steps(node: Call, count: int, kernel: Sequence[int] = ()) -> dict[str, tuple[int, ...]]:
    """Strides, dilations and padding. `same`, for a kernel, keeps the sizes: the odd element goes after."""
    steps = {ours: per_axis(node, ours[:-1], count, 1) for ours in ("strides", "dilations")}
    word = node.argument("padding")
    if word is None and kernel and node.attr_text("padding_mode", "zeros") != "zeros":
        word = (
            "same"  # along one axis with an even kernel: PNNX writes () for two sides that differ
        )
    if word in ("valid", "same") and kernel:
        if word == "same" and set(steps["strides"]) != {1}:
            raise node.rule("padding=same must have a stride of 1", str([*steps["strides"]]))
        extents = [d * (k - 1) for k, d in zip(kernel, steps["dilations"], strict=True)]
        before, after = halved(extents if word == "same" else (0,) * count)
    elif isinstance(word, list) and len(word) == 2 * count > 2 and kernel:
        sides = node.attr_ints(
            "padding"
        )  # as F.pad has them, what a module pads by a mode: the last axis first
        before, after = sides[::2][::-1], sides[1::2][::-1]
    else:
        before = after = per_axis(node, "padding", count, 0)
    return {**steps, "before": before, "after": after}


# Convolutions.


@_of_images
def _read_convolution(node: Call, x: GraphTensor, op_name: str) -> GraphTensor:
    """The weights of a module repeat its sizes and channels, which must agree."""
    dtype, is_transposed = x.details.dtype, op_name == "convolution_transpose"
    w, bias = node.tensor_of("weight", dtype), node.optional("bias", dtype)
    kernel = w.details.plain_dims[2:]
    if w.details.rank != x.details.rank:
        raise node.rule(f"weight must have {x.details.rank} axes", str(w.details))
    if per_axis(node, "kernel_size", len(kernel), *kernel) != kernel:
        raise node.rule("kernel_size must be that of weight", str(w.details))
    attrs: dict[str, Any] = _steps(node, len(kernel), () if is_transposed else kernel)
    attrs["groups"] = node.attr_int("groups", 1)
    mode = node.attr_text("padding_mode", "zeros")
    if is_transposed:
        attrs["output_padding"] = per_axis(node, "output_padding", len(kernel), 0)
        if mode != "zeros":
            raise node.unsupported(f"padding_mode={mode}")
    elif mode != "zeros":  # the border is added first, so no padding is left
        sides = reversed([*zip(attrs["before"], attrs["after"], strict=True)])
        x = padded(node.part(), x, [n for side in sides for n in side], mode)
        attrs["before"] = attrs["after"] = (0,) * len(kernel)
    y = node.make(op_name, x, w, **attrs)
    names = ("in_channels", "out_channels") if is_transposed else ("out_channels", "in_channels")
    wanted = (w.details.plain_dims[0], w.details.plain_dims[1] * attrs["groups"])
    if tuple(map(node.attr_int, names, wanted)) != wanted:
        raise node.rule(f"weight must have the channels of {' and '.join(names)}", str(w.details))
    return biased(node, y, bias)


# Windows as columns.


@_of_images
def _read_im2col(node: Call, x: GraphTensor, op_name: str) -> GraphTensor:
    """[N, C, sizes...] as [N, C * kernel, windows]."""
    kernel = per_axis(node, "kernel_size", 2)
    seen = node.make(op_name, x, kernel=kernel, **_steps(node, 2))
    batch, channels, *rest = seen.details.plain_dims
    return node.reshaped(seen, (batch, channels * math.prod(kernel), math.prod(rest[2:])))


def _read_fold(node: Call, _: str) -> Value:
    """The adjoint of unfold."""
    x = node.tensor_of()
    is_single = x.details.rank == 2
    columns = node.reshaped(x, (1, *x.details.plain_dims)) if is_single else x
    kernel, sizes = (per_axis(node, name, 2) for name in ("kernel_size", "output_size"))
    steps = _steps(node, 2)
    padding = (steps["before"], steps["after"])
    y = columns_to_image(
        node, columns, sizes, kernel, steps["strides"], steps["dilations"], padding
    )
    return node.reshaped(y, y.details.plain_dims[1:]) if is_single else y


# Pools.


@_of_images
def _read_pool(node: Call, x: GraphTensor, op_name: str) -> list[GraphTensor] | GraphTensor:
    """The strides are the kernel where none are given."""
    count = x.details.rank - 2
    kernel = per_axis(node, "kernel_size", count)
    attrs: dict[str, Any] = {**_steps(node, count), "kernel": kernel}
    if any(2 * p > k for p, k in zip(attrs["before"], kernel, strict=True)):
        both = f"{[*attrs['before']]} and {[*kernel]}"
        raise node.rule("padding must be at most half of kernel_size", both)
    attrs["strides"] = per_axis(node, "stride", count, *kernel)
    attrs["ceil_mode"] = node.attr_bool("ceil_mode", False)
    if op_name == "lp_pool":
        return _lp_pool(node, x, attrs)
    if op_name == "max_pool":
        return _largest(node, x, attrs)
    is_counted = node.attr_bool("count_include_pad", True)
    dtype = x.details.dtype
    wide = x if dtype.is_float else node.converted(x, F64)  # their mean is cut, not rounded
    if node.given("divisor_override"):
        y = mean_by(node, wide, node.attr_int("divisor_override"), **attrs)
    else:
        build = node if dtype.is_float else node.part()
        y = build.make(op_name, wide, **attrs, count_include_pad=is_counted)
    return node.converted(y, dtype)


def _largest(node: Call, x: GraphTensor, attrs: dict[str, Any]) -> list[GraphTensor] | GraphTensor:
    """The largest elements, and their indices if requested."""
    y = node.make("max_pool", x, **attrs)
    if not _wants_indices(node):
        return y
    return [y, node.helper("max_pool_indices", x, **attrs)]


def _wants_indices(node: Call) -> bool:
    return node.attr_bool("return_indices", node.count > 1)


def _lp_pool(node: Call, x: GraphTensor, attrs: dict[str, Any]) -> GraphTensor:
    """(sum of x ** p) ** (1 / p), NaN of sums below 0; where ceil_mode crops a window, its mean is scaled to all of it.

    The extreme of |x| for +-inf.
    """
    power, dtype = node.attr_float("norm_type", 2.0), x.details.dtype
    if math.isinf(power):
        size = node.helper("abs", x)
        size = size if power > 0 else node.helper("neg", size)
        y = node.helper("max_pool", size, **attrs)
        return y if power > 0 else node.make("neg", y)
    if power > 0 and power % 2 == 0 and not attrs["ceil_mode"]:
        return node.make("lp_pool", x, **attrs, p=power)
    wide = node.converted(x, dtype.accumulator)
    powers = node.helper("pow", wide, like(node, power, wide))
    mean = node.helper("avg_pool", powers, **attrs, count_include_pad=True)
    total = node.helper("mul", mean, like(node, math.prod(attrs["kernel"]), wide))
    y = node.make("pow", total, like(node, 1 / power, wide))
    return node.converted(y, dtype)


@_of_images
def _read_adaptive(node: Call, x: GraphTensor, _: str) -> list[GraphTensor] | GraphTensor:
    """The size of the result is given, the windows follow."""
    sizes, is_mean = x.details.plain_dims[2:], "avg" in node.type.lower()
    wanted = _output_sizes(node, sizes)
    if is_mean or not _wants_indices(node):
        return adaptive_pool(node, x, wanted, is_mean)
    pairs = list(zip(sizes, wanted, strict=True))
    if not is_known(*sizes, *wanted) or any(size % out for size, out in pairs):
        return list(adaptive_pool_indices(node, x, wanted))
    kernel = tuple(size // out for size, out in pairs)
    return _largest(node, x, {"kernel": kernel, "strides": kernel})


def _output_sizes(node: Call, sizes: Sequence[Size]) -> tuple[Any, ...]:
    """`output_size`; None or 0 keep a size."""
    value = node.argument("output_size")
    given = list(value) if isinstance(value, list) else [value]
    given = given * len(sizes) if len(given) == 1 else given
    words = [0 if entry in (None, "None") else entry for entry in given]
    are_sizes = all(isinstance(n, Dim) or (type(n) is int and n >= 0) for n in words)
    if len(words) != len(sizes) or not are_sizes:
        raise node.rule(f"output_size must have {len(sizes)} sizes", repr(value)[:64])
    if not all(at_least(size, 1) for size in sizes):
        raise node.rule("the spatial axes must have elements", str(list(sizes)))
    return tuple(size if out == 0 else out for size, out in zip(sizes, words, strict=True))


def _read_lrn(node: Call, op_name: str) -> Value:
    """PyTorch's window of an even size has its extra channel before, the op's after: channels are reversed."""
    x, size = node.tensor_of(), node.attr_int("size")
    defaults = {"alpha": 1e-4, "beta": 0.75, "k": 1.0}
    attrs = {name: node.attr_float(name, value) for name, value in defaults.items()}
    if x.details.rank < 2:
        raise node.rule("the input must have a batch and a channel axis", str(x.details))
    if size % 2:
        return node.make(op_name, x, size=size, **attrs)
    part = node.part()
    reversed_ = node.make(op_name, flip(part, x, (1,)), size=size, **attrs)
    return flip(part, reversed_, (1,))


READS = {
    "convolution": _read_convolution, "im2col": _read_im2col, "fold": _read_fold, "pool": _read_pool,
    "adaptive": _read_adaptive, "lrn": _read_lrn,
}  # fmt: skip
