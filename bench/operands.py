"""Inputs of workloads: their types, and random values for given sizes of dynamic dimensions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..base.aligned_memory import aligned_copy
from ..base.block_types import BlockType
from ..base.dims import Size, evaluate
from ..base.dtypes import DType
from ..base.records import dataclass
from ..frontend.shape_spec import parse_spec
from ..graph_ir.inspect.experts import sorted_experts
from ..runtime.abi import ALIGNMENT
from .cases import Array

SMALL_BYTE = 48
"""A scale of one byte, in each of the encodings below 1."""


@dataclass(frozen=True)
class Operand:
    """An input: its type and dims. Floats are normal, integers any of their type.

    `experts`: where it names the expert of each row, their number; rows are sorted by it, as models sort them.
    `limits`: the least and the largest of its integers, both inclusive, where these are not any.
    """

    dtype: DType
    dims: tuple[Size, ...]
    experts: int = 0
    limits: tuple[int, int] | None = None

    @classmethod
    def of(cls, text: str, *limits: int) -> Operand:
        """Return the operand of a type as text, `s64[B,S]`, with the limits of its integers, if given."""
        spec = parse_spec(text)
        return cls(spec.dtype, spec.dims, limits=limits or None)  # type: ignore[arg-type]

    def values(self, sizes: Mapping[str, int], rng: np.random.Generator) -> Array:
        """Return random values for these sizes, aligned to cache lines."""
        shape = tuple(evaluate(dim, sizes) for dim in self.dims)
        if self.experts:
            values = sorted_experts(shape[0], self.experts)
        elif self.limits:
            values = rng.integers(*self.limits, shape, self.dtype.numpy, endpoint=True)
        else:
            values = random_values(self.dtype, shape, rng)
        return aligned_copy(values, ALIGNMENT)

    def __str__(self) -> str:
        return f"{self.dtype}[{','.join(map(_ranged, self.dims))}]"


def random_values(dtype: DType, shape: Sequence[int], rng: np.random.Generator) -> Array:
    """Normal values; of bytes, all there are; of wider integers, which may be indices, 0 and 1."""
    if dtype.kind == "bool" or (not dtype.is_float and dtype.bits > 8):
        return rng.integers(0, 2, shape).astype(dtype.numpy)
    if dtype.is_float:
        return rng.standard_normal(shape, dtype=np.float32).astype(dtype.numpy)
    low, high = (-128, 128) if dtype.is_signed else (0, 256)
    return rng.integers(low, high, shape).astype(dtype.numpy)


def _ranged(dim: Size) -> str:
    """Return a dimension as `compile(inputs=)` takes it: 64, or m=1..512."""
    if isinstance(dim, int):
        return str(dim)
    (symbol,) = dim.symbols
    return f"{symbol.name}={symbol.least}..{symbol.most}"


def random_blocks(kind: BlockType, rows: int, k: int, scale: float = 1 / 64) -> Array:
    """Return rows of blocks, u8 [rows, bytes], of random levels and small scales, so that results are finite."""
    blocks = np.random.default_rng(0).integers(
        0, 256, (rows * k // kind.elements, kind.size), np.uint8
    )
    for factor in (kind.scale, kind.minimum):
        if factor is not None:
            floats = factor.floats
            is_half = floats.decode is None
            value = scale if factor.of_group is None else scale / 32  # times the factor of a group
            small = np.full(floats.count, value, "<f2").view(np.uint8) if is_half else SMALL_BYTE
            size = floats.count * np.dtype(floats.dtype).itemsize
            blocks[:, floats.offset : floats.offset + size] = small
    return blocks.reshape(rows, -1)
