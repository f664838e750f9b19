"""Prompts that are continued together: the texts of each alone, whatever their lengths and where they end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphc.base.dtypes import S8
from graphc.base.errors import UserError
from graphc.language_models import LanguageModel, load
from graphc.language_models.batch import Batch
from support.gguf_files import TinyDecoder

PROMPTS = ["hello world hello", "h", "hello world", "w", "world world world world hello", "hello"]


@pytest.fixture(scope="module")
def rounded(tmp_path_factory: pytest.TempPathFactory) -> LanguageModel:
    """A decoder with a window of 8, which each text passes, caches and activations of bytes."""
    tiny = TinyDecoder(
        "gemma3", layers=1, width=64, heads=2, kv_heads=1, hidden=64, kinds=("q8_0",)
    )
    metadata = tiny.metadata
    tiny.metadata = lambda: metadata() | {"gemma3.attention.sliding_window": 8}  # type: ignore[method-assign]
    path, _ = tiny.write(tmp_path_factory.mktemp("gguf") / "tiny.gguf")
    return load(path, threads=1, context=48, activations="q8", cache="q8")


@pytest.fixture(params=["model", "rounded"])
def either(request: pytest.FixtureRequest) -> LanguageModel:
    found = request.getfixturevalue(request.param)
    assert isinstance(found, LanguageModel)
    return found


WAYS: list[dict[str, Any]] = [
    {}, {"temperature": 1.2, "seed": 3}, {"temperature": 1.0, "seed": 1, "stop": ["l", "o"]},
    {"temperature": 1.0, "seed": 5, "repetition_penalty": 1.3},
]  # fmt: skip


@pytest.mark.parametrize("how", WAYS, ids=str)
def test_texts_are_those_of_each_alone(either: LanguageModel, how: dict[str, Any]) -> None:
    alone = either.generate(PROMPTS, 20, batch=1, **how)
    new = either.usage.new
    for count in (2, 4, 32):
        assert either.generate(PROMPTS, 20, batch=count, **how) == alone
        assert either.usage.new == new
        tokens = sum(len(either.tokens_of(one)) for one in PROMPTS)
        assert either.usage.prompt + either.usage.reused == tokens


def test_the_context_ends_each_text(either: LanguageModel) -> None:
    prompts = [[5] * 47, [6] * 48, [7] * 28]
    alone = either.generate(prompts, 30, batch=1)
    assert either.usage.new == 2 + 1 + 21
    assert either.generate(prompts, 30, batch=3) == alone
    assert either.generate(prompts, 0) == ["", "", ""]


def test_logits_are_those_of_a_sequence_alone(either: LanguageModel) -> None:
    """The last sequence takes the row of one that ends."""
    step, config = either.batch_step, either.config
    assert step is not None
    caches = either.source.caches(either.cache)
    batch = Batch(step, either.source.embed, caches, config.kv_heads, 3, 48)
    prompts = [list(range(3, 3 + n)) for n in (2, 17, 9)]
    for prompt in prompts:
        either.session.truncate(0)
        either.session.feed(prompt)
        batch.add(either.session)
    batch.feed([30, 31, 32])
    batch.remove(0)
    found = batch.feed([40, 41])
    for row, prompt, tokens in zip(
        found, (prompts[2], prompts[1]), ((32, 40), (31, 41)), strict=True
    ):
        either.session.truncate(0)
        for part in (prompt, *([token] for token in tokens)):
            wanted = either.session.feed(part)[0]
        if either.cache == S8:  # and activations of 8 bits
            np.testing.assert_array_equal(row, wanted)
        assert np.abs(row - wanted).max() < 1e-5 * np.abs(wanted).max()


def test_refused(either: LanguageModel) -> None:
    for count in (0, 33):
        with pytest.raises(UserError, match=rf"batch must be an integer in \[1, 32\], got {count}"):
            either.generate(PROMPTS, batch=count)
    with pytest.raises(UserError, match="there must be a token"):
        either.generate([[5], []])
    with pytest.raises(UserError, match="48 at most, got 49"):
        either.generate([[5], [5] * 49])


@pytest.mark.exhaustive
def test_heads_and_experts_of_other_architectures(tmp_path: Path) -> None:
    tiny = TinyDecoder(
        "qwen3moe", layers=1, width=64, heads=2, kv_heads=2, hidden=64, kinds=("q4_0",)
    )
    model = load(tiny.write(tmp_path / "tiny.gguf")[0], threads=2, context=32)
    assert model.generate(PROMPTS, 6, batch=4) == model.generate(PROMPTS, 6, batch=1)
