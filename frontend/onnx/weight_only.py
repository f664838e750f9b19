"""Matmuls and lookups with weights of 4 or 8 bits with a scale per block, and activations of floats."""

from __future__ import annotations

import math

import numpy as np

from ...base.dtypes import U8
from ...graph_ir.ir.graph import Array, GraphTensor
from ..op_builder import Value, like
from .quantize import shaped
from .scope import Handler, NodeContext

ROUNDS_ACTIVATIONS = 4
"""The accuracy_level of MatMulNBits at which activations may be rounded to 8 bits."""


def _unpacked(packed: Array, bits: int) -> Array:
    """Bytes as numbers of `bits` bits along a last axis that is 8 / bits times as long, the lowest bits first."""
    if bits == 8:
        return packed
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    parts = (packed[..., None] >> shifts) & np.uint8((1 << bits) - 1)
    return parts.reshape(*packed.shape[:-1], packed.shape[-1] * len(shifts))


def unpacked(node: NodeContext, index: int, dims: tuple[int, ...], bits: int) -> GraphTensor:
    """Return the numbers of 2, 4 or 8 bits in the bytes of input `index`, u8 [*dims, numbers]; a constant stays one."""
    known = node.known(index)
    if known is not None:
        return node.constant(_unpacked(known.reshape(*dims, -1).view(np.uint8), bits), U8)
    packed = node.tensor(index)
    size = packed.details.elements // max(math.prod(dims), 1)
    packed = node.reshaped(packed, (*dims, size, 1))
    if bits < 8:
        shifts = np.arange(0, 8, bits, dtype=np.uint8)
        packed = node.helper("shr", packed, node.constant(shifts, U8))
        packed = node.helper("and", packed, node.constant((1 << bits) - 1, U8))
    return node.reshaped(packed, (*dims, size * (8 // bits)))


def _weights(node: NodeContext, rows: int, terms: int, bits: int, block: int) -> GraphTensor:
    """The weights [N, K] of a MatMulNBits as floats."""
    blocks = -(-terms // block)
    packed = node.details(1)
    if bits not in (2, 4, 8) or packed.elements * (8 // bits) != rows * blocks * block:
        raise node.rule(
            f"B must hold {rows} rows of {blocks} blocks of {block} numbers of 2, 4 or 8 bits",
            f"{list(packed.plain_dims)}, {bits} bits",
        )
    numbers, middle = unpacked(node, 1, (rows,), bits), _zero_points(node, rows, blocks, bits)
    scale = shaped(node, 2, (rows, blocks, 1))
    if node.has(4):
        return _of_groups(node, node.sliced(numbers, 1, 0, terms), scale, middle)
    x = node.reshaped(numbers, (rows, blocks, block))
    whole = dequantized(node, x, scale, middle)
    return node.sliced(node.reshaped(whole, (rows, blocks * block)), 1, 0, terms)


def _of_groups(
    node: NodeContext, numbers: GraphTensor, scale: GraphTensor, middle: GraphTensor
) -> GraphTensor:
    """Weights [N, K] whose column k has the scale and the zero point of block g_idx[k]."""
    rows, terms = numbers.details.plain_dims
    group = node.sliced(node.reshaped(node.tensor(4), (node.details(4).elements,)), 0, 0, terms)
    scale, middle = (
        node.helper("gather", node.reshaped(x, x.details.plain_dims[:2]), group, axis=1)
        if x.details.elements > 1
        else node.reshaped(x, (1, 1))
        for x in (scale, middle)
    )
    return dequantized(node, numbers, scale, middle)


def dequantized(
    node: NodeContext, x: GraphTensor, scale: GraphTensor, middle: GraphTensor
) -> GraphTensor:
    """Return (x - middle) * scale of numbers in bytes; `middle` may be of the type of the scale."""
    if middle.details.dtype == U8:
        return node.helper("dequantize", x, scale, middle)
    return node.helper(
        "mul", node.helper("sub", node.converted(x, scale.details.dtype), middle), scale
    )


def _zero_points(node: NodeContext, rows: int, blocks: int, bits: int) -> GraphTensor:
    """[N or 1, blocks or 1, 1]: packed like the weights, of the type of the scales, or the middle of the range."""
    if not node.has(3):
        return middle_of(node, bits, 3)
    if node.details(3).dtype != U8:
        return shaped(node, 3, (rows, blocks, 1))
    middle = node.sliced(unpacked(node, 3, (rows,), bits), 1, 0, blocks)
    return node.reshaped(middle, (rows, blocks, 1))


def middle_of(node: NodeContext, bits: int, rank: int) -> GraphTensor:
    """Return the zero point that a file leaves out, with that many axes of one element."""
    return node.constant(np.full((1,) * rank, 1 << (bits - 1)), U8)


def _matmul_bits(node: NodeContext) -> Value:
    rows, terms = node.attr_int("N"), node.attr_int("K")
    if node.attr_int("weight_prepacked", 0):
        raise node.unsupported(
            f"weight_prepacked={node.attr_int('weight_prepacked')}, a layout of weights for one GPU",
            "export it with weight_prepacked=0",
        )
    x = node.tensor(0)
    dims = x.details.plain_dims
    if 0 in node.details(1).plain_dims:  # a projection that the file omits
        zeros = like(node, 0, x)
        y = node.helper("broadcast", zeros, shape=(*dims[:-1], rows))
        return node.make("add", y, node.tensor(5)) if node.has(5) else y
    w = _weights(node, rows, terms, node.attr_int("bits", 4), node.attr_int("block_size"))
    flat = node.reshaped(x, (x.details.elements // max(dims[-1], 1), dims[-1]))
    rounds = node.attr_int("accuracy_level", 0) == ROUNDS_ACTIVATIONS
    attrs = {"transpose_b": True, "activation_bits": 8 if rounds else 0}
    y = node.helper("matmul_core", flat, node.converted(w, x.details.dtype), **attrs)
    y = node.reshaped(y, (*dims[:-1], rows))
    return node.make("add", y, node.tensor(5)) if node.has(5) else y


def _gather_blocks(node: NodeContext) -> Value:
    """Rows of weights as floats; bytes hold two numbers along the last axis where they are of 4 bits."""
    data, scales = node.array(0, "data"), node.array(2, "scales")
    bits, rank = node.attr_int("bits", 4), data.ndim
    is_packed, dtype = data.dtype == np.uint8 and bits < 8, node.details(0).dtype.accumulator
    numbers = _unpacked(data, bits) if is_packed else data.astype(dtype.numpy)
    axis = node.axis(node.attr_int("quantize_axis", 1), rank)
    block = node.attr_int("block_size", 128)
    middle = np.full((1,) * rank, 0 if dtype.is_signed else 1 << bits - 1, dtype.numpy)
    if node.has(3):
        given = node.array(3, "zero points")
        middle = _unpacked(given, bits) if is_packed else given.astype(dtype.numpy)
        middle = _per_element(middle, axis, block, numbers.shape)
    whole = node.helper(
        "dequantize",
        node.constant(numbers, dtype),
        node.constant(_per_element(scales, axis, block, numbers.shape), node.details(2).dtype),
        node.constant(middle, dtype),
    )
    gathered_axis = node.axis(node.attr_int("gather_axis", 0), rank)
    return node.make("gather", whole, node.tensor(1), axis=gathered_axis)


def _per_element(blocks: Array, axis: int, block: int, shape: tuple[int, ...]) -> Array:
    return np.repeat(blocks, block, axis).take(np.arange(shape[axis]), axis)


HANDLERS: dict[str, Handler] = {
    "com.microsoft::MatMulNBits": _matmul_bits,
    "com.microsoft::GatherBlockQuantized": _gather_blocks,
}
