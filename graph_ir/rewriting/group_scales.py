"""Constant matmul weights that are dequantized integers: the integers, and scales per group of k."""

from __future__ import annotations

import numpy as np

from ...base.dtypes import F32
from ...base.records import dataclass
from ..ir.graph import Array, GraphTensor, Op
from ..ops.contraction_types import is_byte
from ..ops.quantize import Dequantize
from .values import constant_value

_MOVES = ("reshape", "slice", "transpose")

LARGEST_GROUP, SMALLEST_GROUP = 4096, 16
"""Groups that are looked for, beside all of k; they are powers of two."""


@dataclass(frozen=True)
class GroupedWeights:
    """(numbers [n, k] - zero [n, groups]) * scale [n, groups]; numbers are below 2**bits.

    `group` k share a scale, the last of a row perhaps fewer. `zero` is [1, 1] where it is one number.
    """

    numbers: Array
    scale: Array
    zero: Array
    bits: int
    group: int


def grouped_weights(tensor: GraphTensor, transposed: bool) -> GroupedWeights | None:
    """Return the integers and scales of a float matrix [k, n] ([n, k] if `transposed`); None if it is not made of
    constant bytes."""
    moves: list[Op] = []
    while tensor.producer_owner.op_name in _MOVES:
        moves.append(tensor.producer_owner)
        tensor = tensor.producer_owner.inputs[0]
    source = tensor.producer_owner
    if not isinstance(source, Dequantize) or tensor.details.dtype != F32:
        return None
    given = [constant_value(x) for x in source.inputs]
    known = [value for value in given if value is not None]
    if len(known) < len(given) or not is_byte(source.x.details.dtype):
        return None
    if len(known) < 3:
        known.append(np.zeros((), known[0].dtype))
    arrays = [np.broadcast_to(value, known[0].shape) for value in known]
    for op in reversed(moves):
        arrays = [op.reference([array])[0] for array in arrays]
    numbers, scale, zero = arrays if transposed else [array.T for array in arrays]
    if numbers.ndim != 2 or not numbers.size:
        return None
    return _of_groups(numbers.astype(np.int16), scale, zero.astype(np.int16))


def _of_groups(numbers: Array, scale: Array, zero: Array) -> GroupedWeights | None:
    if not np.all(np.isfinite(scale)):
        return None
    group = _group(scale, zero)
    if group is None:
        return None
    low, high = int(numbers.min()), int(numbers.max())
    bits = 4 if high - low < 16 else 8
    offset = low if bits == 4 else min(low, 0)
    zeros = (zero[:, ::group] - offset).astype(np.float32)
    one = zeros.flat[0]
    whole = np.full((1, 1), one, np.float32) if np.all(zeros == one) else zeros
    scales = np.ascontiguousarray(scale[:, ::group], np.float32)
    return GroupedWeights((numbers - offset).astype(np.uint8), scales, whole, bits, group)


def _group(scale: Array, zero: Array) -> int | None:
    """The longest run of k that share their parameters, in every column."""
    k = scale.shape[1]
    power = LARGEST_GROUP
    sizes = [k]
    while power >= SMALLEST_GROUP:
        sizes += [power] if power < k else []
        power //= 2
    return next((size for size in sizes if _shares(scale, size) and _shares(zero, size)), None)


def _shares(values: Array, size: int) -> bool:
    """Return whether all values of each run of `size` are equal."""
    k = values.shape[1]
    first = np.repeat(values[:, ::size], size, axis=1)[:, :k] if size < k else values[:, :1]
    return bool(np.all(values == first))
