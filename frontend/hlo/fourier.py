"""fft, forward and inverse, of complex and of real arrays."""

from __future__ import annotations

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


HANDLERS: dict[str, Handler] = {"fft": _fft}
