"""Caches that grow, are cut and reused, give the logits of one long prompt."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from graphc.base.dtypes import F32
from graphc.base.errors import UserError
from graphc.frontend.decoder.config import Rotary
from graphc.frontend.gguf import decoder_config, read_gguf
from graphc.language_models import LanguageModel, load
from graphc.language_models.buffers import CacheBuffers
from graphc.language_models.session import Session
from support.gguf_files import Array, TinyDecoder, write_gguf

TOKENS = [1, 270, 5, 99, 271, 3, 260, 7, 8, 265, 11]


def test_any_chunks_give_the_same_logits(model: LanguageModel) -> None:
    session = model.session
    session.truncate(0)
    whole = session.feed(TOKENS, every=True)
    assert whole.shape == (11, 300)
    for cut in (1, 4, 10):
        session.truncate(0)
        parts = [session.feed(TOKENS[:cut], every=True), session.feed(TOKENS[cut:], every=True)]
        np.testing.assert_allclose(np.concatenate(parts), whole, atol=1e-5)
    session.truncate(0)
    last = [session.feed([token])[0] for token in TOKENS]
    np.testing.assert_allclose(last, whole, atol=1e-5)


@pytest.mark.parametrize(("cache", "error"), [("f16", 1e-3), ("bf16", 1e-2), ("q8", 1e-2)])
def test_smaller_caches(cache: str, error: float, tiny_path: Path, model: LanguageModel) -> None:
    model.session.truncate(0)
    wanted = model.session.feed(TOKENS, every=True)
    small = load(tiny_path, threads=1, context=48, cache=cache)
    found = small.session.feed(TOKENS[:7], every=True)
    found = np.concatenate([found, *(small.session.feed([token]) for token in TOKENS[7:])])
    assert 0 < np.abs(found - wanted).max() < error * np.ptp(wanted)
    assert small.step.inputs[2].dtype.name == cache.replace("q", "s")
    elements = 2 * 48 * 16  # keys and values of 48 tokens, of one head of 16
    assert small.session.nbytes == elements * {"f16": 2, "bf16": 2, "q8": 1}[cache] + (
        2 * 48 * 4
    ) * (cache == "q8")
    small.session.truncate(4)
    again = [small.session.feed([token])[0] for token in TOKENS[4:]]
    np.testing.assert_allclose(again, found[4:], atol=1e-4)


def test_an_unknown_type_of_caches(tiny_path: Path) -> None:
    with pytest.raises(UserError, match="cache must be one of f32, f16, bf16, q8, got 'q4'"):
        load(tiny_path, cache="q4")


@pytest.fixture(scope="module")
def windows(tmp_path_factory: pytest.TempPathFactory) -> LanguageModel:
    """A model of two layers, of which one sees 8 tokens."""
    more = {
        "attention.sliding_window": 8,
        "attention.sliding_window_pattern": np.array([True, False]),
    }
    tiny = TinyDecoder(
        "gemma3", width=32, heads=2, kv_heads=2, hidden=32, kinds=("q8_0",), more=more
    )
    return load(tiny.write(tmp_path_factory.mktemp("w") / "w.gguf")[0], threads=1, context=96)


def in_chunks(model: LanguageModel, chunk: int) -> Session:
    """A session whose buffers of layers with a window have room for it and two chunks."""
    config, caches = model.source.config, model.source.caches(F32)
    buffers = CacheBuffers(caches, config.kv_heads, 96, chunk, config.window)
    return Session(config.vocabulary, model.step, model.source.embed, buffers, 96, chunk)


@pytest.mark.parametrize("chunk", [1, 4, 5])
def test_layers_with_a_window_keep_only_its_tokens(chunk: int, windows: LanguageModel) -> None:
    tokens = np.random.default_rng(0).integers(3, 300, 90).tolist()
    windows.session.truncate(0)
    wanted = windows.session.feed(tokens, every=True)
    session = in_chunks(windows, chunk)
    row = 2 * 2 * 16 * 4  # keys and values of two heads of 16
    assert session.nbytes == row * (96 + 7 + 2 * chunk) and windows.session.nbytes == row * 2 * 96
    found = session.feed(tokens[:70], every=True)
    found = np.concatenate([found, *(session.feed([token]) for token in tokens[70:])])
    np.testing.assert_allclose(found, wanted, atol=2e-5)
    for length in (89, 60, 1, 0):  # within the buffer, and before it
        session.truncate(length)
        again = session.feed(tokens[length : length + 3], every=True)
        np.testing.assert_allclose(again, wanted[length : length + 3], atol=2e-5)
    session.truncate(0)
    session.feed(tokens)
    shared = session.reuse([*tokens[:20], 5, 6])
    assert shared == [*tokens[:20], 5, 6] and not session.tokens, "its window is gone"
    assert np.isfinite(session.feed(shared)).all()


def test_a_step_that_is_interrupted_keeps_whole_chunks(windows: LanguageModel) -> None:
    session, tokens = in_chunks(windows, 4), list(range(3, 23))
    wanted = session.feed(tokens, every=True)
    session.truncate(0)
    step, calls = session._step, []

    def interrupted(*arrays: Array) -> tuple[Array, ...]:
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return step(*arrays)

    session._step = interrupted
    with pytest.raises(KeyboardInterrupt):
        session.feed(tokens)
    assert session.tokens == tokens[:8]
    np.testing.assert_allclose(session.feed(tokens[8:], every=True), wanted[8:], atol=2e-5)


def test_truncated_tokens_are_forgotten(model: LanguageModel) -> None:
    session = model.session
    session.truncate(0)
    session.feed(TOKENS[:5])
    wanted = session.feed(TOKENS[5:8])
    session.truncate(5)
    session.feed([200, 201, 202, 203])
    session.truncate(5)
    np.testing.assert_array_equal(session.feed(TOKENS[5:8]), wanted)
    with pytest.raises(UserError, match=r"in \[0, 8\], got 9"):
        session.truncate(9)


def test_common_beginnings_are_reused(model: LanguageModel) -> None:
    session = model.session
    session.truncate(0)
    session.feed(TOKENS)
    assert session.reuse([*TOKENS[:6], 50, 51]) == [50, 51] and len(session.tokens) == 6
    session.feed([50, 51])
    assert session.reuse([*TOKENS[:6], 50, 51]) == [51], (
        "the last token is fed again for its logits"
    )
    assert session.reuse([9]) == [9] and not session.tokens


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        ([], "got none"),
        ([300], r"\[0, 300\), got 300"),
        ([-1], "got -1"),
        ([1] * 49, "48 at most, got 49"),
    ],
)
def test_wrong_tokens_are_refused(model: LanguageModel, tokens: list[int], message: str) -> None:
    model.session.truncate(0)
    with pytest.raises(UserError, match=message):
        model.session.feed(tokens)
    assert not model.session.tokens


def test_long_factors_begin_beyond_the_original_length(tmp_path: Path) -> None:
    """A context as long as the original one takes the short factors, as if there were no others."""

    def rotary(name: str, factors: dict[str, Array], context: int) -> Rotary:
        tiny = TinyDecoder("phi3", layers=1, more={"rope.scaling.original_context_length": 256})
        path = write_gguf(tmp_path / name, tiny.metadata(), tiny.tensors() | factors)
        return decoder_config(read_gguf(path), context).rotary

    short, long = (np.linspace(1, last, 8, dtype=np.float32) for last in (2, 9))
    both = {"rope_factors_short.weight": short, "rope_factors_long.weight": long}
    wanted = {
        n: rotary(f"{n}.gguf", {"rope_freqs.weight": one}, 256)
        for n, one in (("short", short), ("long", long))
    }
    assert rotary("both.gguf", both, 256) == wanted["short"] != wanted["long"]
    assert rotary("both.gguf", both, 257) == wanted["long"]
