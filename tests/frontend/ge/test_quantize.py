"""Quantized matmuls of GE's dumps against NumPy: exact sums, scales of either form, every way to round."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.base.errors import UnsupportedError, UserError
from support.ge_dumps import RETURN, const, node, run

RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((3, 8)).astype(np.float32) * 20


def rounded(x, round_mode="Round", scale=0.5, offset=1.0):
    how = {"Round": np.rint, "Floor": np.floor, "Ceil": np.ceil, "Trunc": np.trunc}[round_mode]
    return np.clip(how(x * np.float32(scale) + np.float32(offset)), -128, 127).astype(np.int8)


@pytest.mark.parametrize("mode", ["Round", "Floor", "Ceil", "Trunc"])
def test_quantization(mode: str) -> None:
    """Halves after the offset is added, numbers beyond the range, and the root of the scale."""
    x = np.array([0.0, 1.0, -1.0, 3.0, 5.0, 999.0, -999.0], np.float32)
    attrs = f'scale: 0.5, offset: 1.0, round_mode: "{mode}"'
    (got,) = run(node("AscendQuant", "x=%x", attrs) + RETURN, {"x": "f32[7]"}, x)
    assert got.dtype == np.int8
    np.testing.assert_array_equal(got, rounded(x, mode))
    (root,) = run(
        node("AscendQuant", "x=%x", attrs + ", sqrt_mode: true") + RETURN, {"x": "f32[7]"}, x
    )
    np.testing.assert_array_equal(root, rounded(x, mode, 0.25))


def test_back_to_floats() -> None:
    x = np.arange(-4, 4, dtype=np.int8)
    lines = node("AscendAntiQuant", "x=%x", "scale: 0.25, offset: -3.0") + RETURN
    (got,) = run(lines, {"x": "s8[8]"}, x)
    np.testing.assert_array_equal(got, (x - np.float32(3)) * np.float32(0.25))


@pytest.mark.parametrize("kind", ["floats", "bits"])
def test_a_matmul_of_bytes(kind: str) -> None:
    """Floats, bytes, sums in s32, floats: scales are f32, or those bits in u64."""
    w = RANDOM.integers(-128, 128, (8, 5)).astype(np.int8)
    scale = abs(RANDOM.standard_normal(5)).astype(np.float32)
    given = scale if kind == "floats" else scale.view(np.uint32).astype(np.uint64)
    lines = (
        node("AscendQuant", "x=%x", "scale: 2.0, offset: 0.0", "q")
        + const("w", "@w") + const("s", "@s")
        + node("MatMulV2", "x1=%q, x2=%w", name="m")
        + node("AscendDequant", "x=%m, deq_scale=%s", "relu_flag: true") + RETURN
    )  # fmt: skip
    (got,) = run(lines, {"x": "f32[3,8]"}, X, constants={"w": w, "s": given})
    sums = rounded(X, scale=2.0, offset=0.0).astype(np.int32) @ w.astype(np.int32)
    np.testing.assert_array_equal(got, np.maximum(sums.astype(np.float32) * scale, 0))


def test_a_convolution_of_bytes() -> None:
    x = RANDOM.integers(-128, 128, (1, 3, 4, 4)).astype(np.int8)
    w = RANDOM.integers(-128, 128, (2, 3, 1, 1)).astype(np.int8)
    scale = np.array([0.5, 2.0], np.float32)
    attrs = 'strides: {1, 1, 1, 1}, pads: {0, 0, 0, 0}, data_format: "NCHW"'
    lines = (
        node("Conv2D", "x=%x, filter=%w", attrs, "c")
        + node("AscendDequant", "x=%c, deq_scale=%s") + RETURN
    )  # fmt: skip
    sizes = {"x": "s8[1,3,4,4]", "w": "s8[2,3,1,1]", "s": "f32[2]"}
    (got,) = run(lines, sizes, x, w, scale)
    sums = np.einsum("nchw,oc->nohw", x.astype(np.int32), w[:, :, 0, 0].astype(np.int32))
    np.testing.assert_array_equal(got, sums.astype(np.float32) * scale[:, None, None])


def test_what_is_refused() -> None:
    sizes = {"x": "f32[7]"}
    with pytest.raises(UnsupportedError, match="round_mode Up"):
        run(
            node("AscendQuant", "x=%x", 'scale: 1.0, offset: 0.0, round_mode: "Up"') + RETURN, sizes
        )
    with pytest.raises(UserError, match="one entry, or one per channel"):
        lines = node("AscendDequant", "x=%x, deq_scale=%y") + RETURN
        run(lines, {"x": "s32[1,4,2,4]", "y": "f32[4]"})
