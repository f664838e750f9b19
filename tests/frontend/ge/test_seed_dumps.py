"""The two complete dumps of GE's document: a router of experts, and a branch before a loop."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from graphc import compile
from graphc.base.errors import UserError
from graphc.frontend import load

DUMPS = Path(__file__).parents[3] / "examples"
ROUTER = DUMPS / "expert_router.txt"
LOOP = DUMPS / "branch_and_loop.txt"
ROUTER_INPUTS = {"input_0": "f16[256,7168]", "input_1": "f32[256,7168]", "input_2": "f32[256]"}


def largest(x, k):
    return np.argsort(-x, axis=-1, kind="stable")[..., :k]


def routed(tokens, experts, bias):
    scores = 1 / (1 + np.exp(-(tokens.astype(np.float64) @ experts.astype(np.float64).T)))
    scores = scores.astype(np.float32)
    biased = scores + bias
    sums = np.take_along_axis(biased, largest(biased, 2), -1).sum(-1)
    kept = np.isin(np.arange(len(sums)), largest(sums, 4))
    chosen = largest(np.where(kept[:, None], biased, np.float32(0)), 4)
    weights = np.take_along_axis(scores, chosen, -1) / np.float32(1e-6) * np.float32(2.5)
    return kept, chosen, weights


def test_the_router():
    graph = load(ROUTER, ROUTER_INPUTS)
    rng = np.random.default_rng(0)
    tokens = rng.standard_normal((256, 7168)).astype(np.float16)
    experts = (rng.standard_normal((256, 7168)) / 60).astype(np.float32)
    bias = (rng.standard_normal(256) / 10).astype(np.float32)
    kept, chosen, weights = routed(tokens, experts, bias)
    got_chosen, got_weights = graph.evaluate([tokens, experts, bias])
    assert got_chosen.dtype == np.int64
    np.testing.assert_array_equal(got_chosen[~kept], np.broadcast_to(np.arange(4), (252, 4)))
    np.testing.assert_array_equal(got_chosen[kept], chosen[kept])
    np.testing.assert_allclose(got_weights, weights, rtol=1e-5)
    with compile(graph, threads=1) as model:
        native_chosen, native_weights = model(tokens, experts, bias)
    np.testing.assert_array_equal(native_chosen[~kept], got_chosen[~kept])
    np.testing.assert_array_equal(native_chosen[kept], chosen[kept])
    np.testing.assert_allclose(native_weights, weights, rtol=1e-5)


@pytest.mark.parametrize("pred", [True, False])
def test_the_branch_and_the_loop_native_and_not(pred):
    graph = load(LOOP, {"input_0": "f32[2,19]", "pred_1": "bool[]"})
    x = np.random.default_rng(0).standard_normal((2, 19)).astype(np.float32)
    start = x * np.float32(0.9) if pred else x
    count, hidden = graph.evaluate([x, np.array(pred)])
    assert count == 4  # the body's own i + 1 of the last iteration
    np.testing.assert_allclose(hidden, start * 1.5**4, rtol=1e-6)
    with compile(graph, threads=1) as model:
        native_count, native_hidden = model(x, np.array(pred))
    assert native_count == 4
    np.testing.assert_allclose(native_hidden, hidden, rtol=1e-6)


def test_what_the_text_leaves_out_is_requested_at_once():
    with pytest.raises(UserError) as error:
        load(ROUTER, {"input_1": "f32[256,7168]"})
    assert str(error.value) == (
        "a readable dump does not hold dtype and shape of 'input_0', 'input_2'; "
        f"say --input 'input_0=f32[...]' --input 'input_2=f32[...]' (in '{ROUTER}')"
    )
