"""Arguments of callers: integers, prompts and stop texts of any kind, or one sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphc.base.errors import UserError
from graphc.language_models import LanguageModel, load


def test_tokens_may_be_arrays(model: LanguageModel) -> None:
    alone = [model.generate([5, 6], 3), model.generate([7], 3)]
    arrays: tuple[Any, Any] = np.array([5, 6]), [np.array([5, 6]), (np.int64(7),)]
    assert model.generate(arrays[0], 3) == alone[0]
    assert model.generate(arrays[1], 3) == alone
    limit: Any = np.int64(3)
    assert model.generate("hello", limit, stop=()) == model.generate("hello", 3, stop="")


WRONG: list[tuple[Any, dict[str, Any], str]] = [
    (None, {}, "must be a text, tokens or messages, got None"), (5, {}, "messages, got 5"),
    (b"hello", {}, "messages, got b'hello'"), ([1.5], {}, "got 1.5 in one"), ([[5], [None]], {}, "got None in one"),
    ([5, True], {}, "got True in one"), ("hello", {"max_tokens": -1}, "max_tokens must be an integer of at least 0"),
    ("hello", {"max_tokens": "4"}, "got '4'"), ("hello", {"stop": [None]}, "stop must be a text"),
    ("hello", {"top_k": 2.5}, "top_k must be an integer of at least 0, got 2.5"),
    ("hello", {"seed": -1}, "seed must be an integer"), ("hello", {"temperature": "hot"}, "temperature must be at"),
    ("hello", {"min_p": float("nan")}, "min_p must be in"), ("hello", {"lookup": 0.5}, "lookup must be an integer"),
]  # fmt: skip


@pytest.mark.parametrize(("prompt", "how", "message"), WRONG, ids=str)
def test_one_sentence_for(
    model: LanguageModel, prompt: Any, how: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError, match=message) as raised:
        model.generate(prompt, **how)
    assert "\n" not in str(raised.value)


def test_contexts_and_lengths_are_integers(model: LanguageModel, tiny_path: Path) -> None:
    with pytest.raises(UserError, match=r"the context must be an integer in \[1, 512\], got 8.5"):
        load(tiny_path, context=8.5)  # type: ignore[arg-type]
    with pytest.raises(UserError, match="length must be an integer in"):
        model.session.truncate(0.5)  # type: ignore[arg-type]


@pytest.mark.parametrize("other", ["world", ["hello", "world"]], ids=["one", "several"])
def test_a_stream_does_not_go_on_in_another_text(model: LanguageModel, other: Any) -> None:
    stream = model.generate("hello world", 8, stream=True)
    next(stream)
    text = model.generate(other, 3)
    with pytest.raises(UserError, match="a stream ends where its model begins another text"):
        list(stream)
    assert model.generate(other, 3) == text
