"""fft: every kind and several lengths, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import graphc
from graphc.frontend.correspondence.compositions.fourier import DIRECT
from support.hlo_text import one_op, run

RNG = np.random.default_rng(9)
LONG = [2 * DIRECT, 3 * 53, 131, 2 * 131]
"""Two factors, uneven ones, a prime, and a factor that is a prime too large to be split."""


def signal(*dims: int) -> np.ndarray:
    return RNG.standard_normal(dims).astype(np.float32)


def transformed(kind: str, x: np.ndarray, y: np.ndarray, lengths: tuple[int, ...]) -> None:
    """Check the transform of x, which gives y."""
    shapes = [
        f"{'c64' if z.dtype.kind == 'c' else 'f32'}[{','.join(map(str, z.shape))}]" for z in (x, y)
    ]
    listed = ",".join(map(str, lengths))
    text = one_op(shapes[:1], shapes[1], f"fft(p0), fft_type={kind}, fft_length={{{listed}}}")
    inputs = [x.real.copy(), x.imag.copy()] if x.dtype.kind == "c" else [x]
    found = run(text, *inputs)
    result = found[0] if len(found) == 1 else found[0] + 1j * found[1]
    np.testing.assert_allclose(result, y, atol=2e-5 * max(1, np.abs(y).max()))


@pytest.mark.parametrize("n", [1, 2, 5, 8, *LONG])
def test_all_kinds_of_one_axis(n: int) -> None:
    x, z = signal(2, n), signal(2, n) + 1j * signal(2, n)
    half = np.fft.rfft(x)
    transformed("FFT", z, np.fft.fft(z), (n,))
    transformed("IFFT", z, np.fft.ifft(z), (n,))
    transformed("RFFT", x, half, (n,))
    transformed("IRFFT", half, np.fft.irfft(half, n), (n,))


def test_the_imaginary_parts_of_real_coefficients_do_not_count() -> None:
    half = signal(2, 5) + 1j * signal(2, 5)
    transformed("IRFFT", half, np.fft.irfft(half, 8), (8,))
    n = 2 * DIRECT
    half = signal(2, DIRECT + 1) + 1j * signal(2, DIRECT + 1)
    transformed("IRFFT", half, np.fft.irfft(half, n), (n,))


def test_several_axes() -> None:
    x, z = signal(2, 4, 6, 5), signal(2, 4, 5) + 1j * signal(2, 4, 5)
    half = np.fft.rfftn(x, axes=(1, 2, 3))
    transformed("RFFT", x, half, (4, 6, 5))
    transformed("IRFFT", half, x, (4, 6, 5))
    transformed("FFT", z, np.fft.fft2(z), (4, 5))
    transformed("IFFT", z, np.fft.ifft2(z), (4, 5))


@pytest.mark.parametrize(
    ("kind", "shape", "lengths", "message"),
    [
        ("FFT", "f32[4]", "4", "FFT must have a complex operand, got f32"),
        ("RFFT", "c64[4]", "4", "RFFT must have a real operand, got c64"),
        (
            "IRFFT",
            "c64[4]",
            "4",
            r"fft_length must be that of the last 1 to 3 axes of IRFFT, got \[4\] for \[4\]",
        ),
        ("FFT", "c64[2]", "2,2", r"got \[2, 2\] for \[2\]"),
        ("DCT", "c64[2]", "2", "fft_type must be one of FFT, IFFT, RFFT, IRFFT, got DCT"),
    ],
)
def test_wrong_transforms(kind: str, shape: str, lengths: str, message: str) -> None:
    text = one_op([shape], "c64[4]", f"fft(p0), fft_type={kind}, fft_length={{{lengths}}}")
    with pytest.raises(graphc.UserError, match=message):
        run(text)
