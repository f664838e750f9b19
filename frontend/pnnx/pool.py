"""Pooling over windows of fixed and of adaptive sizes, and local response normalisation."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ...graph_ir.ir.graph import GraphTensor
from ..adaptive_pool import adaptive_pool
from .scope import Handler, Node, Value
from .windows import per_axis, with_batch

Pool = Callable[[Node], Value | tuple[Value, ...]]


def _window(node: Node, spatial: int) -> dict[str, Any]:
    """kernel, strides (the kernel where none are given), padding and ceil_mode."""
    kernel = per_axis(node, "kernel_size", spatial, None)
    has_stride = node.given("stride") and node.argument("stride") != []
    padding = per_axis(node, "padding", spatial, 0)
    if any(2 * p > k for p, k in zip(padding, kernel, strict=True)):
        raise node.rule(
            "padding must be at most half of kernel_size", f"{list(padding)} and {list(kernel)}"
        )
    return {
        "kernel": kernel,
        "strides": per_axis(node, "stride", spatial, 1) if has_stride else kernel,
        "before": padding,
        "after": padding,
        "ceil_mode": node.attr_bool("ceil_mode", False),
    }


def _unbatched(node: Node, y: GraphTensor, is_single: bool) -> GraphTensor:
    return node.reshaped(y, y.details.plain_dims[1:]) if is_single else y


def _max_pool(spatial: int) -> Pool:
    def run(node: Node) -> Value | tuple[Value, ...]:
        x, is_single = with_batch(node, node.tensor_of(), spatial)
        attrs = _window(node, spatial)
        attrs["dilations"] = per_axis(node, "dilation", spatial, 1)
        return _largest(node, x, attrs, is_single)

    return run


def _largest(
    node: Node, x: GraphTensor, attrs: dict[str, Any], is_single: bool
) -> Value | tuple[Value, ...]:
    """The largest elements, and their indices if requested."""
    y = node.make("max_pool", x, **attrs)
    if not node.attr_bool("return_indices", False):
        return _unbatched(node, y, is_single)
    places = node.helper("max_pool_indices", x, **attrs)
    return _unbatched(node, y, is_single), _unbatched(node, places, is_single)


def _avg_pool(spatial: int) -> Pool:
    def run(node: Node) -> Value:
        x, is_single = with_batch(node, node.tensor_of(), spatial)
        attrs = _window(node, spatial)
        include = node.attr_bool("count_include_pad", True)
        if not node.given("divisor_override"):
            y = node.make("avg_pool", x, **attrs, count_include_pad=include)
            return _unbatched(node, y, is_single)
        divisor = node.attr_int("divisor_override")
        if not divisor:
            raise node.rule("divisor_override must not be 0", "0")
        dtype = x.details.dtype
        total = node.make("sum_pool", node.converted(x, dtype.accumulator), **attrs)
        y = total
        if divisor != 1:
            y = node.make("div", total, node.constant(divisor, total.details.dtype))
        return _unbatched(node, node.converted(y, dtype), is_single)

    return run


def _lp_pool(spatial: int) -> Pool:
    """(sum of x ** p) ** (1 / p); a window cropped by ceil_mode scales its mean to the whole window."""

    def run(node: Node) -> Value:
        x, is_single = with_batch(node, node.tensor_of(), spatial)
        attrs, power = _window(node, spatial), node.attr_float("norm_type", 2.0)
        dtype = x.details.dtype
        if power > 0 and power % 2 == 0 and not attrs["ceil_mode"]:
            return _unbatched(node, node.make("lp_pool", x, **attrs, p=float(power)), is_single)
        wide = node.converted(x, dtype.accumulator)

        def constant(value: float) -> GraphTensor:
            return node.constant(value, wide.details.dtype)

        powers = node.helper("pow", wide, constant(power))
        mean = node.helper("avg_pool", powers, **attrs, count_include_pad=True)
        total = node.helper("mul", mean, constant(math.prod(attrs["kernel"])))
        positive = node.helper("relu", total)
        y = node.make("pow", positive, constant(1 / power))
        return _unbatched(node, node.converted(y, dtype), is_single)

    return run


# Adaptive pools: the size of the result is given, the windows follow.


def _adaptive(op_name: str, spatial: int) -> Pool:
    def run(node: Node) -> Value | tuple[Value, ...]:
        x, is_single = with_batch(node, node.tensor_of(), spatial)
        sizes = x.details.plain_dims[2:]
        wanted = _output_sizes(node, sizes)
        if op_name == "avg_pool" or not node.attr_bool("return_indices", False):
            y = adaptive_pool(node, x, wanted, op_name == "avg_pool")
            return _unbatched(node, y, is_single)
        if any(size % out for size, out in zip(sizes, wanted, strict=True)):
            raise node.unsupported("return_indices=True with windows of several sizes")
        kernel = tuple(size // out for size, out in zip(sizes, wanted, strict=True))
        return _largest(node, x, {"kernel": kernel, "strides": kernel}, is_single)

    return run


def _output_sizes(node: Node, sizes: Sequence[int]) -> tuple[int, ...]:
    """`output_size`; None or 0 keep a size."""
    value = node.argument("output_size")
    given = list(value) if isinstance(value, list) else [value]
    given = given * len(sizes) if len(given) == 1 else given
    words = [0 if entry in (None, "None") else entry for entry in given]
    if len(words) != len(sizes) or any(type(n) is not int or n < 0 for n in words):
        raise node.rule(f"output_size must have {len(sizes)} sizes", repr(value)[:64])
    if min(sizes) < 1:
        raise node.rule("the spatial axes must have elements", str(list(sizes)))
    return tuple(
        int(out) or size  # type: ignore[arg-type]
        for size, out in zip(sizes, words, strict=True)
    )


# Local response normalisation.


def _response_norm(node: Node) -> Value:
    """PyTorch's window of an even size has its extra channel before, the op's after: channels are reversed."""
    x = node.tensor_of()
    size = node.attr_int("size")
    attrs = {
        "size": size,
        "alpha": node.attr_float("alpha", 1e-4),
        "beta": node.attr_float("beta", 0.75),
    }
    attrs["k"] = node.attr_float("k", 1.0)
    if x.details.rank < 2:
        raise node.rule("the input must have a batch and a channel axis", str(x.details))
    if size % 2:
        return node.make("lrn", x, **attrs)
    return _reversed(node, node.make("lrn", _reversed(node, x), **attrs))


def _reversed(node: Node, x: GraphTensor) -> GraphTensor:
    count = x.details.plain_dims[1]
    return node.sliced(x, 1, count - 1, count, -1) if count > 1 else x


HANDLERS: dict[str, Handler] = {
    **{
        f"{prefix}{n}d": Handler(make(n))
        for make, *prefixes in (
            (_max_pool, "nn.MaxPool", "F.max_pool"),
            (_avg_pool, "nn.AvgPool", "F.avg_pool"),
            (_lp_pool, "nn.LPPool", "F.lp_pool"),
            (lambda n: _adaptive("avg_pool", n), "nn.AdaptiveAvgPool", "F.adaptive_avg_pool"),
            (lambda n: _adaptive("max_pool", n), "nn.AdaptiveMaxPool", "F.adaptive_max_pool"),
        )
        for prefix in prefixes
        for n in (1, 2, 3)
    },
    "nn.LocalResponseNorm": Handler(_response_norm),
    "F.local_response_norm": Handler(_response_norm),
}
"""Operators of this family."""
