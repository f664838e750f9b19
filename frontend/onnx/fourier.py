"""DFT and STFT as a product with the transform matrix: quadratic in the length."""

from __future__ import annotations

import math

import numpy as np

from ...base.dtypes import S64
from ...graph_ir.ir.graph import Array, GraphTensor
from ..op_builder import Value
from .scope import Handler, NodeContext


def _matrix(length: int, given: int, parts: int, inverse: bool, onesided: bool) -> Array:
    """[given * parts, results * 2] from real and imaginary parts to those, or to the real ones [.., results * 1].

    Onesided, the forward transform gives the first half of the spectrum, and the inverse one takes it.
    """
    results = length // 2 + 1 if onesided and not inverse else length
    turns = np.outer(np.arange(given), np.arange(results)) % length
    angle = (2 if inverse else -2) * np.pi * turns / length
    scale = np.full((given, 1), 1 / length if inverse else 1.0)
    if inverse and onesided:  # the other half is the same, conjugated
        alone = [0, length // 2] if length % 2 == 0 else [0]
        scale *= np.where(np.isin(np.arange(given), alone), 1, 2)[:, None]
    real, imaginary = scale * np.cos(angle), scale * np.sin(angle)
    rows = [[real, imaginary], [-imaginary, real]][:parts]
    if inverse and onesided:
        rows = [row[:1] for row in rows]
    whole = np.array(rows)  # [part, result part, given, results]
    return whole.transpose(2, 0, 3, 1).reshape(given * parts, results * whole.shape[1])


def _transformed(
    node: NodeContext, x: GraphTensor, length: int, inverse: bool, onesided: bool
) -> GraphTensor:
    """[..., given, parts] transformed over the axis before the last."""
    *outer, given, parts = x.details.plain_dims
    node.check_array((given * parts, 2 * length))
    matrix = _matrix(length, given, parts, inverse, onesided)
    real = 1 if inverse and onesided else 2
    flat = node.reshaped(x, (math.prod(outer), given * parts))
    product = node.make("matmul_core", flat, node.constant(matrix, x.details.dtype))
    return node.reshaped(product, (*outer, matrix.shape[1] // real, real))


def _checked_parts(node: NodeContext, x: GraphTensor) -> None:
    dims = x.details.plain_dims
    if len(dims) < 2 or dims[-1] not in (1, 2) or not x.details.elements:
        raise node.rule("the last axis must hold a real or complex number", str(x.details))


def _one(node: NodeContext, index: int, what: str) -> int:
    given = node.ints(index, what)
    if len(given) != 1:
        raise node.rule(f"{what} must be one integer", str(list(given)))
    return given[0]


def _dft(node: NodeContext) -> Value:
    x = node.tensor(0)
    _checked_parts(node, x)
    rank = x.details.rank
    if node.opset < 20:
        axis = node.axis(node.attr_int("axis"), rank)
    else:
        axis = node.axis(_one(node, 2, "an axis") if node.has(2) else -2, rank)
    inverse, onesided = (node.attr_bool(name, 0) for name in ("inverse", "onesided"))
    half = inverse and onesided
    given = x.details.plain_dims[axis]
    length = _one(node, 1, "a length") if node.has(1) else (2 * (given - 1) if half else given)
    if axis == rank - 1 or length < 1:
        raise node.rule(
            "axis must not be the last one and the length 1 or more", f"{axis}, {length}"
        )
    order = [*(i for i in range(rank - 1) if i != axis), axis, rank - 1]
    x = node.transposed(x, order)
    wanted = length // 2 + 1 if half else length
    if given > wanted:
        x = node.sliced(x, rank - 2, 0, wanted)  # missing elements count as zeros
    result = _transformed(node, x, length, inverse, onesided)
    return node.transposed(result, [order.index(i) for i in range(rank)])


def _stft(node: NodeContext) -> Value:
    x = node.tensor(0)
    _checked_parts(node, x)
    step = _one(node, 1, "a frame step")
    if node.has(3):
        length = _one(node, 3, "a frame length")
    else:
        length = node.details(2).elements if node.has(2) else x.details.plain_dims[1]
    if x.details.rank != 3 or step < 1 or not 1 <= length <= x.details.plain_dims[1]:
        raise node.rule(
            "frames must fit into a signal [batch, length, parts] and their step be 1 or more",
            f"{x.details}, length {length}, step {step}",
        )
    count = (x.details.plain_dims[1] - length) // step + 1
    node.check_array((count, length))
    indices = np.arange(count)[:, None] * step + np.arange(length)
    frames = node.helper("gather", x, node.constant(indices, S64), axis=1)
    if node.has(2):
        window = node.reshaped(node.tensor(2), (length, 1))
        frames = node.helper("mul", frames, node.converted(window, x.details.dtype))
    return _transformed(node, frames, length, False, node.attr_bool("onesided"))


HANDLERS: dict[str, Handler] = {"DFT": _dft, "STFT": _stft}
