"""Caches that grow, are cut and reused, give the logits of one long prompt."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from graphc.base.errors import UserError
from graphc.frontend.decoder.config import Rotary
from graphc.frontend.gguf import decoder_config, read_gguf
from graphc.language_models import LanguageModel, load
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


@pytest.mark.parametrize(("cache", "error"), [("f16", 1e-3), ("bf16", 1e-2)])
def test_caches_of_16_bits(cache: str, error: float, tiny_path: Path, model: LanguageModel) -> None:
    model.session.truncate(0)
    wanted = model.session.feed(TOKENS, every=True)
    small = load(tiny_path, threads=1, context=48, cache=cache)
    found = small.session.feed(TOKENS[:7], every=True)
    found = np.concatenate([found, *(small.session.feed([token]) for token in TOKENS[7:])])
    assert 0 < np.abs(found - wanted).max() < error * np.ptp(wanted)
    assert small.step.inputs[2].dtype.name == cache


def test_an_unknown_type_of_caches(tiny_path: Path) -> None:
    with pytest.raises(UserError, match="cache must be one of f32, f16, bf16, got 'q8'"):
        load(tiny_path, cache="q8")


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
