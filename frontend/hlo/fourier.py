"""fft, forward and inverse, of complex and of real arrays."""

from __future__ import annotations

import math
from typing import Any

from ..correspondence.compositions.complex_numbers import Complex
from ..correspondence.compositions.fourier import Spectrum, transformed
from .scope import Handler, Step
from .values import shape_of

_TYPES = ("FFT", "IFFT", "RFFT", "IRFFT")


def _fft(step: Step) -> Any:
    """Over the last axes, as many as fft_length has; a real transform halves the last one."""
    step.count(1)
    word, lengths = step.word("fft_type"), step.attribute("fft_length")
    if word not in _TYPES:
        raise step.rule(f"fft_type must be one of {', '.join(_TYPES)}", word or "none")
    (x,) = step.operands
    if isinstance(x, Complex) == (word == "RFFT"):
        kind = "real" if word == "RFFT" else "complex"
        raise step.rule(f"{word} must have a {kind} operand", shape_of(x).logical())
    parts = Spectrum(x.real, x.imag) if isinstance(x, Complex) else Spectrum(step.tensor(0), None)
    dims = parts.real.details.plain_dims
    wanted = list(lengths)
    if word == "IRFFT" and lengths:
        wanted[-1] = lengths[-1] // 2 + 1
    if not 1 <= len(lengths) <= 3 or list(dims[len(dims) - len(lengths) :]) != wanted:
        raise step.rule(
            f"fft_length must be that of the last 1 to 3 axes of {word}",
            f"{[*lengths]} for {[*dims]}",
        )
    order = range(len(dims) - len(lengths), len(dims))
    is_inverse = word[0] == "I"
    halves = {len(dims) - 1} if "R" in word else set()
    for axis in order if is_inverse else reversed(order):
        length = lengths[axis - order.start]
        parts = transformed(step, parts, axis, length, is_inverse, axis in halves)
    return parts.real if parts.imag is None else Complex(parts.real, parts.imag)


def ducc_fft(step: Step) -> Any:
    """Read the call of jaxlib 0.4.2: a descriptor, x, its sizes and strides, those of the result, a scale.

    The descriptor is a table of a flat buffer: the number of axes, the element type, the kind (complex, to real, from
    real), the transformed axes, which are the last, and whether the transform is forward.
    """
    descriptor, scale = (step.known(step.operands[i]) for i in (0, 5))
    if descriptor is None or scale is None:
        raise step.rule(
            "its descriptor and scale must be constants", "some that the model computes"
        )
    data = descriptor.tobytes()

    def number(at: int, size: int = 4) -> int:
        return int.from_bytes(data[at : at + size], "little")

    root = number(0)
    table = root - number(root)

    def position(field: int) -> int:
        entry = 4 + 2 * field
        return root + (number(table + entry, 2) if entry < number(table, 2) else 0)

    kind, forward = (number(at, 1) if at > root else 0 for at in map(position, (2, 4)))
    axes = position(3)
    dims = step.tensors()[1].details.plain_dims if kind == 2 else step.shape.dims
    lengths = list(dims[len(dims) - number(axes + number(axes)) :])
    if not math.isclose(scale.item(), 1 if forward else 1 / math.prod(lengths), rel_tol=1e-6):
        raise step.unsupported(f"a scale of {scale.item():g}")
    word = f"{'' if forward else 'I'}{'R' if kind else ''}FFT"
    shape, operands = step.instruction.shape, step.operands[1:2]
    return _fft(step.instead("fft", shape, operands, fft_type=word, fft_length=lengths))


HANDLERS: dict[str, Handler] = {"fft": _fft}
