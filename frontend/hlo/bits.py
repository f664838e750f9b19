"""Opcodes on bit patterns: bitcast, bitcast-convert of any widths, and reduce-precision."""

from __future__ import annotations

import numpy as np

from ...base.dtypes import BF16, BOOL, F16, F32, F64, DType, by_name
from ...graph_ir.ir.graph import GraphTensor, Op
from ..correspondence.reading import Pair
from .frame import Value, Writer
from .scope import Handler, Step

_LAYOUT = {F64: (11, 52), F32: (8, 23), F16: (5, 10), BF16: (8, 7)}
"""Bits of exponent and mantissa."""


def word(dtype: DType) -> DType:
    """The unsigned type of a type's width."""
    return by_name(f"u{dtype.bits}")


def bitcast(step: Step, x: GraphTensor, dtype: DType) -> GraphTensor:
    """The bits of x as another type of its width; x itself where it has it."""
    return x if x.details.dtype == dtype else step.make("bitcast", x, dtype=dtype.name)


def total_order(step: Step, x: GraphTensor) -> GraphTensor:
    """Signed integers in the total order of floats, from -NaN by -0 and +0 to NaN; integers return unchanged."""
    dtype = by_name(f"s{x.details.dtype.bits}")
    return _magnitude_folded(step, bitcast(step, x, dtype)) if x.details.dtype.is_float else x


def from_total_order(step: Step, keys: GraphTensor, dtype: DType) -> GraphTensor:
    """The values whose integers in the total order are `keys`."""
    return bitcast(step, _magnitude_folded(step, keys), dtype) if dtype.is_float else keys


def _magnitude_folded(step: Step, x: GraphTensor) -> GraphTensor:
    """Negative integers with all bits but the sign inverted, which is its own inverse."""
    zero, ones = (
        step.constant(number, x.details.dtype) for number in (0, x.details.dtype.limits[1])
    )
    return step.make("select", step.make("lt", x, zero), step.make("xor", x, ones), x)


def same_width(step: Step) -> GraphTensor:
    """Elements read as another type of their width."""
    (x,), target = step.tensors(1), step.dtype
    source = x.details.dtype
    if source != target and (BOOL in (source, target) or source.bits != target.bits):
        raise step.unsupported(f"reading {source} as {step.shape.type}")
    return bitcast(step, x, target)


def _check_bits(step: Step, x: GraphTensor) -> None:
    bits = x.details.elements * x.details.dtype.bits, step.shape.size * step.dtype.bits
    if bits[0] != bits[1] and BOOL not in (x.details.dtype, step.dtype):
        raise step.fail(f"{step.shown(x)} and {step.shape.logical()} must have as many bits")


def _bitcast(step: Step) -> GraphTensor:
    """Reinterpret the physical buffer: permute axes to memory order, reshape, and permute back."""
    _check_bits(step, step.tensor(0))
    x, source = same_width(step), step.operand_shape(0)
    memory = step.transposed(x, source.minor_to_major[::-1])
    order = step.shape.minor_to_major[::-1]
    flat = step.reshaped(memory, [step.shape.dims[axis] for axis in order])
    return step.transposed(flat, [order.index(axis) for axis in range(len(order))])


def _bitcast_convert(step: Step, _: str = "") -> GraphTensor:
    """Narrower elements add a new last axis, low bits first; wider ones remove it."""
    (x,), target = step.tensors(1), step.dtype
    source = x.details.dtype
    if source.bits == target.bits or BOOL in (source, target) or step.is_mapped:
        return same_width(step)
    _check_bits(step, x)
    bits = bitcast(step, x, word(source))
    if source.bits > target.bits:
        shifts = np.arange(source.bits // target.bits) * target.bits
        wide = step.reshaped(bits, (*x.details.plain_dims, 1))
        parts = step.make("shr", wide, step.constant(shifts, word(source)))
        return bitcast(step, step.converted(parts, word(target)), target)
    shifts = np.arange(target.bits // source.bits) * source.bits
    wide = step.converted(bits, word(target))
    parts = step.make("shl", wide, step.constant(shifts, word(target)))
    last = x.details.rank - 1
    return bitcast(step, step.make("reduce_sum", parts, axes=(last,), keep_dims=False), target)


def _reduce_precision(step: Step) -> GraphTensor:
    """Reduce the mantissa, ties to even; exponents that are too large give inf, too small ones 0 of x's sign."""
    (x,) = step.tensors(1)
    if not x.details.dtype.is_float:
        raise step.rule("its operand must be a float", step.shown(x))
    exponent, mantissa = step.attribute("exponent_bits"), step.attribute("mantissa_bits")
    if exponent < 1 or mantissa < 0:
        rule = "it must keep an exponent and no negative mantissa"
        raise step.rule(rule, f"{exponent} and {mantissa} bits")
    exponents, fraction_bits = layout = _LAYOUT[x.details.dtype]
    pattern = result = bitcast(step, x, word(x.details.dtype))
    if mantissa < fraction_bits:
        result = _rounded(step, result, fraction_bits - mantissa)
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
    exponents, fraction_bits = layout
    bias, least = (1 << exponents - 1) - 1, (1 << exponent - 1) - 1
    mask = ((1 << exponents) - 1) << fraction_bits
    size = step.make("and", pattern, step.constant(mask, dtype))
    sign = step.make("and", pattern, step.constant(1 << dtype.bits - 1, dtype))
    infinite = step.make("or", sign, step.constant(mask, dtype))
    above = step.make("gt", size, step.constant(bias + least << fraction_bits, dtype))
    below = step.make("le", size, step.constant(bias - least << fraction_bits, dtype))
    return step.make("select", below, sign, step.make("select", above, infinite, pattern))


def _write_bitcast(writer: Writer, op: Op, opcode: str) -> Value:
    return writer.emit(op, opcode, [("x", writer.operand(op.inputs[0]))], {})


PAIRS = {"bitcast": Pair(_bitcast_convert, _write_bitcast)}
HANDLERS: dict[str, Handler] = {"bitcast": _bitcast, "reduce-precision": _reduce_precision}
