"""The caches of a decoder: keys and values of every layer, their types and sizes; those of bytes have scales."""

from __future__ import annotations

from ...base.dims import Size
from ...base.dtypes import F32, S8, DType
from ...base.records import dataclass
from ...graph_ir.ir.graph import GraphTensor
from ..op_builder import OpBuilder
from .config import DecoderConfig

GROUP = 32
"""Elements of a head that share a scale, where they divide it."""

MAX_LEVEL, MIN_SCALE = 127, 1e-30
"""Largest byte, and the smallest scale: that of zeros."""


@dataclass(frozen=True)
class Cache:
    """`name` is that of `past_NAME` and `present_NAME`; `size`: elements of a token and head.

    `is_local`: the layer has a window, and needs no older tokens.
    """

    name: str
    dtype: DType
    size: int
    is_local: bool

    @property
    def past(self) -> str:
        """Return the name of the input."""
        return f"past_{self.name}"

    @property
    def present(self) -> str:
        """Return the name of the output."""
        return f"present_{self.name}"


def caches(config: DecoderConfig, dtype: DType) -> list[Cache]:
    """Return all caches in the order of inputs: keys of layer 0, their scales where they are bytes, values."""
    found = []
    for layer in range(config.layers):
        is_local = config.keeps_window(layer)
        for kind, size in (("key", config.key_size), ("value", config.value_size)):
            found.append(Cache(f"{kind}_{layer}", dtype, size, is_local))
            if dtype == S8:
                found.append(Cache(f"{kind}_scale_{layer}", F32, groups(size), is_local))
    return found


def groups(size: int) -> int:
    """Return the scales of a head of `size` elements."""
    return size // GROUP if size % GROUP == 0 else 1


def rounded(build: OpBuilder, x: GraphTensor, dtype: DType) -> list[GraphTensor]:
    """Return x f32 [1, heads, T, size] as caches keep it: in their type, and scales f32 [1, heads, T, groups] of s8."""
    if dtype != S8:
        return [build.converted(x, dtype)]
    dims: tuple[Size, ...] = x.details.plain_dims
    count = groups(int(dims[-1]))
    apart = build.reshaped(x, (*dims[:-1], count, int(dims[-1]) // count))
    most = build.helper("reduce_max", build.helper("abs", apart), axes=(4,), keep_dims=True)
    scale = build.helper("mul", most, build.constant(1 / MAX_LEVEL, F32))
    scale = build.helper("max", scale, build.constant(MIN_SCALE, F32))
    levels = build.helper(
        "round_saturate",
        build.helper("div", apart, scale),
        dtype="s8",
        low=-MAX_LEVEL,
        high=MAX_LEVEL,
    )
    return [build.reshaped(levels, dims), build.reshaped(scale, (*dims[:-1], count))]
