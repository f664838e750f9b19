"""DFT and STFT as matmuls with the matrix of the transform if it is short; mel frequencies."""

from __future__ import annotations

import math

import numpy as np

from ...graph_ir.ir.graph import GraphTensor
from ..correspondence.compositions.fourier import Spectrum, is_direct, matrix, transformed
from ..correspondence.compositions.indexing import sliding_windows
from ..op_builder import Value
from .scope import Handler, NodeContext
from .tensors import to_dtype


def _transformed(
    node: NodeContext, x: GraphTensor, length: int, inverse: bool, onesided: bool
) -> GraphTensor:
    """[..., given, parts] transformed over the axis before the last."""
    *outer, given, parts = x.details.plain_dims
    real = 1 if inverse and onesided else 2
    if not is_direct(length, math.prod(outer)):
        return _in_factors(node, x, length, inverse, onesided)
    whole = matrix(length, given, inverse, onesided)[:parts]  # parts are neighbors here
    columns = whole.shape[3] * whole.shape[1]
    flat = whole.transpose(2, 0, 3, 1).reshape(given * parts, columns)
    node.check_array(flat.shape)
    rows = node.reshaped(x, (math.prod(outer), given * parts))
    matmul = node.make("matmul_core", rows, node.constant(flat, x.details.dtype))
    return node.reshaped(matmul, (*outer, columns // real, real))


def _in_factors(
    node: NodeContext, x: GraphTensor, length: int, inverse: bool, onesided: bool
) -> GraphTensor:
    *outer, given, parts = x.details.plain_dims
    axis, wanted = len(outer), length // 2 + 1 if inverse and onesided else length
    if given < wanted:
        after = tuple(wanted - given if i == axis else 0 for i in range(len(outer) + 2))
        x = node.helper("pad", x, before=(0,) * len(after), after=after)
    split = [node.reshaped(node.sliced(x, axis + 1, i, 1), (*outer, wanted)) for i in range(parts)]
    imag = split[1] if parts == 2 else None
    if imag is None and inverse and onesided:
        imag = node.helper("mul", split[0], node.constant(0, x.details.dtype))
    result = transformed(node, Spectrum(split[0], imag), axis, length, inverse, onesided)
    found = [part for part in (result.real, result.imag) if part is not None]
    wide = [node.reshaped(part, (*part.details.plain_dims, 1)) for part in found]
    return wide[0] if len(wide) == 1 else node.make("concat", *wide, axis=axis + 1)


def _checked_parts(node: NodeContext, x: GraphTensor) -> None:
    dims = x.details.plain_dims
    if len(dims) < 2 or dims[-1] not in (1, 2):
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
    if x.details.rank != 3 or length < 1:
        raise node.rule(
            "the signal must be [batch, length, parts] and frames have elements",
            f"{x.details}, length {length}",
        )
    frames = node.transposed(sliding_windows(node, x, 1, length, step), (0, 1, 3, 2))
    if node.has(2):
        window = node.reshaped(node.tensor(2), (length, 1))
        frames = node.helper("mul", frames, node.converted(window, x.details.dtype))
    return _transformed(node, frames, length, False, node.attr_bool("onesided"))


def _mel_weights(node: NodeContext) -> Value:
    """[bins of a spectrum, mel bins]: triangles over bins that lie evenly on the mel scale; all inputs are known."""
    what = ("num_mel_bins", "dft_length", "sample_rate", "lower_edge_hertz", "upper_edge_hertz")
    bins, length, rate, *edges = (
        float(node.array(i, name).reshape(())) for i, name in enumerate(what)
    )
    if min(bins, length, rate) < 1 or not 0 <= edges[0] < edges[1]:
        rule = "bins, length and rate must be positive, and the lower edge below the upper one"
        raise node.rule(rule, f"{bins:g}, {length:g}, {rate:g}, {edges}")
    node.check_array((int(length) // 2 + 1, int(bins)))
    low, high = (2595 * math.log10(1 + edge / 700) for edge in edges)
    mels = np.arange(bins + 2) * ((high - low) / (bins + 2)) + low
    corners = (length + 1) * (700 * (10 ** (mels / 2595) - 1)) // rate
    lower, center, upper = corners[:-2], corners[1:-1], corners[2:]
    at = np.arange(int(length) // 2 + 1)[:, None]
    rising = (at - lower) / np.maximum(center - lower, 1)
    rising = np.where(center == lower, at == center, rising)
    falling = (upper - at) / np.maximum(upper - center, 1)
    has_fall = (center <= at) & (at < upper)
    found = np.where((lower <= at) & (at <= center), rising, 0)
    dtype = to_dtype(f"MelWeightMatrix '{node.name}'", node.attr_int("output_datatype"))
    return np.where(has_fall, falling, found).astype(dtype.numpy)


HANDLERS: dict[str, Handler] = {"DFT": _dft, "MelWeightMatrix": _mel_weights, "STFT": _stft}
