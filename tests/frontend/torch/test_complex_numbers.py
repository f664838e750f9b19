"""Complex numbers and Fourier transforms of PyTorch between real inputs and results, against PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphc
from graphc.frontend import load
from support.dynamo import fresh, torch  # noqa: F401

pytestmark = pytest.mark.filterwarnings("ignore")  # of torch, about itself


def spectrogram(x: Any) -> Any:
    z = torch.stft(x, 16, 5, window=torch.hann_window(16), return_complex=True)
    return z.abs() ** 2, torch.view_as_real(z), z.angle().cos()


def and_back(x: Any) -> Any:
    window = torch.hann_window(16)
    return torch.istft(
        torch.stft(x, 16, 4, window=window, return_complex=True), 16, 4, window=window
    )


def filtered(x: Any) -> Any:
    """Convolved in the frequency domain, over lengths that are even and odd."""
    n = x.shape[-1] + 5
    spectrum = torch.fft.rfft(x, n=n) * torch.fft.rfft(torch.ones(6), n=n)
    return torch.fft.irfft(spectrum, n=n), torch.fft.irfft(spectrum[..., :9], norm="forward")


def planes(x: Any) -> Any:
    z = torch.fft.fft2(x.view(2, 8, 8), norm="ortho")
    rotated = torch.fft.ifft2(z.conj() / (1 + 2j), norm="ortho")
    whole = torch.fft.fftn(x.view(2, 8, 8), dim=(0, 2))
    return rotated.imag, rotated.real, torch.fft.hfft(whole, n=8).flatten(1), whole.sum(1).abs()


def rotated(x: Any) -> Any:
    """Positions as rotations, and matmuls of complex matrices, of real ones and both."""
    z = torch.view_as_complex(x.view(2, 8, 4, 2))
    y = z * torch.polar(torch.ones(8, 4), torch.arange(32.0).view(8, 4))
    matmul = y.transpose(1, 2) @ z + (y.mT @ x.view(2, 8, 8)[..., :4].to(torch.complex64))
    return torch.view_as_real(y).flatten(2), matmul.real, torch.exp(matmul * 0.1j).abs()


@pytest.mark.exhaustive
@pytest.mark.parametrize("function", [spectrogram, and_back, filtered, planes, rotated])
def test_functions(function: Callable[[Any], Any]) -> None:
    class Model(torch.nn.Module):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            return function(x)

    x = torch.randn(2, 64)
    wanted = torch.utils._pytree.tree_leaves(function(x))
    found = load(torch.export.export(Model(), (x,))).evaluate([x.numpy()])
    for mine, theirs in zip(found, wanted, strict=True):
        assert mine.shape == tuple(theirs.shape)
        np.testing.assert_allclose(mine, theirs.numpy(), rtol=1e-3, atol=1e-4)


def test_complex_numbers_that_leave_the_graph() -> None:
    """torch.compile leaves them to PyTorch, exported programs are refused."""

    class Model(torch.nn.Module):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            return torch.fft.rfft(x) * 2

    model, x = Model(), torch.randn(2, 9)
    torch.testing.assert_close(torch.compile(model, backend=graphc.torch.backend)(x), model(x))
    with pytest.raises(graphc.UnsupportedError, match="'output', a result of complex numbers"):
        load(torch.export.export(model, (x,)))


def test_constants_are_pairs_too() -> None:
    class Model(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("turn", torch.polar(torch.ones(4), torch.arange(4.0)))

        def forward(self, x: Any) -> Any:
            return torch.view_as_real(torch.view_as_complex(x.view(-1, 4, 2)) * self.turn)

    model, x = Model(), torch.randn(3, 8)
    options = {"strict": True}
    fast = torch.compile(model, backend=graphc.torch.backend, options=options)
    torch.testing.assert_close(fast(x), model(x))
