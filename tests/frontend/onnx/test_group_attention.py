"""GroupQueryAttention's caches: buffers, padded chunks, windows of the last keys, and scores as a result.

The formula in NumPy, sentence by sentence, is held against ONNX Runtime too.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

import graphc
from graphc.base.errors import UnsupportedError, UserError
from graphc.base.records import dataclass
from graphc.frontend import load

Array = np.ndarray[Any, Any]
H, KV, D = 4, 2, 16
INPUTS = [
    "q",
    "k",
    "v",
    "pk",
    "pv",
    "ends",
    "total",
    "cos",
    "sin",
    "pos",
    "bias",
    "sink",
    "ks",
    "vs",
    "qn",
    "kn",
    "rows",
]
ANGLES = np.random.default_rng(7).random((64, D // 2))
COS, SIN = np.cos(ANGLES).astype(np.float32), np.sin(ANGLES).astype(np.float32)


@dataclass(frozen=True)
class Step:
    """One step of sentences with `past` keys each, of which `rows` of a chunk of `length` count."""

    past: tuple[int, ...]
    length: int
    capacity: int
    rows: tuple[int, ...] = ()
    bias: bool = False
    rotary: bool = False
    grows: bool = False
    window: int = -1
    sliding: bool = False
    shown: int = 0
    cap: float = 0.0

    @property
    def counts(self) -> tuple[int, ...]:
        """The rows that count."""
        return self.rows or (self.length,) * len(self.past)

    @property
    def totals(self) -> list[int]:
        """Keys of each sentence after the step."""
        return [p + n for p, n in zip(self.past, self.counts, strict=True)]

    def resident(self, total: int) -> int:
        """Return the keys that a cache holds: ONNX Runtime's description of the operator."""
        if not self.sliding or total <= self.capacity:
            return total
        given_up = self.capacity - self.window + 1
        return total - given_up * -(-(total - self.capacity) // given_up)

    def feeds(self) -> dict[str, Array]:
        """Inputs. The pasts hold only what counts; what is behind are other numbers."""
        rng, batch = np.random.default_rng(3), len(self.past)
        columns = self.capacity + self.length if self.grows else max(self.totals)
        shapes: dict[str, tuple[int, ...]] = {
            "q": (batch, self.length, H * D), "k": (batch, self.length, KV * D), "v": (batch, self.length, KV * D),
            "pk": (batch, KV, self.capacity, D), "pv": (batch, KV, self.capacity, D),
        }  # fmt: skip
        if self.bias:
            shapes["bias"] = (1, H, self.length, columns)
        found: dict[str, Array] = {
            name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()
        }
        found["ends"] = np.array(self.totals, np.int32) - np.int32(1)
        if self.rows:
            found["rows"] = np.array(self.rows, np.int32)
        return found

    def model(self, feeds: dict[str, Array], batch: int | str = 0, **attrs: Any) -> ModelProto:
        """The node. `batch` names the number of sentences where it is dynamic."""
        known: dict[str, Array] = {"total": np.array(max(self.totals), np.int32)}
        if self.grows:
            known["total"] = np.array(self.capacity + self.length, np.int32)
        if self.rotary:
            known |= {"cos": COS, "sin": SIN}
        names = [name if name in feeds or name in known else "" for name in INPUTS]
        outputs = ["y", "nk", "nv", *(["scores"] if self.shown else [])]
        given = {
            "num_heads": H, "kv_num_heads": KV, "do_rotary": int(self.rotary), "local_window_size": self.window,
            "sliding_window_cache": int(self.sliding), "qk_output": self.shown, "softcap": self.cap,
        }  # fmt: skip
        node = helper.make_node(
            "GroupQueryAttention", names, outputs, domain="com.microsoft", **(given | attrs)
        )
        length = self.capacity + (self.length if self.grows else 0)
        cache = [batch or len(self.past), KV, length, D]
        infos = [
            helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(x.dtype),
                [batch if batch and (i == 0 and name != "bias") else size for i, size in enumerate(x.shape)],
            )
            for name, x in feeds.items()
        ]  # fmt: skip
        results = [
            helper.make_tensor_value_info(
                name, TensorProto.FLOAT, cache if name in ("nk", "nv") else None
            )
            for name in outputs
        ]
        weights = [numpy_helper.from_array(x, name) for name, x in known.items()]
        graph = helper.make_graph([node], "g", infos, results, weights)
        opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)

    def wanted(self, feeds: dict[str, Array]) -> list[list[Array]]:
        """Return the valid rows of each sentence: results, both caches, scores."""
        return [self._sentence(feeds, b) for b in range(len(self.past))]

    def _sentence(self, feeds: dict[str, Array], b: int) -> list[Array]:
        past, count, total = self.past[b], self.counts[b], self.totals[b]
        held = self.resident(past)
        q, k, v = (
            feeds[name][b, :count].reshape(count, heads, D).swapaxes(0, 1).astype(np.float64)
            for name, heads in (("q", H), ("k", KV), ("v", KV))
        )
        if self.rotary:
            q, k = (_rotated(x, past) for x in (q, k))
        keys, values = (
            np.concatenate([feeds[name][b, :, :held], x], 1) for name, x in (("pk", k), ("pv", v))
        )
        at, own = np.arange(past - held, total), past + np.arange(count)[:, None]
        scores = q @ np.repeat(keys, H // KV, 0).swapaxes(1, 2) / np.sqrt(D)
        scores = self.cap * np.tanh(scores / self.cap) if self.cap else scores
        if self.bias:
            scores = scores + feeds["bias"][0][:, :count, at]
        seen = (at <= own) & ((at > own - self.window) | (self.window < 1))
        e = np.where(seen, np.exp(scores - scores.max(-1, keepdims=True, initial=-9.0)), 0.0)
        weights = e / np.maximum(e.sum(-1, keepdims=True), 1e-30)
        y = (weights @ np.repeat(values, H // KV, 0)).swapaxes(0, 1).reshape(count, H * D)
        kept = self.resident(total)
        last = [x[:, x.shape[1] - kept :] for x in (keys, values)]
        shown = np.where(seen, scores, 0.0) if self.shown == 1 else weights
        return [y, *last, *([shown] if self.shown else [])]

    def check(self, results: list[Array], feeds: dict[str, Array]) -> None:
        """Compare what counts."""
        for b, wanted in enumerate(self.wanted(feeds)):
            count, kept = self.counts[b], self.resident(self.totals[b])
            got = [results[0][b, :count], *(x[b, :, :kept] for x in results[1:3])]
            got += [x[b, :, :count, : self.totals[b]] for x in results[3:]]
            for one, other in zip(got, wanted, strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


def _rotated(x: Array, start: int) -> Array:
    at = start + np.arange(x.shape[1])
    c, s, a, b = COS[at], SIN[at], x[..., : D // 2], x[..., D // 2 :]
    return np.concatenate([a * c - b * s, b * c + a * s], -1)


STEPS = {
    "a bias beside a buffer": Step((5,), 3, 12, bias=True, rotary=True),
    "a bias beside buffers of two": Step((5, 5), 1, 12, bias=True),
    "scores before the softmax": Step((5,), 3, 5, grows=True, shown=1, bias=True, window=4, cap=2.0),
    "the softmax": Step((5,), 3, 5, grows=True, shown=2, window=4),
    "scores of a buffer": Step((5,), 3, 12, shown=1),
    "a padded chunk": Step((5, 3), 4, 12, (2, 4), rotary=True),
    "an idle sentence": Step((5, 0), 4, 12, (0, 4), window=3),
    "one row that may not count": Step((5, 3), 1, 12, (1, 0), rotary=True),
    "a padded chunk behind a cache that grows": Step((5, 3, 0), 4, 7, (2, 4, 1), grows=True, bias=True),
    "a window that fills": Step((3,), 1, 6, window=4, sliding=True, rotary=True),
    "a window that gives up rows": Step((9,), 1, 6, window=4, sliding=True, rotary=True),
    "a chunk longer than the window": Step((0,), 9, 6, window=4, sliding=True),
    "windows of two": Step((9, 2), 1, 6, window=6, sliding=True),
    "padded chunks in windows": Step((9, 2, 20), 5, 4, (3, 5, 0), window=4, sliding=True, bias=True, rotary=True),
}  # fmt: skip


@pytest.mark.parametrize("name", STEPS)
def test_against_the_formula(name: str) -> None:
    step = STEPS[name]
    feeds = step.feeds()
    graph = load(step.model(feeds))
    step.check(graph.evaluate([feeds[op.name] for op in graph.inputs]), feeds)


@pytest.mark.parametrize("name", STEPS)
def test_the_formula_against_onnx_runtime(name: str) -> None:
    ort = pytest.importorskip("onnxruntime", minversion="1.32")
    step, options = STEPS[name], ort.SessionOptions()
    feeds = step.feeds()
    options.log_severity_level = 3
    session = ort.InferenceSession(
        step.model(feeds).SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    step.check(session.run(None, feeds), feeds)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ["a padded chunk", "padded chunks in windows"])
def test_any_number_of_sentences(name: str) -> None:
    step = STEPS[name]
    feeds = step.feeds()
    compiled = graphc.compile(step.model(feeds, batch="B"))
    step.check(compiled.run(None, feeds), feeds)


def test_the_capacity_of_a_windowed_cache_is_dynamic() -> None:
    """onnxruntime-genai names the capacity of Gemma2's sliding caches."""
    step = STEPS["a window that fills"]
    feeds, proto = step.feeds(), step.model(step.feeds())
    for info in (*proto.graph.input, *proto.graph.output):
        if info.name in ("pk", "pv", "nk", "nv"):
            info.type.tensor_type.shape.dim[2].dim_param = "past_sliding_length"
    compiled = graphc.compile(proto)
    step.check(compiled.run(None, feeds), feeds)
    with pytest.raises(UserError, match="past_sliding_length"):
        compiled.run(None, {**feeds, "pk": feeds["pk"][:, :, :1], "pv": feeds["pv"][:, :, :1]})


@pytest.mark.parametrize("name", ["the softmax", "a bias beside a buffer"])
def test_the_width_of_a_cache_follows_from_the_heads(name: str) -> None:
    """onnxruntime-genai names the last axis of caches, which the queries determine."""
    step = STEPS[name]
    feeds, proto = step.feeds(), step.model(step.feeds())
    for info in (*proto.graph.input, *proto.graph.output):
        if info.name in ("pk", "pv", "nk", "nv"):
            info.type.tensor_type.shape.dim[3].dim_param = "kv_cache_dim"
    step.check(graphc.compile(proto).run(None, feeds), feeds)


def test_a_chunk_that_does_not_fit_is_refused() -> None:
    step = STEPS["a padded chunk"]
    feeds = step.feeds()
    model = graphc.compile(step.model(feeds))
    feeds["ends"] = feeds["ends"] + np.int32(6)
    with pytest.raises(UserError, match="'ends' must be less than the length of the cache, 12"):
        model.run(None, feeds)


@pytest.mark.parametrize(
    ("step", "attrs", "error", "text"),
    [
        (STEPS["a window that fills"], {"local_window_size": 7}, UserError, r"must be in \[1, 6\], the capacity"),
        (STEPS["a window that fills"], {"local_window_size": -1}, UserError, "got -1"),
        (STEPS["the softmax"], {"qk_output": 0}, UserError, "qk_output must be 1 or 2 where output_qk is read"),
        (STEPS["the softmax"], {"causal": 0}, UnsupportedError, "causal=0"),
    ],
)  # fmt: skip
def test_refused(step: Step, attrs: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        load(step.model(step.feeds(), **attrs))
