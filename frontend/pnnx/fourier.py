"""Fourier transforms of PyTorch, of real and complex tensors, and those of overlapping frames."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...base.dtypes import S64
from ...graph_ir.ir.graph import GraphTensor
from ..correspondence.compositions.complex_numbers import Complex, zeros
from ..correspondence.compositions.fourier import Spectrum, each, transformed
from ..correspondence.compositions.indexing import sliding_windows
from ..torch_calls.arithmetic import as_float
from ..torch_calls.complex_numbers import scaled, spectrum
from .scope import Handler, Node

NORMS = (None, "backward", "ortho", "forward")
_OPPOSITE = {None: "forward", "backward": "forward", "forward": "backward", "ortho": "ortho"}
"""The norm by which an inverse transform is a forward one of conjugates."""


def _value(node: Node, x: Spectrum) -> Any:
    return x.real if x.imag is None else Complex(x.real, x.imag)


def _fitted(node: Node, x: Spectrum, axis: int, size: int) -> Spectrum:
    """Cut off, or continued with zeros, to a size of an axis."""

    def fit(part: GraphTensor) -> GraphTensor:
        given, here = part.details.plain_dims[axis], range(part.details.rank)
        if given >= size:
            return node.sliced(part, axis, 0, size)
        after = tuple(size - given if i == axis else 0 for i in here)
        return node.helper("pad", part, before=(0,) * len(here), after=after, value=0.0)

    return each(x, fit)


def _conjugate(node: Node, x: Spectrum) -> Spectrum:
    return Spectrum(x.real, None if x.imag is None else node.helper("neg", x.imag))


def _scale(norm: str | None, count: int, inverse: bool) -> float:
    """Return the scale of a transform of `count` elements; an inverse one is divided by the count already."""
    forward = {"ortho": 1 / math.sqrt(count), "forward": 1 / count}.get(norm or "", 1.0)
    return forward if not inverse else 1 / forward if norm in ("ortho", "forward") else 1.0


def _along(
    node: Node, x: Spectrum, axis: int, length: int | None, inverse: bool, half: bool, norm: str | None
) -> Spectrum:  # fmt: skip
    """One axis; `half`: of a real signal, of whose spectrum there is the first half."""
    given = x.real.details.plain_dims[axis]
    to_real = inverse and half
    count = (2 * (given - 1) if to_real else given) if length is None else length
    if count < 1:
        raise node.rule("a transform must have a length of 1 or more", str(count))
    x = _fitted(node, x, axis, count // 2 + 1 if to_real else count)
    if to_real and x.imag is None:
        x = Spectrum(x.real, zeros(node, x.real))
    found = transformed(node, x, axis, count, inverse, half)
    return scaled(node, found, _scale(norm, count, inverse))


def _norm(node: Node) -> str | None:
    norm = node.argument("norm")
    if norm not in NORMS:
        raise node.rule("norm must be backward, ortho or forward", repr(norm))
    return norm if isinstance(norm, str) else None


def _one_axis(node: Node) -> Any:
    """fft, ifft, rfft, irfft, and hfft and ihfft, which are irfft and rfft of conjugates the other way round."""
    kind, norm = node.type.rpartition(".")[2].removeprefix("aten::fft_"), _norm(node)
    x, length = spectrum(node), node.argument("n")
    axis = node.axis(node.attr_int("dim", -1), x.real.details.rank)
    size = None if length is None else node.attr_int("n")
    if kind == "hfft":
        found = _along(node, _conjugate(node, x), axis, size, True, True, "forward")
        return _value(
            node, scaled(node, found, _scale(norm, found.real.details.plain_dims[axis], False))
        )
    if kind == "ihfft":
        count = size or x.real.details.plain_dims[axis]
        found = _conjugate(node, _along(node, x, axis, size, False, True, None))
        return _value(node, scaled(node, found, _scale(norm, count, True) / count))
    inverse, half = kind[0] == "i", "rfft" in kind
    return _value(node, _along(node, x, axis, size, inverse, half, norm))


def _several_axes(node: Node) -> Any:
    """fft2, fftn and their kind: a real transform halves the last axis, first of all or last of all.

    hfftn and ihfftn are irfftn and rfftn of conjugates the other way round.
    """
    kind, norm = node.type.rpartition(".")[2].removeprefix("aten::fft_"), _norm(node)
    x, is_hermitian = spectrum(node), "hf" in kind
    if is_hermitian:
        kind, norm = "rfft" if kind[0] == "i" else "irfft", _OPPOSITE[norm]
        x = _conjugate(node, x)
    rank = x.real.details.rank
    sizes = list(node.attr_ints("s")) if node.given("s") else None
    if node.given("dim"):
        axes = [node.axis(axis, rank) for axis in node.attr_ints("dim")]
    elif node.type.endswith("2"):
        axes = [rank - 2, rank - 1]
    else:
        axes = list(range(rank - len(sizes), rank)) if sizes else list(range(rank))
    lengths: list[int | None] = [None if n == -1 else n for n in sizes or [-1] * len(axes)]
    if not axes or len(lengths) != len(axes) or min(axes) < 0:
        raise node.rule("s and dim must have as many elements", f"{sizes} and {axes}")
    inverse, half = kind[0] == "i", "rfft" in kind
    order = list(zip(axes, lengths, strict=True))
    for axis, length in order if inverse else reversed(order):
        x = _along(node, x, axis, length, inverse, half and axis == axes[-1], norm)
    return _value(node, _conjugate(node, x) if is_hermitian else x)


def _shifted(node: Node) -> Any:
    """The zero frequency in the middle, or back."""
    value: Any = node.argument("input")
    parts = [value.real, value.imag] if isinstance(value, Complex) else [node.tensor_of()]
    rank, back = parts[0].details.rank, "ifftshift" in node.type
    axes = node.attr_ints("dim") if node.given("dim") else range(rank)
    for axis in (node.axis(axis, rank) for axis in axes):
        size = parts[0].details.plain_dims[axis]
        rolled = np.roll(np.arange(size), -(size // 2) if back else size // 2)
        index = node.constant(rolled, S64)
        parts = [node.helper("gather", part, index, axis=axis) for part in parts]
    return parts[0] if len(parts) == 1 else Complex(*parts)


# Transforms of overlapping frames.


def _frames_of(node: Node) -> tuple[int, int]:
    """(n_fft, hop_length)."""
    size = node.attr_int("n_fft")
    hop = node.attr_int("hop_length") if node.given("hop_length") else size // 4
    if size < 1 or hop < 1:
        raise node.rule("n_fft and hop_length must be 1 or more", f"{size} and {hop}")
    return size, hop


def _window(node: Node, size: int, like: GraphTensor) -> GraphTensor:
    """The window in the middle of `size` elements; ones where none is given."""
    width = node.attr_int("win_length") if node.given("win_length") else size
    dtype = like.details.dtype
    if node.given("window"):
        window = node.tensor_of("window", dtype)
    else:
        window = node.constant(np.ones(width), dtype)
    if window.details.plain_dims != (width,) or width > size:
        raise node.rule(f"the window must have {width} elements", str(window.details))
    left = (size - width) // 2
    if width == size:
        return window
    return node.helper("pad", window, before=(left,), after=(size - width - left,), value=0.0)


def _stft(node: Node) -> Any:
    """[..., frequencies, frames] of a signal [..., samples]."""
    size, hop = _frames_of(node)
    x = as_float(node, node.tensor_of())
    rank, middle = x.details.rank, size // 2
    mode = node.attr_text("pad_mode", "reflect")
    if node.attr_bool("center", True):
        before = (*(0,) * (rank - 1), middle)
        how = {"reflect": "reflect", "replicate": "edge", "constant": "constant"}.get(mode)
        if how is None:
            raise node.unsupported(f"pad_mode={mode}")
        x = node.helper("pad", x, before=before, after=before, mode=how)
    frames = sliding_windows(node, x, rank - 1, size, hop)
    frames = node.helper("mul", frames, _window(node, size, x))
    half = node.attr_bool("onesided", True)
    found = transformed(node, Spectrum(frames, None), rank, size, False, half)
    found = scaled(node, found, 1 / math.sqrt(size) if node.attr_bool("normalized", False) else 1)
    assert found.imag is not None
    turn = (*range(rank - 1), rank, rank - 1)
    parts = [node.transposed(part, turn) for part in (found.real, found.imag)]
    if node.attr_bool("return_complex", True):
        return Complex(*parts)
    parts = [node.reshaped(part, (*part.details.plain_dims, 1)) for part in parts]
    return node.helper("concat", *parts, axis=rank + 1)


def _added(node: Node, frames: GraphTensor, hop: int) -> GraphTensor:
    """[B, samples] of frames [B, T, size] that begin every `hop` samples: pieces as long as a step, added in place."""
    batch, count, size = frames.details.plain_dims
    pieces = -(-size // hop)
    whole = (0, 0, pieces * hop - size)
    padded = node.helper("pad", frames, before=(0, 0, 0), after=whole, value=0.0)
    cut = node.reshaped(padded, (batch, count, pieces, hop))
    total: GraphTensor | None = None
    for i in range(pieces):
        piece = node.reshaped(node.sliced(cut, 2, i, 1), (batch, count, hop))
        around = ((0, i, 0), (0, pieces - 1 - i, 0))
        placed = node.helper("pad", piece, before=around[0], after=around[1], value=0.0)
        total = placed if total is None else node.helper("add", total, placed)
    assert total is not None
    flat = node.reshaped(total, (batch, (count + pieces - 1) * hop))
    return node.sliced(flat, 1, 0, size + hop * (count - 1))


def _istft(node: Node) -> Any:
    """The signal: frames times the window, added, over the sum of the squared windows."""
    value: Any = node.argument("input")
    if not isinstance(value, Complex) or node.attr_bool("return_complex", False):
        raise node.unsupported("a result of complex numbers, or an input of real ones,")
    size, hop = _frames_of(node)
    if not node.attr_bool("onesided", True):
        raise node.unsupported("onesided=False")
    *outer, bins, count = value.real.details.plain_dims
    if bins != size // 2 + 1 or len(outer) > 1:
        raise node.rule(f"there must be {size // 2 + 1} frequencies", str(value.real.details))
    dims, turn = (math.prod(outer), bins, count), (0, 2, 1)
    real, imag = (
        node.transposed(node.reshaped(part, dims), turn) for part in (value.real, value.imag)
    )
    scale = math.sqrt(size) if node.attr_bool("normalized", False) else 1
    frames = scaled(node, transformed(node, Spectrum(real, imag), 2, size, True, True), scale).real
    window = _window(node, size, real)
    square = node.broadcast(node.helper("mul", window, window), (1, count, size))
    sums = (_added(node, node.helper("mul", frames, window), hop), _added(node, square, hop))
    first = size // 2 if node.attr_bool("center", True) else 0
    most = sums[0].details.plain_dims[1] - first
    length = node.attr_int("length") if node.given("length") else most - first
    cut = [node.sliced(part, 1, first, min(length, most)) for part in sums]
    found = node.helper("div", *cut)
    after = (0, max(0, length - most))
    if any(after):
        found = node.helper("pad", found, before=(0, 0), after=after, value=0.0)
    return node.reshaped(found, (*outer, length))


def _handlers(names: Sequence[str], handler: Handler) -> dict[str, Handler]:
    return {f"{prefix}{name}": handler for name in names for prefix in ("torch.fft.", "aten::fft_")}


HANDLERS: dict[str, Handler] = {
    **_handlers(("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"), Handler(_one_axis, ("input", "n", "dim", "norm"))),
    **_handlers(
        [f"{kind}{n}" for kind in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft") for n in "2n"],
        Handler(_several_axes, ("input", "s", "dim", "norm")),
    ),
    **_handlers(("fftshift", "ifftshift"), Handler(_shifted, ("input", "dim"))),
    "torch.stft": Handler(_stft, ("input", "window")),
    "torch.istft": Handler(_istft, ("input", "window")),
}  # fmt: skip
