"""com.microsoft's operators of transformers against formulas in NumPy, and those against ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphc.base.errors import UnsupportedError, UserError
from graphc.frontend import load
from support.onnx_models import Array, evaluate
from support.transformer_formulas import (
    Case,
    Feeds,
    causal,
    erf_gelu,
    heads,
    mixed,
    normal,
    rms,
    rotate,
    tanh_gelu,
)

RNG = np.random.default_rng(7)


def f(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


def ints(*values: Any) -> Array:
    return np.array(values, np.int32)


MS = "com.microsoft."
X, SKIP, ROW, BIAS = f(2, 3, 8), f(2, 3, 8), f(8), f(8)
RESIDUAL = {"x": X, "skip": SKIP, "scale": ROW}
WORDS = {
    "ids": RNG.integers(0, 9, (2, 3)).astype(np.int32),
    "segments": ints([0, 1, 1], [1, 0, 0]),
    "words": f(9, 8), "positions": f(5, 8), "kinds": f(2, 8), "scale": ROW, "bias": BIAS,
}  # fmt: skip


def embedded(v: Feeds) -> Array:
    return v["words"][v["ids"]] + v["positions"][:3] + v["kinds"][v["segments"]]


ANGLES = RNG.uniform(0, 6, (12, 4))
COS, SIN = np.cos(ANGLES).astype(np.float32), np.sin(ANGLES).astype(np.float32)

PLAIN = {
    "skip layer norm": Case(
        MS + "SkipLayerNormalization",
        RESIDUAL | {"b": BIAS, "c": f(8)},
        lambda v: (
            normal(v["x"] + v["skip"] + v["c"], v["scale"], v["b"]),
            v["x"] + v["skip"] + v["c"],
        ),
        "y - - sum",
    ),
    "skip layer norm, bare": Case(
        MS + "SkipLayerNormalization", RESIDUAL, lambda v: normal(v["x"] + v["skip"], v["scale"])
    ),
    "skip layer norm, shared residual": Case(
        MS + "SkipLayerNormalization",
        {"x": X, "skip": SKIP[0], "scale": ROW, "b": BIAS},
        lambda v: normal(v["x"] + v["skip"], v["scale"], v["b"], 1e-3),
        epsilon=1e-3,
    ),
    "simplified": Case(
        "SimplifiedLayerNormalization",
        {"x": X, "scale": ROW},
        lambda v: rms(v["x"], v["scale"], 1e-5),
    ),
    "skip simplified": Case(
        MS + "SkipSimplifiedLayerNormalization",
        RESIDUAL | {"c": BIAS},
        lambda v: (rms(v["x"] + v["skip"] + v["c"], v["scale"]), v["x"] + v["skip"] + v["c"]),
        "y - - sum",
    ),
    "embeddings": Case(
        MS + "EmbedLayerNormalization",
        WORDS | {"mask": ints([1, 1, 0], [1, 1, 1])},
        lambda v: (normal(embedded(v), v["scale"], v["bias"]), v["mask"].sum(1), embedded(v)),
        "y count sum",
    ),
    "embeddings of words": Case(
        MS + "EmbedLayerNormalization",
        WORDS | {"segments": None, "kinds": None, "mask": None, "at": ints([4, 3, 2], [0, 1, 2])},
        lambda v: (
            normal(v["words"][v["ids"]] + v["positions"][v["at"]], v["scale"], v["bias"]),
            np.zeros(2),
        ),
        "y count",
    ),
    "bias gelu": Case(
        MS + "BiasGelu", {"x": X, "b": BIAS}, lambda v: erf_gelu(v["x"] + v["b"])
    ),
    "gelu": Case(MS + "Gelu", {"x": X}, lambda v: erf_gelu(v["x"])),
    "fast gelu": Case(
        MS + "FastGelu", {"x": X, "b": BIAS}, lambda v: tanh_gelu(v["x"] + v["b"])
    ),
    "quick gelu": Case(
        MS + "QuickGelu", {"x": X}, lambda v: v["x"] / (1 + np.exp(-1.5 * v["x"])), alpha=1.5
    ),
    "matmul": Case(
        MS + "FusedMatMul",
        {"a": f(2, 4, 3), "b": f(2, 5, 4)},
        lambda v: 0.5 * v["a"].swapaxes(1, 2) @ v["b"].swapaxes(1, 2),
        alpha=0.5, transA=1, transB=1,
    ),
    "matmul of batches behind": Case(
        MS + "FusedMatMul",
        {"a": f(4, 2, 3), "b": f(2, 4, 5)},
        lambda v: v["a"].transpose(1, 2, 0) @ v["b"],
        transBatchA=1, transA=1,
    ),
    "rotary": Case(
        MS + "RotaryEmbedding",
        {"x": f(2, 3, 16), "at": np.array([[0, 1, 2], [7, 8, 9]]), "cos": COS, "sin": SIN},
        lambda v: rotate(
            v["x"].reshape(2, 3, 2, 8), v["cos"][v["at"]], v["sin"][v["at"]]
        ).reshape(2, 3, 16),
    ),
    "rotary from a position": Case(
        MS + "RotaryEmbedding",
        {"x": f(2, 2, 3, 8), "at": np.array([4]), "cos": COS, "sin": SIN},
        lambda v: rotate(
            v["x"].swapaxes(1, 2), v["cos"][4:7][None], v["sin"][4:7][None], True
        ).swapaxes(1, 2),
        interleaved=1,
    ),
    "rotary of a part": Case(
        MS + "RotaryEmbedding",
        {"x": f(2, 3, 20), "at": np.array([4]), "cos": COS, "sin": SIN},
        lambda v: rotate(
            v["x"].reshape(2, 3, 2, 10), v["cos"][4:7][None], v["sin"][4:7][None]
        ).reshape(2, 3, 20),
        num_heads=2, rotary_embedding_dim=8,
    ),
    "rotary of ONNX": Case(
        "RotaryEmbedding",
        {"x": f(2, 3, 20), "cos": COS[:6].reshape(2, 3, 4), "sin": SIN[:6].reshape(2, 3, 4)},
        lambda v: rotate(v["x"].reshape(2, 3, 2, 10), v["cos"], v["sin"]).reshape(2, 3, 20),
        num_heads=2, rotary_embedding_dim=8,
    ),
}  # fmt: skip

Q, K, V = f(2, 3, 16), f(2, 3, 16), f(2, 3, 16)
PASTS = {"pk": f(2, 2, 5, 8), "pv": f(2, 2, 5, 8)}
PADDED = ints([1, 1, 1], [1, 1, 0])


def with_past(v: Feeds, count: int) -> tuple[Array, Array, Array]:
    k, v_ = (np.concatenate([v[p], heads(v[n], count)], 2) for p, n in (("pk", "k"), ("pv", "v")))
    return heads(v["q"], v["q"].shape[2] // 8), k, v_


def cached(v: Feeds, mask: Any, count: int = 2, **how: Any) -> tuple[Array, Array, Array]:
    q, k, values = with_past(v, count)
    return mixed(q, k, values, mask, **how), k, values


def packed(v: Feeds) -> Array:
    q, k, values = (heads(part, 2) for part in np.split(v["x"] @ v["w"] + v["b"], 3, axis=2))
    return mixed(q, k, values, causal(0, 3))


APART = {"q": Q, "k": K, "v": V}
ATTENTION = {
    "heads": Case(
        MS + "MultiHeadAttention",
        APART | {"b": f(48)},
        lambda v: mixed(
            *(heads(v[n] + v["b"][i * 16 : i * 16 + 16], 2) for i, n in enumerate("qkv"))
        ),
        num_heads=2,
    ),
    "heads with a past": Case(
        MS + "MultiHeadAttention",
        APART | {"b": None, "mask": None, "add": None} | PASTS,
        lambda v: cached(v, causal(5, 3)),
        "y present_k present_v", num_heads=2, unidirectional=1,
    ),
    "heads with masks": Case(
        MS + "MultiHeadAttention",
        APART | {"b": None, "mask": PADDED, "add": f(1, 2, 3, 3)},
        lambda v: mixed(
            heads(v["q"], 2),
            heads(v["k"], 2),
            heads(v["v"], 2),
            np.where(v["mask"], 0, -10000.0)[:, None, None] + v["add"],
        ),
        num_heads=2,
    ),
    "heads of projected keys": Case(
        MS + "MultiHeadAttention",
        {"q": Q, "k": f(2, 2, 4, 8), "v": f(2, 2, 4, 8)},
        lambda v: mixed(heads(v["q"], 2), v["k"], v["v"]),
        num_heads=2,
    ),
    "heads packed": Case(
        MS + "MultiHeadAttention",
        {"qkv": f(2, 3, 2, 3, 8)},
        lambda v: mixed(*(v["qkv"][:, :, :, i].swapaxes(1, 2) for i in range(3))),
        num_heads=2,
    ),
    "heads, keys with values": Case(
        MS + "MultiHeadAttention",
        {"q": Q, "kv": f(2, 4, 2, 2, 8)},
        lambda v: mixed(
            heads(v["q"], 2), *(v["kv"][:, :, :, i].swapaxes(1, 2) for i in range(2))
        ),
        num_heads=2,
    ),
    "attention": Case(
        MS + "Attention",
        {"x": f(2, 3, 12), "w": f(12, 48), "b": f(48)},
        packed,
        num_heads=2, unidirectional=1,
    ),
    "groups": Case(
        MS + "GroupQueryAttention",
        {"q": f(2, 1, 32), "k": f(2, 1, 16), "v": f(2, 1, 16)}
        | PASTS | {"last": ints(5, 5), "total": np.array(6, np.int32)},
        lambda v: cached(v, causal(5, 1)),
        "y present_k present_v", num_heads=4, kv_num_heads=2,
    ),
    "groups, capped in a window": Case(
        MS + "GroupQueryAttention",
        {"q": f(1, 1, 32), "k": f(1, 1, 16), "v": f(1, 1, 16)}
        | {n: x[:1] for n, x in PASTS.items()}
        | {"last": ints(5), "total": np.array(6, np.int32)},
        lambda v: cached(v, causal(5, 1, 4), cap=2.0),
        "y present_k present_v",
        num_heads=4, kv_num_heads=2, local_window_size=4, softcap=2.0,
    ),
    "groups, a first prompt with padding": Case(
        MS + "GroupQueryAttention",
        {"q": f(1, 3, 32), "k": f(1, 3, 16), "v": f(1, 3, 16), "pk": None, "pv": None}
        | {"last": ints(2), "total": np.array(3, np.int32)},
        lambda v: mixed(
            heads(v["q"], 4), heads(v["k"], 2), heads(v["v"], 2), causal(0, 3), sink=0.0
        ),
        "y present_k present_v",
        num_heads=4, kv_num_heads=2, smooth_softmax=1,
    ),
    "groups, rotated": Case(
        MS + "GroupQueryAttention",
        {"q": f(1, 2, 128), "k": None, "v": None, "pk": f(1, 2, 5, 16), "pv": f(1, 2, 5, 16)}
        | {"last": ints(6), "total": np.array(7, np.int32)}
        | {"cos": np.tile(COS, 2), "sin": np.tile(SIN, 2)},
        lambda v: (lambda q, k, w: mixed(q, k, w, causal(5, 2)))(*rotated(v, 5)),
        "y present_k present_v",
        num_heads=4, kv_num_heads=2, do_rotary=1,
    ),
}  # fmt: skip


def rotated(v: Feeds, start: int) -> tuple[Array, Array, Array]:
    """Q, K and V of one packed input, rotated and after the past."""
    apart = v["q"].reshape(1, 2, 8, 16)
    at = slice(start, start + 2)
    q, k = (
        rotate(apart[:, :, p], v["cos"][at][None], v["sin"][at][None]).swapaxes(1, 2)
        for p in (slice(0, 4), slice(4, 6))
    )
    new = k, apart[:, :, 6:].swapaxes(1, 2)
    k, values = (np.concatenate([v[p], x], 2) for p, x in zip(("pk", "pv"), new, strict=True))
    return q, k, values


CASES = PLAIN | ATTENTION


@pytest.mark.parametrize("name", CASES)
def test_against_the_formula(name: str) -> None:
    case = CASES[name]
    results = evaluate(case.model(), case.feeds)
    for got, wanted in zip(results, case.expected(), strict=False):
        np.testing.assert_allclose(got, wanted, rtol=2e-5, atol=2e-6)


NOT_ON_CPUS = {"heads packed", "heads, keys with values"}


@pytest.mark.parametrize("name", sorted(CASES.keys() - NOT_ON_CPUS))
def test_the_formula_against_onnx_runtime(name: str) -> None:
    case = CASES[name]
    for got, wanted in zip(runtime(case), case.expected(), strict=False):
        np.testing.assert_allclose(got, wanted, rtol=2e-4, atol=2e-5)


def runtime(case: Case) -> list[Array]:
    ort = pytest.importorskip("onnxruntime")
    options = ort.SessionOptions()
    options.log_severity_level = 3
    session = ort.InferenceSession(
        case.model().SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return list(session.run(None, dict(case.feeds)))


def buffers(sentences: int) -> Case:
    """A cache that keeps its size, of which each sentence uses its own part."""
    ends = ints(3, 6)[:sentences]

    def wanted(v: Feeds) -> tuple[Array, ...]:
        k, values = v["past"].copy(), v["pv"].copy()
        rows = []
        for i, end in enumerate(v["last"]):
            for cache, new in ((k, v["k"]), (values, v["v"])):
                cache[i, :, end] = new[i, 0].reshape(2, 8)
            seen = slice(i, i + 1), slice(None), slice(0, int(end) + 1)
            rows.append(mixed(heads(v["q"][i : i + 1], 4), k[seen], values[seen]))
        return np.concatenate(rows), k, values

    return Case(
        MS + "GroupQueryAttention",
        {"q": f(sentences, 1, 32), "k": f(sentences, 1, 16), "v": f(sentences, 1, 16)}
        | {"past": f(sentences, 2, 9, 8), "pv": f(sentences, 2, 9, 8)}
        | {"last": ends, "total": np.array(ends.max() + 1, np.int32)},
        wanted,
        "y kept present_v",
        num_heads=4,
        kv_num_heads=2,
    )


@pytest.mark.parametrize("sentences", [1, 2])
def test_a_cache_that_keeps_its_size(sentences: int) -> None:
    case = buffers(sentences)
    for got, wanted in zip(evaluate(case.model(), case.feeds), case.expected(), strict=False):
        np.testing.assert_allclose(got, wanted, rtol=2e-5, atol=2e-6)
    np.testing.assert_allclose(runtime(case)[0], case.expected()[0], rtol=2e-4, atol=2e-5)


REFUSED: dict[str, tuple[Case, type[Exception], str]] = {
    "packed batches": (
        Case(MS + "RotaryEmbedding", PLAIN["rotary"].feeds, len, is_packed_batching=1),
        UnsupportedError,
        "packed batching is not supported",
    ),
    "no tables": (
        Case(
            MS + "GroupQueryAttention",
            {**ATTENTION["groups"].feeds},
            len,
            num_heads=4,
            kv_num_heads=2,
            do_rotary=1,
        ),
        UserError,
        "cos_cache and sin_cache must be given for do_rotary",
    ),
    "no heads": (
        Case(MS + "MultiHeadAttention", APART, len, num_heads=0),
        UserError,
        "num_heads must be positive, got 0",
    ),
    "a mask of another length": (
        Case(MS + "MultiHeadAttention", APART | {"b": None, "m": ints([1, 1])}, len, num_heads=2),
        UserError,
        "the mask must be",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_wrong_nodes(name: str) -> None:
    case, error, text = REFUSED[name]
    with pytest.raises(error, match=text):
        load(case.model())
