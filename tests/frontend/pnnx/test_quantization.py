"""Bytes as PyTorch rounds them: what lies half way, and beside it, between two of them is decided as it decides."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

from graphc import compile
from support.pnnx_models import run_operator, write_model

SCALES = (0.0625, 0.1, 0.037, 0.3)


def halves(scale: float) -> np.ndarray:
    """Numbers half way between multiples of the scale, their neighbors, and others."""
    steps = np.random.default_rng(0).integers(-300, 300, 400).astype(np.float32)
    x = (steps + np.float32(0.5)) * np.float32(scale)
    return np.concatenate([x, np.nextafter(x, np.float32(1e9)), steps * np.float32(0.4321 * scale)])


def quantized(x: torch.Tensor, scale: float, zero: int, dtype: torch.dtype) -> torch.Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecated in PyTorch
        return torch.quantize_per_tensor(x, scale, zero, dtype)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize(
    ("zero", "dtype", "number"), [(0, "quint8", 13), (3, "quint8", 13), (-7, "qint8", 12)]
)
def test_per_tensor(scale: float, zero: int, dtype: str, number: int, tmp_path: Path) -> None:
    x = halves(scale)
    lines = [
        "pnnx.Input x 0 1 x #x=(1200)f32",
        f"aten::quantize_per_tensor q 1 1 x q scale={scale} zero_point={zero} dtype={number}",
        "torch.dequantize d 1 1 q d", "pnnx.Output o 1 0 q", "pnnx.Output p 1 0 d",
    ]  # fmt: skip
    expected = quantized(torch.from_numpy(x), scale, zero, getattr(torch, dtype))
    with compile(write_model(tmp_path, lines), threads=1) as model:
        integers, floats = model(x)
    np.testing.assert_array_equal(integers, expected.int_repr().numpy())
    np.testing.assert_array_equal(floats, expected.dequantize().numpy())


@pytest.mark.parametrize("name", ["quantize", "fake_quantize"])
def test_per_channel(name: str, tmp_path: Path) -> None:
    x = np.stack([halves(scale) for scale in SCALES], 1)
    scales, zeros = torch.tensor(SCALES), torch.tensor([0, 3, 50, 255], dtype=torch.int32)
    weights = {"a.data": scales.numpy(), "b.data": zeros.numpy()}
    attributes = ["pnnx.Attribute a 0 1 s @data=(4)f32", "pnnx.Attribute b 0 1 z @data=(4)i32"]
    if name == "quantize":
        given, call = (
            torch.from_numpy(x),
            "torch.quantize_per_channel q 3 1 x s z y axis=1 dtype=13",
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected = torch.quantize_per_channel(given, scales, zeros, 1, torch.quint8).int_repr()
    else:
        call = (
            "torch.fake_quantize_per_channel_affine q 3 1 x s z y axis=1 quant_min=0 quant_max=255"
        )
        expected = torch.fake_quantize_per_channel_affine(
            torch.from_numpy(x), scales, zeros, 1, 0, 255
        )
    lines = ["pnnx.Input x 0 1 x #x=(1200,4)f32", *attributes, call, "pnnx.Output o 1 0 y"]
    with compile(write_model(tmp_path, lines, weights), threads=1) as model:
        np.testing.assert_array_equal(model(x), expected.numpy())


@pytest.mark.parametrize("scale", SCALES)
def test_rounded_to_bytes_and_back(scale: float, tmp_path: Path) -> None:
    x = halves(scale)
    line = f"torch.fake_quantize_per_tensor_affine scale={scale} zero_point=3 quant_min=0 quant_max=255"
    (y,) = run_operator(tmp_path, line, [x])
    expected = torch.fake_quantize_per_tensor_affine(torch.from_numpy(x), scale, 3, 0, 255)
    np.testing.assert_array_equal(y, expected.numpy())
