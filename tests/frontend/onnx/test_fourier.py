"""DFT against NumPy's transforms, of lengths that cut and extend the input."""

import numpy as np
import pytest

from graphc.base.errors import UserError
from support.onnx_models import evaluate, model, node

F = np.float32


def transformed(x, length=None, **attributes):
    weights = {"n": np.array(length or 0), "axis": np.array(1)}
    proto = model([node("DFT", f"x {'n' if length else '-'} axis", **attributes)],
                  {"x": x.shape}, weights, opset=20)  # fmt: skip
    return evaluate(proto, {"x": x})[0]


def parts(z):
    return np.stack([z.real, z.imag], -1)


@pytest.mark.parametrize("length", [None, 5, 12])
@pytest.mark.parametrize("inverse", [0, 1])
def test_complex(inverse, length):
    x = np.random.default_rng(0).normal(0, 1, (2, 8, 3, 2)).astype(F)
    numpy = np.fft.ifft if inverse else np.fft.fft
    wanted = parts(numpy(x[..., 0] + 1j * x[..., 1], length, 1))
    np.testing.assert_allclose(transformed(x, length, inverse=inverse), wanted, atol=1e-5)


@pytest.mark.parametrize("length", [None, 5, 12])
def test_half_a_spectrum(length):
    x = np.random.default_rng(1).normal(0, 1, (2, 8, 3, 1)).astype(F)
    wanted = parts(np.fft.rfft(x[..., 0], length, 1))
    np.testing.assert_allclose(transformed(x, length, onesided=1), wanted, atol=1e-5)


@pytest.mark.parametrize("length", [None, 5, 7, 12])
def test_back_from_half_a_spectrum(length):
    x = np.random.default_rng(2).normal(0, 1, (2, 5, 3, 2)).astype(F)
    wanted = np.fft.irfft(x[..., 0] + 1j * x[..., 1], length, 1)[..., None]
    result = transformed(x, length, onesided=1, inverse=1)
    np.testing.assert_allclose(result, wanted, atol=1e-5)


@pytest.mark.parametrize(("onesided", "inverse"), [(0, 0), (1, 0), (0, 1), (1, 1)])
def test_long_transforms_go_through_the_factors_of_their_length(onesided, inverse):
    rng, n = np.random.default_rng(3), 300
    given = n // 2 - 20 if onesided and inverse else n - 20  # the rest counts as zeros
    x = rng.normal(0, 1, (2, given, 2, 1 if onesided and not inverse else 2)).astype(F)
    z = x[..., 0] if x.shape[-1] == 1 else x[..., 0] + 1j * x[..., 1]
    name = f"{'i' * inverse}{'r' * onesided}fft"
    y = getattr(np.fft, name)(z, n, 1)
    wanted = y[..., None] if onesided and inverse else parts(y)
    result = transformed(x, n, onesided=onesided, inverse=inverse)
    np.testing.assert_allclose(result, wanted, atol=1e-4)


def test_rejects_the_axis_of_parts():
    proto = model([node("DFT", "x - axis")], {"x": (4, 2)}, {"axis": np.array(-1)}, opset=20)
    with pytest.raises(UserError, match="axis must not be the last one"):
        evaluate(proto, {"x": np.zeros((4, 2), F)})
