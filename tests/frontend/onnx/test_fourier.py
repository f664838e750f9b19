"""DFT against NumPy's transforms, of lengths that cut and extend the input."""

import numpy as np
import pytest
from onnx import helper

from graphc.base.errors import UserError
from graphc.driver.compiler import compile_stages
from graphc.frontend.correspondence.compositions.fourier import MANY_ROWS, smooth
from support.onnx_models import evaluate, model, node

F = np.float32


def transformed(x, length=None, **attributes):
    weights = {"n": np.array(length or 0), "axis": np.array(1)}
    proto = model([node("DFT", f"x {'n' if length else '-'} axis", **attributes)],
                  {"x": x.shape}, weights, opset=20,
                  dtypes={"x": helper.np_dtype_to_tensor_dtype(x.dtype)})  # fmt: skip
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


@pytest.mark.parametrize("n", [300, 401, 2 * 401, 1601])
@pytest.mark.parametrize(("onesided", "inverse"), [(0, 0), (1, 0), (0, 1), (1, 1)])
def test_long_transforms_go_through_the_factors_of_their_length(onesided, inverse, n):
    """Also through a convolution where a factor is a large prime."""
    rng = np.random.default_rng(3)
    given = n // 2 - 20 if onesided and inverse else n - 20  # the rest counts as zeros
    x = rng.normal(0, 1, (2, given, 2, 1 if onesided and not inverse else 2)).astype(F)
    z = x[..., 0] if x.shape[-1] == 1 else x[..., 0] + 1j * x[..., 1]
    name = f"{'i' * inverse}{'r' * onesided}fft"
    y = getattr(np.fft, name)(z, n, 1)
    wanted = y[..., None] if onesided and inverse else parts(y)
    result = transformed(x, n, onesided=onesided, inverse=inverse)
    np.testing.assert_allclose(result, wanted, atol=1e-4)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rows", [1, MANY_ROWS])
def test_errors_do_not_grow_with_large_prime_lengths(dtype, rows):
    x = np.random.default_rng(4).normal(0, 1, (rows, 4099, 1)).astype(dtype)
    wanted = parts(np.fft.fft(x[..., 0].astype(np.float64)))
    error = np.abs(transformed(x) - wanted).max() / np.abs(wanted).max()
    assert error < 12 * np.finfo(dtype).eps


@pytest.mark.parametrize("n", [1, 2, 7, 131, 401, 1601, 4099, 100_003])
def test_lengths_of_convolutions_have_small_factors(n):
    size = smooth(2 * n - 1)
    assert 2 * n - 1 <= size < 1.2 * (2 * n - 1) + 2
    for prime in (2, 3, 5):
        while size % prime == 0:
            size //= prime
    assert size == 1


def test_constants_of_a_large_prime_length_are_linear_in_it():
    proto = model([node("DFT", "x")], {"x": (1, 4099, 1)}, {}, opset=20)
    artifact = compile_stages(proto, "avx2").artifact
    assert artifact.constants.nbytes < 64 * 4099 * 4


@pytest.mark.parametrize("inverse", [0, 1])
@pytest.mark.parametrize(
    ("shape", "length"), [((0, 8, 2), 8), ((0, 1009, 1), 1009), ((2, 0, 1), 16)]
)
def test_signals_without_elements(shape, length, inverse):
    x = np.zeros(shape, F)
    wanted = np.zeros((shape[0], length, 2), F)
    np.testing.assert_array_equal(transformed(x, length, inverse=inverse), wanted)


def test_rejects_the_axis_of_parts():
    proto = model([node("DFT", "x - axis")], {"x": (4, 2)}, {"axis": np.array(-1)}, opset=20)
    with pytest.raises(UserError, match="axis must not be the last one"):
        evaluate(proto, {"x": np.zeros((4, 2), F)})
