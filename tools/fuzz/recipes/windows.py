"""Ops over windows of an image: convolutions, pools, im2col, resize, local response normalization."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from ....base.dtypes import DType
from ....graph_ir.ir.graph import GraphTensor
from ..scope import ANY, NUMBER, Dims, Scope

_CHANNELS = ((1, 6), (2, 6), (3, 8), (4, 6), (5, 3), (8, 5), (13, 2), (16, 4), (17, 2), (32, 1))
_KERNELS = ((1, 8), (2, 3), (3, 14), (4, 1), (5, 3), (7, 1))
_MODES = ("nearest", "linear", "cubic")
_COORDINATES = ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric")


def image(scope: Scope, dtype: DType, channels: int, spatial: int) -> GraphTensor:
    """An image [N, C, sizes...] that is there, or a new one."""
    found = scope.find(
        lambda d: d.dtype == dtype and d.rank == spatial + 2 and d.plain_dims[1] == channels
    )
    if found is not None and scope.chance(0.7):
        return found
    sizes = [max(scope.size(), 1) for _ in range(spatial)]
    batch = scope.weighted(((1, 8), (2, 3), (3, 1)))
    return scope.input(dtype, scope.fitting((batch, channels, *sizes)))


def geometry(scope: Scope, sizes: Dims, kernel: Dims) -> dict[str, Any]:
    """Strides, dilations and padding; most often those of "same"."""
    rank = len(kernel)
    attrs: dict[str, Any] = {}
    if scope.chance(0.3):
        attrs["strides"] = tuple(scope.random.choice((1, 2, 3)) for _ in range(rank))
    if scope.chance(0.15):
        attrs["dilations"] = tuple(scope.random.choice((1, 2)) for _ in range(rank))
    if scope.chance(0.6):
        attrs["before"] = tuple(k // 2 for k in kernel)
        attrs["after"] = tuple(k // 2 for k in kernel)
    elif scope.chance(0.4):
        attrs["before"] = tuple(scope.random.randint(0, k - 1) for k in kernel)
        attrs["after"] = tuple(scope.random.randint(0, k - 1) for k in kernel)
    return attrs


def kernel_for(scope: Scope, sizes: Dims) -> Dims:
    """A window that fits into the image most of the time."""
    first = scope.weighted(_KERNELS)
    same = scope.chance(0.7)
    return tuple(min(first if same else scope.weighted(_KERNELS), s + 2) for s in sizes)


def convolve(scope: Scope, x: GraphTensor, outputs: int = 0) -> GraphTensor:
    """A convolution of x: dense, grouped or depthwise."""
    channels, sizes = x.details.plain_dims[1], x.details.plain_dims[2:]
    kernel = kernel_for(scope, sizes)
    divisors = [g for g in (2, 3, 4, channels) if channels % g == 0 and g > 1]
    groups = scope.random.choice(divisors) if divisors and scope.chance(0.35) else 1
    outputs = outputs or scope.weighted(_CHANNELS)
    outputs = max(outputs // groups, 1) * groups
    w = scope.weight(x.details.dtype, (outputs, channels // groups, *kernel))
    attrs = geometry(scope, sizes, kernel)
    if groups > 1:
        attrs["groups"] = groups
    return scope.one("convolution", x, w, **attrs)


def convolution(scope: Scope) -> None:
    """A convolution, mostly of f32 images."""
    convolve(scope, _any_image(scope))


def _any_image(scope: Scope, kinds: tuple[str, ...] = ANY) -> GraphTensor:
    spatial = scope.weighted(((2, 8), (1, 3), (3, 1)))
    return image(scope, scope.dtype(kinds), scope.weighted(_CHANNELS), spatial)


def convolution_transpose(scope: Scope) -> None:
    """The adjoint of a convolution."""
    x = _any_image(scope)
    channels, sizes = x.details.plain_dims[1], x.details.plain_dims[2:]
    kernel = kernel_for(scope, sizes)
    groups = 2 if channels % 2 == 0 and channels and scope.chance(0.3) else 1
    w = scope.weight(x.details.dtype, (channels, scope.weighted(_CHANNELS), *kernel))
    attrs = geometry(scope, sizes, kernel)
    if groups > 1:
        attrs["groups"] = groups
    if "strides" in attrs and scope.chance(0.4):
        attrs["output_padding"] = tuple(s - 1 for s in attrs["strides"])
    scope.make("convolution_transpose", [x, w], **attrs)


def pool(scope: Scope, name: str, kinds: tuple[str, ...], extra: dict[str, Any]) -> None:
    """A pool over the last axes; `extra`: further attributes and their values."""
    x = _any_image(scope, kinds) if scope.chance(0.7) else scope.any(kinds, 1)
    sizes = x.details.plain_dims[2:] if x.details.rank > 2 else x.details.plain_dims[-1:]
    kernel = kernel_for(scope, sizes)
    attrs = geometry(scope, sizes, kernel)
    if scope.chance(0.3):
        attrs["ceil_mode"] = True
    attrs.update({key: value for key, value in extra.items() if scope.chance(0.5)})
    scope.make(name, [x], kernel=kernel, **attrs)


def im2col(scope: Scope) -> None:
    """Add the elements of each window (im2col)."""
    x = _any_image(scope)
    sizes = x.details.plain_dims[2:]
    kernel = kernel_for(scope, sizes)
    scope.make("im2col", [x], kernel=kernel, **geometry(scope, sizes, kernel))


def lrn(scope: Scope) -> None:
    """Local response normalization."""
    x = _any_image(scope, ("float",))
    attrs = {"alpha": 0.5, "beta": scope.random.choice((0.5, 0.75)), "k": 2.0}
    scope.make("lrn", [x], size=scope.random.randint(1, 5), **attrs)


def resize(scope: Scope) -> None:
    """An image of other sizes."""
    mode = scope.random.choice(_MODES)
    x = _any_image(scope, ANY if mode == "nearest" else ("float",))
    dims = x.details.plain_dims
    shape = (*dims[:2], *(max(scope.size(), 1) for _ in dims[2:]))
    attrs: dict[str, Any] = {"coordinates": scope.random.choice(_COORDINATES)}
    if mode != "nearest" and scope.chance(0.3):
        attrs[scope.random.choice(("antialias", "exclude_outside"))] = True
    if math.prod(shape) <= scope.plan.max_elements:
        scope.make("resize", [x], shape=shape, mode=mode, **attrs)


_PAD = {"count_include_pad": True}
RECIPES: dict[str, Callable[[Scope], None]] = {
    "convolution": convolution,
    "convolution_transpose": convolution_transpose,
    "max_pool": partial(pool, name="max_pool", kinds=ANY, extra={}),
    "min_pool": partial(pool, name="min_pool", kinds=ANY, extra={}),
    "sum_pool": partial(pool, name="sum_pool", kinds=NUMBER, extra={}),
    "prod_pool": partial(pool, name="prod_pool", kinds=NUMBER, extra={}),
    "avg_pool": partial(pool, name="avg_pool", kinds=("float",), extra=_PAD),
    "lp_pool": partial(pool, name="lp_pool", kinds=("float",), extra={"p": 3}),
    "max_pool_indices": partial(pool, name="max_pool_indices", kinds=NUMBER, extra={}),
    "im2col": im2col,
    "lrn": lrn,
    "resize": resize,
}
