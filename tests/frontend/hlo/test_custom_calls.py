"""custom-call: what targets mean, and sizes that are set."""

from __future__ import annotations

import json

import ml_dtypes
import numpy as np
import pytest

import graphc
from support.hlo_text import module, one_op, run

RNG = np.random.default_rng(2)


def f32(*dims: int) -> np.ndarray:
    return RNG.standard_normal(dims).astype(np.float32)


X, Y, B, C = f32(2, 3, 4), f32(2, 5, 4), f32(5), f32(2, 3, 5)


def relu(x: np.ndarray) -> np.ndarray:
    return np.maximum(x, 0)


@pytest.mark.parametrize("form", ["fusions", "flat", "text"])
def test_matmuls_of_onednn(form: str) -> None:
    ops = ["BIAS", "BINARY_ADD", "LINEAR", "RELU"]
    half = int(np.float32(0.5).view(np.int32))
    fused = (
        {"ops": ops, "alpha_typecast": half}
        if form == "fusions"
        else {"fused_ops": ops, "alpha": 0.5}
    )
    matmul = {"transpose_b": True, **({"fusions": fused} if form == "fusions" else fused)}
    config = json.dumps({"outer_dimension_partitions": [], "onednn_matmul_config": matmul})
    written = json.dumps(config) if form == "text" else config
    operation = f'custom-call(p0, p1, p2, p3), custom_call_target="__onednn$matmul", backend_config={written}'
    text = one_op(["f32[2,3,4]", "f32[2,5,4]", "f32[5]", "f32[2,3,5]"], "f32[2,3,5]", operation)
    (z,) = run(text, X, Y, B, C)
    np.testing.assert_allclose(z, relu((X @ Y.swapaxes(1, 2) + B + C) / 2), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("result", ["f32", "bf16"])
@pytest.mark.parametrize("scaled", [False, True])
def test_matmuls_of_onednn_of_16_bits_have_the_written_type(result: str, scaled: bool) -> None:
    """Sums, and what is fused, in f32 where the result is f32."""
    half = int(np.float32(0.5).view(np.int32))
    matmul = {"fused_ops": ["LINEAR"], "alpha_typecast": half} if scaled else {"fused_ops": []}
    config = json.dumps({"onednn_matmul_config": matmul})
    a, b = (RNG.integers(-4, 5, dims).astype(ml_dtypes.bfloat16) for dims in ((4, 8), (8, 4)))
    text = one_op(
        ["bf16[4,8]", "bf16[8,4]"],
        f"({result}[4,4], u8[64])",
        f'custom-call(p0, p1), custom_call_target="__onednn$matmul", backend_config={config}',
    )
    y, _ = run(text, a, b)
    exact = a.astype(np.float32) @ b.astype(np.float32) * (0.5 if scaled else 1)
    np.testing.assert_array_equal(y, exact if result == "f32" else exact.astype(ml_dtypes.bfloat16))


@pytest.mark.parametrize(
    ("call", "names"), [("trsm", "side, uplo, trans_x, diag"), ("potrf", "uplo")]
)
def test_calls_of_lapack_without_their_letters_are_refused(call: str, names: str) -> None:
    """Calls printed by jaxlib before 0.8 do not say which half or which system is meant."""
    text = one_op(
        ["f32[4,4]", "f32[4,2]"],
        "f32[4,2]" if call == "trsm" else "(f32[4,4], s32[])",
        f'custom-call(p0, p1), custom_call_target="lapack_s{call}_ffi"',
    )
    with pytest.raises(graphc.UserError, match=f"its backend_config must give {names}, got no"):
        run(text)


@pytest.mark.parametrize("target", ["xla.sdy.FuncResultSharding", "xla.sdy.PropagationBarrier"])
def test_marks_of_sharding_are_identities(target: str) -> None:
    (y,) = run(one_op(["f32[5]"], "f32[5]", f'custom-call(p0), custom_call_target="{target}"'), B)
    np.testing.assert_array_equal(y, B)


def test_softmax_of_onednn_with_scratch_memory() -> None:
    config = '{"onednn_softmax_config":{"softmax_axis":1}}'
    text = one_op(
        ["f32[2,3,4]"],
        "(f32[2,3,4], u8[16])",
        f'custom-call(p0), custom_call_target="__onednn$softmax", backend_config={config}',
    )
    y, scratch = run(text, X)
    wanted = np.exp(X) / np.exp(X).sum(1, keepdims=True)
    np.testing.assert_allclose(y, wanted, rtol=1e-5)
    assert scratch.shape == (16,)


@pytest.mark.parametrize(
    ("config", "error", "message"),
    [
        (
            '{"onednn_matmul_config":{"weights_prepacked":true}}',
            graphc.UnsupportedError,
            "packed weights is not",
        ),
        (
            '{"onednn_matmul_config":{"fused_ops":["OTHER"]}}',
            graphc.UnsupportedError,
            "the fused operation OTHER",
        ),
        (
            '{"onednn_matmul_config":{"fused_ops":["BIAS"]}}',
            graphc.UserError,
            "BIAS must have an operand, got 2",
        ),
        ('"{"', graphc.UserError, "its backend_config must be JSON"),
        ("{}", graphc.UserError, "must be an object with onednn_matmul_config, got {}"),
    ],
)
def test_wrong_configurations(config: str, error: type[Exception], message: str) -> None:
    call = f'custom-call(p0, p1), custom_call_target="__onednn$matmul", backend_config={config}'
    with pytest.raises(error, match=message):
        run(one_op(["f32[2,3]", "f32[3,4]"], "f32[2,4]", call))


def test_unknown_targets() -> None:
    with pytest.raises(graphc.UnsupportedError, match="target 'Other' is not supported"):
        run(one_op(["f32[2]"], "f32[2]", 'custom-call(p0), custom_call_target="Other"'))


SIZED = """x = f32[8,2] parameter(0)
n = s32[] constant(5)
y = f32[<=8,2] set-dimension-size(x, n), dimensions={0}
z = f32[<=8,2] add(y, y)
m = s32[] get-dimension-size(z), dimensions={0}
ROOT t = (f32[<=8,2], s32[]) tuple(z, m)"""


def test_a_size_that_is_set_cuts_an_axis() -> None:
    x = f32(8, 2)
    z, m = run(module(SIZED), x)
    np.testing.assert_array_equal(z, 2 * x[:5])
    assert m == 5


@pytest.mark.parametrize(
    ("old", "new", "error", "message"),
    [
        (
            "constant(5)",
            "parameter(1)",
            graphc.UnsupportedError,
            "a size that depends on the model's inputs",
        ),
        (
            "constant(5)",
            "constant(9)",
            graphc.UserError,
            r"the size of axis 0 must be in \[0, 8\], got 9",
        ),
        (
            "y = f32[<=8,2]",
            "y = f32[8,2]",
            graphc.UserError,
            r"its shape must be f32\[5,2\], got f32\[8,2\]",
        ),
    ],
)
def test_wrong_sizes(old: str, new: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        run(module(SIZED.replace(old, new)))


_AXIS = ", 2, 0, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0"
DESCRIPTORS = {
    "FFT": f"20, 0, 0, 0, 0, 0, 14, 0, 16, 0, 8, 0, 0, 0, 0, 0, 12, 0, 7, 0, 14, 0, 0, 0, 0, 0, 0, 1{_AXIS}",
    "RFFT": f"20, 0, 0, 0, 0, 0, 14, 0, 16, 0, 8, 0, 0, 0, 6, 0, 12, 0, 7, 0, 14, 0, 0, 0, 0, 0, 2, 1{_AXIS}",
    "IRFFT": f"16, 0, 0, 0, 12, 0, 16, 0, 8, 0, 0, 0, 7, 0, 12, 0, 12, 0, 0, 0, 0, 0, 0, 1{_AXIS}",
}
"""Descriptors that jaxlib 0.4.20 writes for the last of two axes."""


def ducc_fft(word: str, scale: str = "") -> str:
    """A transform of p0, f32[3,n]; a complex operand is p0 + 2 p0 i."""
    bytes_, n = DESCRIPTORS[word], 5 if word == "IRFFT" else 8
    size = bytes_.count(",") + 1
    real = "f32[3,8]" if word == "IRFFT" else f"c64[3,{5 if word == 'RFFT' else 8}]"
    scale = scale or ("0.125" if word == "IRFFT" else "1")
    operand = "p0" if word == "RFFT" else "z"
    return f"""HloModule m
        ENTRY e {{
          p0 = f32[3,{n}] parameter(0)
          two = f32[] constant(2)
          twos = f32[3,{n}] broadcast(two), dimensions={{}}
          imag = f32[3,{n}] multiply(p0, twos)
          z = c64[3,{n}] complex(p0, imag)
          d = u8[{size}] constant({{{bytes_}}})
          s = s32[2] constant({{3, {n}}})
          f = f64[1] constant({{{scale}}})
          y = {real} custom-call(d, {operand}, s, s, s, f, s), custom_call_target="dynamic_ducc_fft"
          ROOT r = f32[3,{8 if word != "RFFT" else 5}] {"copy(y)" if word == "IRFFT" else "abs(y)"}
        }}"""


@pytest.mark.parametrize("word", DESCRIPTORS)
def test_transforms_of_old_jaxlib(word: str) -> None:
    x = f32(3, 5 if word == "IRFFT" else 8)
    z = x if word == "RFFT" else x + 2j * x
    by_numpy = getattr(np.fft, word.lower())(z)
    wanted = by_numpy if word == "IRFFT" else np.abs(by_numpy)
    (found,) = run(ducc_fft(word), x)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


def test_a_transform_of_another_scale_is_refused() -> None:
    with pytest.raises(graphc.UnsupportedError, match=r"a scale of 0\.5"):
        run(ducc_fft("FFT", "0.5"), f32(3, 8))
