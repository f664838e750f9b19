"""Guesses from the text so far: which ones, and that a text with them is the same."""

from __future__ import annotations

from typing import Any

import pytest

from graphc.base.errors import UserError
from graphc.language_models import LanguageModel
from graphc.language_models.lookup import looked_up


@pytest.mark.parametrize(
    ("tokens", "count", "wanted"),
    [
        ([1, 2, 3, 1, 2], 3, [3, 1, 2]),
        ([1, 2, 3, 1, 2], 1, [3]),
        ([1, 2, 9, 1, 2, 8, 1, 2], 2, [8, 1]),  # the last of two
        ([7, 1, 2, 3, 0, 1, 2, 3], 2, [0, 1]),
        ([5, 6, 2, 3, 9, 1, 2, 3, 8, 6, 2, 3], 2, [9, 1]),  # after a longer match, further back
        ([1, 2, 3, 3], 4, []),  # one token says too little
        ([4, 4, 4], 4, [4]),
        ([1, 2, 1, 2], 0, []),
        ([1], 4, []),
        ([], 4, []),
    ],
)
def test_what_followed_before_is_guessed(tokens: list[int], count: int, wanted: list[int]) -> None:
    assert looked_up(tokens, count) == wanted


@pytest.mark.parametrize("how", [{}, {"temperature": 0.3, "seed": 3}, {"repetition_penalty": 1.01}])
@pytest.mark.parametrize("prompt", [[1, 5, 6, 7, 5, 6], [1, 9, 9, 9, 9]])
def test_the_text_is_the_same(model: LanguageModel, prompt: list[int], how: dict[str, Any]) -> None:
    model.session.truncate(0)
    wanted = model.generate(prompt, 24, **how)
    for count in (1, 4, 16):
        model.session.truncate(0)
        assert model.generate(prompt, 24, lookup=count, **how) == wanted
        assert model.usage.right <= model.usage.guessed and model.usage.new <= 24
    assert model.usage.guessed, "no guess was tried"


def test_the_session_holds_no_guess(model: LanguageModel) -> None:
    prompt = [1, 9, 9, 9, 9]
    whole = [*model.generate(prompt, 30, stream=True)]
    tokens = list(model.session.tokens)
    pieces = model.generate(prompt, 30, stream=True, lookup=8)
    for _ in range(3):
        next(pieces)
    del pieces  # which ends the iterator
    assert tokens[: len(model.session.tokens)] == model.session.tokens
    assert [*model.generate(prompt, 30, stream=True, lookup=8)] == whole
    assert model.session.tokens == tokens


def test_the_context_limits_guesses(model: LanguageModel) -> None:
    context = model.session.context
    model.generate([1, *[9] * (context - 4)], 40, lookup=16)
    assert len(model.session.tokens) <= context


@pytest.mark.parametrize("count", [-1, 17])
def test_too_many_guesses(model: LanguageModel, count: int) -> None:
    with pytest.raises(UserError, match=r"lookup must be an integer in \[0, 16\]"):
        model.generate([1, 2], 4, lookup=count)
