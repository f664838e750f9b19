"""Opcodes on bit patterns: bitcast-convert of any widths, and reduce-precision."""

from __future__ import annotations

import numpy as np

from ...base.dtypes import BF16, BOOL, F16, F32, F64, DType, by_name
from ...graph_ir.ir.graph import GraphTensor
from .scope import Handler, Step

_LAYOUT = {F64: (11, 52), F32: (8, 23), F16: (5, 10), BF16: (8, 7)}
"""Bits of exponent and mantissa."""


def word(dtype: DType) -> DType:
    """The unsigned type of a type's width."""
    return by_name(f"u{dtype.bits}")


def bitcast(step: Step, x: GraphTensor, dtype: DType) -> GraphTensor:
    """The bits of x as another type of its width; x itself where it has it."""
    return x if x.details.dtype == dtype else step.make("bitcast", x, dtype=dtype.name)


def _bitcast_convert(step: Step) -> GraphTensor:
    """Narrower elements add a new last axis, low bits first; wider ones remove it."""
    x, target = step.tensor(0), step.dtype
    source = x.details.dtype
    if BOOL in (source, target) and source != target:
        raise step.unsupported(f"reading {source} as {step.shape.type}")
    if source.bits == target.bits or step.is_mapped:
        return bitcast(step, x, target)
    bits = bitcast(step, x, word(source))
    if source.bits > target.bits:
        shifts = np.arange(source.bits // target.bits) * target.bits
        wide = step.reshaped(bits, (*x.details.plain_dims, 1))
        parts = step.make("shr", wide, step.constant(shifts, word(source)))
        return bitcast(step, step.cast(parts, word(target)), target)
    shifts = np.arange(target.bits // source.bits) * source.bits
    wide = step.cast(bits, word(target))
    parts = step.make("shl", wide, step.constant(shifts, word(target)))
    last = x.details.rank - 1
    return bitcast(step, step.make("reduce_sum", parts, axes=(last,), keep_dims=False), target)


def _reduce_precision(step: Step) -> GraphTensor:
    """Fewer bits of mantissa, halves to even; exponents that are too large give inf, too small ones 0 of x's sign."""
    x, exponent = step.tensor(0), step.typed("exponent_bits", int)
    mantissa = step.typed("mantissa_bits", int)
    if exponent < 1 or mantissa < 0:
        raise step.fail(
            f"it must keep an exponent and no negative mantissa, got {exponent} and {mantissa} bits"
        )
    exponents, places = layout = _LAYOUT[x.details.dtype]
    pattern = result = bitcast(step, x, word(x.details.dtype))
    if mantissa < places:
        result = _rounded(step, result, places - mantissa)
    if exponent < exponents:
        result = _limited(step, result, exponent, layout)
    if result is pattern:
        return x
    number = bitcast(step, result, x.details.dtype)
    return step.make("select", step.make("isnan", x), x, number)


def _rounded(step: Step, pattern: GraphTensor, dropped: int) -> GraphTensor:
    """The lowest `dropped` bits rounded away; a carry out of the mantissa counts up the exponent."""
    dtype = pattern.details.dtype
    shifted = step.make("shr", pattern, step.constant(dropped, dtype))
    last = step.make("and", shifted, step.constant(1, dtype))
    half = step.constant((1 << dropped - 1) - 1, dtype)
    total = step.make("add", pattern, step.make("add", last, half))
    return step.make("and", total, step.constant((1 << dtype.bits) - (1 << dropped), dtype))


def _limited(
    step: Step, pattern: GraphTensor, exponent: int, layout: tuple[int, int]
) -> GraphTensor:
    dtype = pattern.details.dtype
    exponents, places = layout
    bias, least = (1 << exponents - 1) - 1, (1 << exponent - 1) - 1
    mask = ((1 << exponents) - 1) << places
    size = step.make("and", pattern, step.constant(mask, dtype))
    sign = step.make("and", pattern, step.constant(1 << dtype.bits - 1, dtype))
    infinite = step.make("or", sign, step.constant(mask, dtype))
    above = step.make("gt", size, step.constant(bias + least << places, dtype))
    below = step.make("le", size, step.constant(bias - least << places, dtype))
    return step.make("select", below, sign, step.make("select", above, infinite, pattern))


BITS: dict[str, Handler] = {
    "bitcast-convert": _bitcast_convert,
    "reduce-precision": _reduce_precision,
}
"""Opcode to handler."""
