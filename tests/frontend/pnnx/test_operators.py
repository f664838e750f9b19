"""Every family of operators against formulas written with NumPy, through the references of the graph."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphc.graph_ir.ir.graph import Array
from support.pnnx_models import run_operator
from support.tolerance import assert_close

F = np.float32
ERF = np.vectorize(math.erf)


def floats(*shape: int, seed: int = 0, dtype: Any = np.float32) -> Array:
    return (np.random.default_rng(seed).random(shape) * 8 - 4).astype(dtype)


def ints(*shape: int, seed: int = 0, dtype: Any = np.int64) -> Array:
    return np.random.default_rng(seed).integers(-9, 10, shape).astype(dtype)


X, Y, V = floats(2, 6, 4), floats(2, 6, 4, seed=1), floats(4, seed=2)
K, L = ints(2, 6, 4), ints(2, 6, 4, seed=1)
B = X > 0


def wide(*arrays: Array) -> list[Array]:
    return [a.astype(np.float64) if a.dtype.kind == "f" else a for a in arrays]


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def softmax(x: Any, axis: int) -> Any:
    powers = np.exp(x - x.max(axis, keepdims=True))
    return powers / powers.sum(axis, keepdims=True)


def gelu(x: Any) -> Any:
    return x / 2 * (1 + ERF(x / np.sqrt(2)))


ACTIVATIONS: dict[str, Callable[..., Any]] = {
    "nn.ReLU": lambda x: np.maximum(x, 0),
    "F.relu": lambda x: np.maximum(x, 0),
    "nn.ReLU6": lambda x: np.clip(x, 0, 6),
    "F.relu6": lambda x: np.clip(x, 0, 6),
    "nn.Sigmoid": sigmoid,
    "F.sigmoid": sigmoid,
    "nn.Tanh": np.tanh,
    "F.tanh": np.tanh,
    "nn.SiLU": lambda x: x * sigmoid(x),
    "F.silu": lambda x: x * sigmoid(x),
    "F.mish": lambda x: x * np.tanh(np.log1p(np.exp(x))),
    "F.hardswish": lambda x: x * np.clip(x / 6 + 0.5, 0, 1),
    "nn.Hardsigmoid": lambda x: np.clip(x / 6 + 0.5, 0, 1),
    "nn.Hardtanh": lambda x: np.clip(x, -1, 1),
    "nn.Hardtanh min_val=-2.0 max_val=0.5": lambda x: np.clip(x, -2, 0.5),
    "F.softsign": lambda x: x / (1 + np.abs(x)),
    "F.selu": lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x)),
    "nn.LeakyReLU": lambda x: np.where(x > 0, x, 0.01 * x),
    "F.leaky_relu negative_slope=0.25": lambda x: np.where(x > 0, x, 0.25 * x),
    "nn.RReLU lower=0.25 upper=0.75": lambda x: np.where(x > 0, x, 0.5 * x),
    "nn.ELU alpha=2.0": lambda x: np.where(x > 0, x, 2 * np.expm1(x)),
    "nn.CELU alpha=2.0": lambda x: np.where(x > 0, x, 2 * np.expm1(x / 2)),
    "nn.GELU": gelu,
    "F.gelu approximate=none": gelu,
    "F.gelu approximate=tanh": lambda x: (
        x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    ),
    "nn.Softplus": lambda x: np.log1p(np.exp(x)),
    "F.softplus beta=2.0 threshold=20.0": lambda x: np.log1p(np.exp(2 * x)) / 2,
    "F.softplus beta=2.0 threshold=3.0": lambda x: np.where(
        2 * x > 3, x, np.log1p(np.exp(2 * x)) / 2
    ),
    "nn.LogSigmoid": lambda x: -np.log1p(np.exp(-x)),
    "nn.Tanhshrink": lambda x: x - np.tanh(x),
    "F.hardshrink lambd=1.0": lambda x: np.where(np.abs(x) > 1, x, 0),
    "nn.Softshrink lambd=1.0": lambda x: np.sign(x) * np.maximum(np.abs(x) - 1, 0),
    "nn.Threshold threshold=1.0 value=-7.0": lambda x: np.where(x > 1, x, -7),
    "nn.Softmax dim=-1": lambda x: softmax(x, 2),
    "nn.Softmax": lambda x: softmax(x, 0),
    "F.softmax dim=1 dtype=torch.float": lambda x: softmax(x, 1),
    "F.log_softmax dim=0": lambda x: np.log(softmax(x, 0)),
    "nn.Softmin dim=2": lambda x: softmax(-x, 2),
    "nn.Softmax2d": lambda x: softmax(x, 0),
    "nn.GLU dim=1": lambda x: x[:, :3] * sigmoid(x[:, 3:]),
    "nn.Dropout p=0.5": lambda x: x,
    "F.dropout p=0.5 training=False": lambda x: x,
    "nn.Identity": lambda x: x,
}

REDUCTIONS: dict[str, Callable[..., Any]] = {
    "torch.sum": np.sum,
    "torch.sum dim=(0,2) keepdim=False": lambda x: x.sum((0, 2)),
    "torch.sum dim=-1 keepdim=True": lambda x: x.sum(-1, keepdims=True),
    "torch.mean dim=(1) keepdim=False": lambda x: x.mean(1),
    "torch.prod dim=1": lambda x: x.prod(1),
    "torch.amax dim=(-1,-2)": lambda x: x.max((1, 2)),
    "torch.amin dim=0": lambda x: x.min(0),
    "torch.max": np.max,
    "torch.min dim=1": lambda x: x.min(1),
    "torch.argmax dim=1 keepdim=True": lambda x: x.argmax(1)[:, None],
    "torch.argmin": np.argmin,
    "torch.logsumexp dim=2": lambda x: np.log(np.exp(x).sum(2)),
    "torch.norm p=2 dim=1": lambda x: np.sqrt((x * x).sum(1)),
    "torch.norm p=fro": lambda x: np.sqrt((x * x).sum()),
    "torch.norm p=1 dim=(0,1) keepdim=True": lambda x: np.abs(x).sum((0, 1), keepdims=True),
    "torch.var dim=1 unbiased=False": lambda x: x.var(1),
    "torch.std dim=(0,2)": lambda x: x.std((0, 2), ddof=1),
    "torch.var dim=1 correction=0 keepdim=True": lambda x: x.var(1, keepdims=True),
    "torch.std dim=() unbiased=False": np.std,
    "torch.any dim=2": lambda x: x.any(2),
    "torch.all": lambda x: (x != 0).all(),
    "F.normalize dim=1": lambda x: x / np.sqrt((x * x).sum(1, keepdims=True)),
}

MOVEMENTS: dict[str, Callable[..., Any]] = {
    "Tensor.reshape shape=(4,-1)": lambda x: x.reshape(4, -1),
    "Tensor.view shape=(0,0,2,2)": lambda x: x.reshape(2, 6, 2, 2),
    "torch.flatten": np.ravel,
    "torch.flatten start_dim=1 end_dim=-1": lambda x: x.reshape(2, 24),
    "Tensor.unflatten dim=1 sizes=(2,-1)": lambda x: x.reshape(2, 2, 3, 4),
    "torch.unsqueeze dim=-1": lambda x: x[..., None],
    "torch.unsqueeze dim=(0,2)": lambda x: x[None, :, None],
    "torch.squeeze": lambda x: x,
    "Tensor.permute dims=(2,0,-2)": lambda x: x.transpose(2, 0, 1),
    "torch.transpose dim0=0 dim1=-1": lambda x: x.swapaxes(0, 2),
    "Tensor.expand sizes=(3,-1,6,4)": lambda x: np.broadcast_to(x, (3, 2, 6, 4)),
    "Tensor.repeat sizes=(2,1,3,2)": lambda x: np.tile(x, (2, 1, 3, 2)),
    "torch.tile dims=(2,3)": lambda x: np.tile(x, (2, 3)),
    "Tensor.contiguous": lambda x: x,
    "torch.flip dims=(0,2)": lambda x: x[::-1, :, ::-1],
    "torch.roll shifts=(1,-2) dims=(0,1)": lambda x: np.roll(x, (1, -2), (0, 1)),
    "Tensor.select dim=1 index=-2": lambda x: x[:, -2],
    "torch.narrow dim=1 start=2 length=3": lambda x: x[:, 2:5],
    "Tensor.slice dim=1 start=1 end=2147483647 step=2": lambda x: x[:, 1::2],
    "Tensor.slice dim=-1 start=-3 end=-1 step=1": lambda x: x[..., -3:-1],
    "Tensor.slice dims=(0,1,2) starts=(0,1,0) ends=(2147483647,99,4) steps=(1,2,3) "
    "selects=(1,2147483647,2147483647)": lambda x: x[1, 1::2, ::3],
    "F.pad pad=(1,2) mode=constant value=-1.5": lambda x: np.pad(
        x, ((0, 0), (0, 0), (1, 2)), constant_values=-1.5
    ),
    "F.pad pad=(1,0,2,1) mode=replicate value=None": lambda x: np.pad(
        x, ((0, 0), (2, 1), (1, 0)), "edge"
    ),
    "nn.ReflectionPad1d padding=(2,1)": lambda x: np.pad(x, ((0, 0), (0, 0), (2, 1)), "reflect"),
    "F.pad pad=(2,1) mode=circular": lambda x: np.pad(x, ((0, 0), (0, 0), (2, 1)), "wrap"),
    "nn.ZeroPad2d padding=(1,1,1,1)": lambda x: np.pad(x, ((0, 0), (1, 1), (1, 1))),
    "F.channel_shuffle groups=2": lambda x: x.reshape(2, 2, 3, 4).swapaxes(1, 2).reshape(2, 6, 4),
    "Tensor.to dtype=torch.half copy=False": lambda x: x.astype(np.float16),
    "torch.zeros_like dtype=torch.long": lambda x: np.zeros(x.shape, np.int64),
    "Tensor.new_ones size=(2,3)": lambda x: np.ones((2, 3), x.dtype),
}

ELEMENTWISE: dict[str, Callable[..., Any]] = {
    "torch.add other=2.0 alpha=3": lambda x: x + 6,
    "torch.sub other=1": lambda x: x - 1,
    "torch.pow exponent=2": np.square,
    "torch.div other=3.0 rounding_mode=trunc": lambda x: np.trunc(x / 3),
    "torch.clamp min=-1.0 max=None": lambda x: np.maximum(x, -1),
    "torch.clamp max=2.0 min=-1": lambda x: np.clip(x, -1, 2),
    "torch.ge other=0.0": lambda x: x >= 0,
    "torch.eq other=0": lambda x: x == 0,
    "torch.logical_not": lambda x: x == 0,
    "torch.isnan": np.isnan,
    "torch.abs": np.abs,
    "torch.log10": np.log10,
}


@pytest.mark.parametrize("line", [*ACTIVATIONS, *REDUCTIONS, *MOVEMENTS, *ELEMENTWISE])
def test_one_input(line: str, tmp_path: Path) -> None:
    formula = {**ACTIVATIONS, **REDUCTIONS, **MOVEMENTS, **ELEMENTWISE}[line]
    with np.errstate(all="ignore"):
        expected = np.asarray(formula(*wide(X)))
    (y,) = run_operator(tmp_path, line, [X])
    assert_close(y, expected.astype(y.dtype))


TWO: dict[str, Callable[..., Any]] = {
    "torch.mul": lambda x, y: x * y,
    "torch.add alpha=2": lambda x, y: x + 2 * y,
    "torch.max": np.maximum,
    "torch.min": np.minimum,
    "torch.lt": np.less,
    "torch.atan2": np.arctan2,
    "torch.floor_divide": lambda x, y: np.floor(x / y),
    "torch.remainder": np.remainder,
    "torch.fmod": np.fmod,
    "torch.logaddexp": np.logaddexp,
    "torch.logical_xor": lambda x, y: (x != 0) ^ (y != 0),
    "torch.cat dim=1": lambda x, y: np.concatenate([x, y], 1),
    "torch.stack dim=-1": lambda x, y: np.stack([x, y], -1),
    "Tensor.expand_as": lambda x, y: x,
    "Tensor.type_as": lambda x, y: x,
    "torch.einsum equation=bij,bkj->bik": lambda x, y: np.einsum("bij,bkj->bik", x, y),
    "torch.einsum equation=bij,bij->j": lambda x, y: np.einsum("bij,bij->j", x, y),
    "torch.einsum equation=bij,cij->ibc": lambda x, y: np.einsum("bij,cij->ibc", x, y),
    "torch.einsum equation=bij,cik": lambda x, y: np.einsum("bij,cik->bcjk", x, y),
}


@pytest.mark.parametrize("line", TWO)
def test_two_inputs(line: str, tmp_path: Path) -> None:
    (y,) = run_operator(tmp_path, line, [X, Y])
    assert_close(y, np.asarray(TWO[line](*wide(X, Y))).astype(y.dtype), 4)


M, N, C = floats(5, 7), floats(7, 3, seed=1), floats(5, 3, seed=2)
P, Q = floats(2, 5, 7), floats(2, 7, 3, seed=3)
MASK = np.array([[True, False, True], [True, True, False]])
MATMULS: dict[str, tuple[Sequence[Array], Callable[..., Any]]] = {
    "torch.mm": ([M, N], np.matmul),
    "torch.bmm": ([P, Q], np.matmul),
    "torch.matmul": ([P, N], np.matmul),
    "torch.matmul $input=a $other=b": ([P, N[:, 0].copy()], np.matmul),
    "torch.mv": ([M, N[:, 1].copy()], np.matmul),
    "torch.dot": ([M[0], N[:, 1].copy()], np.matmul),
    "torch.addmm beta=0.5 alpha=2.0": ([C, M, N], lambda c, a, b: 0.5 * c + 2 * (a @ b)),
    "torch.addmm beta=0 alpha=1": ([C * np.nan, M, N], lambda c, a, b: a @ b),
    "torch.baddbmm": ([C[:1], P, Q], lambda c, a, b: c + a @ b),
    "F.linear": ([P, floats(3, 7), floats(3, seed=1)], lambda x, w, b: x @ w.T + b),
    "F.linear bias=None": ([M[0], floats(3, 7)], lambda x, w: w @ x),
    "F.prelu": ([X, floats(6)], lambda x, w: np.where(x > 0, x, w[:, None] * x)),
    "torch.where": ([B, X, Y], np.where),
    "torch.where other=0.0": ([B, X], lambda c, x: np.where(c, x, 0)),
    "torch.where $condition=a $other=b input=0.0": ([B, X], lambda c, y: np.where(c, 0, y)),
    "Tensor.masked_fill value=-inf": ([X, B], lambda x, m: np.where(m, -np.inf, x)),
    "torch.clamp $input=a $min=b max=3.0": ([X, Y], lambda x, y: np.minimum(np.maximum(x, y), 3)),
    "torch.gather dim=1": (
        [X, np.array([[[5, 0, 1]], [[2, 3, 0]]])],
        lambda x, i: np.take_along_axis(x[..., :3], i, 1),
    ),
    "torch.index_select dim=-1": ([X, np.array([3, 0, 0])], lambda x, i: x[..., i]),
    "F.embedding": ([np.array([[1, 0], [4, 4]]), M], lambda i, w: w[i]),
    "Tensor.index expr=[None,@0]": ([X, np.array([[1, 0], [-1, 4]])], lambda x, i: x[:, i]),
    "F.layer_norm normalized_shape=(4) eps=0.0": (
        [X, floats(4), floats(4, seed=1)],
        lambda x, w, b: (x - x.mean(-1, keepdims=True)) / x.std(-1, keepdims=True) * w + b,
    ),
    "F.rms_norm normalized_shape=(6,4) eps=0.5": (
        [X],
        lambda x: x / np.sqrt((x * x).mean((1, 2), keepdims=True) + 0.5),
    ),
    "F.batch_norm $input=a $running_mean=b $running_var=c $weight=d $bias=e eps=0.5 training=False": (
        [X, floats(6, seed=3), np.abs(floats(6, seed=4)), floats(6, seed=5), floats(6, seed=6)],
        lambda x, m, v, w, b: (x - m[:, None]) / np.sqrt(v[:, None] + 0.5) * w[:, None] + b[:, None],
    ),
    "F.scaled_dot_product_attention": (
        [P, P[:, :3], Q.swapaxes(1, 2).copy()],
        lambda q, k, v: softmax(q @ k.swapaxes(1, 2) / np.sqrt(7), 2) @ v,
    ),
    "F.scaled_dot_product_attention $query=a $key=b $value=c $attn_mask=d scale=0.5 dropout_p=0.0": (
        [P[:, :2], P[:, :3], Q.swapaxes(1, 2).copy(), MASK],
        lambda q, k, v, m: softmax(np.where(m, q @ k.swapaxes(1, 2) / 2, -np.inf), 2) @ v,
    ),
    "F.scaled_dot_product_attention is_causal=True attn_mask=None enable_gqa=True": (
        [floats(1, 4, 3, 2), floats(1, 2, 3, 2, seed=1), floats(1, 2, 3, 2, seed=2)],
        lambda q, k, v: softmax(
            np.where(np.tri(3) > 0, q @ k.repeat(2, 1).swapaxes(2, 3) / np.sqrt(2), -np.inf), 3
        )
        @ v.repeat(2, 1),
    ),
}  # fmt: skip


@pytest.mark.parametrize("line", MATMULS)
def test_several_inputs(line: str, tmp_path: Path) -> None:
    inputs, formula = MATMULS[line]
    (y,) = run_operator(tmp_path, line, inputs)
    assert_close(y, np.asarray(formula(*wide(*inputs))).astype(y.dtype), 4)


def channels(v: Array) -> Array:
    return v[:, None]


MODULES: dict[str, tuple[dict[str, Array], Callable[..., Any]]] = {
    "nn.Linear bias=True in_features=4 out_features=3": (
        {"weight": floats(3, 4), "bias": floats(3, seed=1)},
        lambda x, weight, bias: x @ weight.T + bias,
    ),
    "nn.Linear bias=1": (
        {"weight": floats(3, 4, dtype=np.float16), "bias": floats(3, dtype=np.float16)},
        lambda x, weight, bias: x @ weight.T + bias,
    ),
    "nn.Linear bias=False": ({"weight": floats(0, 4)}, lambda x, weight: x @ weight.T),
    "nn.PReLU num_parameters=1": (
        {"weight": floats(1)},
        lambda x, weight: np.where(x > 0, x, weight * x),
    ),
    "nn.LayerNorm elementwise_affine=True eps=1.000000e-05 normalized_shape=(6,4)": (
        {"weight": floats(6, 4), "bias": floats(6, 4, seed=1)},
        lambda x, weight, bias: (x - x.mean((1, 2), keepdims=True))
        / np.sqrt(x.var((1, 2), keepdims=True) + 1e-5) * weight + bias,
    ),
    "nn.LayerNorm elementwise_affine=False eps=0.0 normalized_shape=(4)": (
        {},
        lambda x: (x - x.mean(2, keepdims=True)) / x.std(2, keepdims=True),
    ),
    "nn.RMSNorm elementwise_affine=True eps=None normalized_shape=(4)": (
        {"weight": floats(4)},
        lambda x, weight: x / np.sqrt((x * x).mean(2, keepdims=True) + 2**-23) * weight,
    ),
    "nn.GroupNorm affine=True eps=0.5 num_channels=6 num_groups=2": (
        {"weight": floats(6), "bias": floats(6, seed=1)},
        lambda x, weight, bias: (
            (x.reshape(2, 2, 12) - x.reshape(2, 2, 12).mean(2, keepdims=True))
            / np.sqrt(x.reshape(2, 2, 12).var(2, keepdims=True) + 0.5)
        ).reshape(x.shape) * channels(weight) + channels(bias),
    ),
    "nn.BatchNorm1d affine=False eps=0.5 num_features=6": (
        {"running_mean": floats(6), "running_var": np.abs(floats(6, seed=1))},
        lambda x, running_mean, running_var: (x - channels(running_mean)) / np.sqrt(channels(running_var) + 0.5),
    ),
    "nn.InstanceNorm1d affine=False eps=0.5 num_features=6 track_running_stats=False": (
        {},
        lambda x: (x - x.mean(2, keepdims=True)) / np.sqrt(x.var(2, keepdims=True) + 0.5),
    ),
}  # fmt: skip


@pytest.mark.parametrize("line", MODULES)
def test_modules_with_weights(line: str, tmp_path: Path) -> None:
    weights, formula = MODULES[line]
    (y,) = run_operator(tmp_path, line, [X], weights)
    named = dict(zip(weights, wide(*weights.values()), strict=True))
    assert_close(y, np.asarray(formula(*wide(X), **named)).astype(F), 4)


SPLITS: dict[str, tuple[int, Callable[[Array], list[Array]]]] = {
    "torch.chunk chunks=4 dim=1": (3, lambda x: [x[:, :2], x[:, 2:4], x[:, 4:]]),
    "torch.split split_size_or_sections=4 dim=1": (2, lambda x: [x[:, :4], x[:, 4:]]),
    "torch.split split_size_or_sections=(1,5) dim=1": (2, lambda x: [x[:, :1], x[:, 1:]]),
    "torch.tensor_split indices=(2,3) dim=1": (3, lambda x: [x[:, :2], x[:, 2:3], x[:, 3:]]),
    "torch.tensor_split sections=4 dim=1": (4, lambda x: np.array_split(x, 4, 1)),
    "torch.unbind dim=0": (2, list),
    "torch.max dim=1 keepdim=True": (2, lambda x: [x.max(1, keepdims=True), x.argmax(1)[:, None]]),
    "torch.min dim=-1": (2, lambda x: [x.min(-1), x.argmin(-1)]),
}


@pytest.mark.parametrize("line", SPLITS)
def test_several_outputs(line: str, tmp_path: Path) -> None:
    count, formula = SPLITS[line]
    results = run_operator(tmp_path, line, [X], outputs=count)
    for y, expected in zip(results, formula(X), strict=True):
        np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize(
    ("line", "inputs", "dtype"),
    [
        ("torch.add", [K, X], np.float32),
        ("torch.add", [K.astype(np.int32), K], np.int64),
        ("torch.mul other=2.5", [K], np.float32),
        ("torch.mul other=2", [K.astype(np.uint8)], np.uint8),
        ("torch.mul other=2.5", [X.astype(np.float16)], np.float16),
        ("torch.div", [K, np.abs(L) + 1], np.float32),
        ("torch.floor_divide", [K, np.abs(L) + 1], np.int64),
        ("torch.add", [X.astype(np.float16), np.array(2, np.float32)], np.float16),
        ("torch.add", [K.astype(np.uint8), K.astype(np.int8)], np.int16),
        ("torch.add", [B, K.astype(np.int8)], np.int8),
        ("torch.sum dim=1", [K.astype(np.int8)], np.int64),
        ("torch.sum dim=1", [B], np.int64),
        ("torch.exp", [K], np.float32),
        ("torch.floor", [K], np.int64),
        ("F.sigmoid", [K], np.float32),
        ("torch.clamp min=0.5 max=2", [K], np.float32),
        ("torch.clamp min=0 max=2", [K], np.int64),
        ("torch.cat dim=0", [K, X], np.float32),
    ],
)
def test_dtypes_follow_pytorch(line: str, inputs: list[Array], dtype: type, tmp_path: Path) -> None:
    (y,) = run_operator(tmp_path, line, inputs)
    assert y.dtype == dtype


def test_bools_add_and_multiply_as_logic(tmp_path: Path) -> None:
    other = Y > 0
    np.testing.assert_array_equal(run_operator(tmp_path, "torch.add", [B, other])[0], B | other)
    np.testing.assert_array_equal(run_operator(tmp_path, "torch.mul", [B, other])[0], B & other)


def test_floor_divide_of_edge_cases(tmp_path: Path) -> None:
    a, b = np.array([1, -1, 7, -7, 1, 0, 5], F), np.array([0, np.inf, -2, 2, 0.1, 0, -np.inf], F)
    (y,) = run_operator(tmp_path, "torch.floor_divide", [a, b])
    np.testing.assert_array_equal(y, np.array([np.inf, -1, -4, -4, 9, np.nan, -1], F))
