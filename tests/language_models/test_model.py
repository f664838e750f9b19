"""Generation: limits, ends, streams, and what stays of a call for the next."""

from __future__ import annotations

import math
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphc.base.errors import UserError
from graphc.language_models import LanguageModel, load
from graphc.language_models.tokenizer import Tokenizer
from support.process import run_python


def greedy(model: LanguageModel, tokens: list[int], count: int) -> list[int]:
    """The likeliest tokens, each from the logits of the whole text."""
    found: list[int] = []
    for _ in range(count):
        model.session.truncate(0)
        found.append(int(model.session.feed([*tokens, *found])[-1].argmax()))
    return found


def test_the_likeliest_tokens_follow(model: LanguageModel) -> None:
    prompt = model.tokens_of("hello world")
    assert prompt == [1, 271, 276]
    wanted = greedy(model, prompt, 8)
    assert not model.tokenizer.ends & set(wanted), "none of them ends the text"
    text = model.tokenizer.decode(wanted)
    assert model.generate("hello world", 8) == text
    assert model.usage.new == 8 and model.usage.prompt + model.usage.reused == 3
    assert "".join(model.generate(prompt, 8, stream=True)) == text
    assert model.usage.reused == 2, "the last token of the prompt is fed again"
    assert model.generate("hello world", 0) == ""


def test_weights_on_huge_pages_give_the_same_text(model: LanguageModel, tiny_path: Path) -> None:
    copied = load(tiny_path, context=48, huge_pages=True)
    artifact, mapped = copied.step.artifact, model.step.artifact
    assert np.array_equal(artifact.constants, mapped.constants)
    assert artifact.constants.base is not None and not artifact.constants.flags.writeable
    assert artifact.constants.ctypes.data % 64 == 0
    assert copied.generate("hello world", 8) == model.generate("hello world", 8)


def test_several_prompts_give_the_texts_of_each_alone(model: LanguageModel) -> None:
    prompts = ["hello world hello", "h", "hello world", "hello"]
    ways: list[dict[str, Any]] = [{}, {"temperature": 0.9, "seed": 3, "lookup": 2}]
    for how in ways:
        alone, new = list[str](), 0
        for prompt in prompts:
            model.session.truncate(0)
            alone.append(model.generate(prompt, 7, **how))
            new += model.usage.new
        assert model.generate(prompts, 7, **how) == alone
        usage = model.usage
        assert usage.new == new
        assert usage.prompt + usage.reused == sum(len(model.tokens_of(one)) for one in prompts)
        assert model.generate([model.tokens_of(one) for one in prompts], 7, **how) == alone
    with pytest.raises(UserError, match="stream takes one prompt"):
        model.generate(prompts, stream=True)  # type: ignore[call-overload]


def test_the_context_ends_a_text(model: LanguageModel) -> None:
    model.generate("hello", 100)
    assert len(model.session.tokens) <= model.session.context == 48
    with pytest.raises(UserError, match="48 at most, got 60"):
        model.generate([5] * 60)


def test_texts_end_before_a_stop_text_and_at_a_token_that_ends(model: LanguageModel) -> None:
    text = model.generate("hello world", 8)
    stop = text[3:5]
    assert model.generate("hello world", 8, stop=stop) == text[: text.index(stop)]
    last = greedy(model, model.tokens_of("hello world"), 3)[2]
    tokenizer = model.tokenizer
    assert isinstance(tokenizer, Tokenizer)
    kept = tokenizer.ends
    try:
        object.__setattr__(tokenizer.vocabulary, "ends", kept | {last})
        model.generate("hello world", 8)
        assert model.usage.new == 2
    finally:
        object.__setattr__(tokenizer.vocabulary, "ends", kept)


def test_bytes_of_a_character_arrive_together(
    model: LanguageModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    euro = [3 + byte for byte in "€".encode()]
    monkeypatch.setattr(model, "stream_tokens", lambda *_: iter([*euro, euro[0], 271]))
    assert list(model.generate("hello", stream=True)) == [
        "",
        "",
        "€",
        "",
        "\N{REPLACEMENT CHARACTER}hello",
        "",
    ]


def test_perplexity_is_that_of_the_logits(model: LanguageModel) -> None:
    text = "hello world hello world" * 3
    tokens = model.tokenizer.encode(text)
    model.session.truncate(0)
    logits = model.session.feed(tokens[:-1], every=True).astype(np.float64)
    shares = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    wanted = math.exp(-np.log(shares[np.arange(len(tokens) - 1), tokens[1:]]).mean())
    assert model.perplexity(text) == pytest.approx(wanted, rel=1e-5)
    assert model.perplexity(text * 9) > 1, "longer than the context"
    with pytest.raises(UserError, match="two tokens at least"):
        model.perplexity("")


def test_wrong_arguments(model: LanguageModel, tiny_path: Path) -> None:
    with pytest.raises(UserError, match="those of Sampling, got 'heat'"):
        model.generate("hello", heat=1)
    with pytest.raises(UserError, match="no chat template"):
        model.generate([{"role": "user", "content": "hi"}])
    with pytest.raises(UserError, match=r"in \[1, 512\], got 513"):
        load(tiny_path, context=513)
    with pytest.raises(UserError, match="got none"):
        model.generate([])


WRONG: list[tuple[str, Any]] = [
    *(("temperature", value) for value in (-1, math.nan, math.inf, "1", None)),
    *(("top_p", value) for value in (0, 1.5, math.nan, "x")),
    *(("min_p", value) for value in (-0.1, 2, None)),
    *(("repetition_penalty", value) for value in (0, math.nan, math.inf, "x")),
    *(("top_k", value) for value in (-1, 2.5, "x")),
    *(("seed", value) for value in (-1, 1.5, "x")),
    *(("max_tokens", value) for value in (-1, 1.5, "3", None)),
    *(("lookup", value) for value in (-1, 17, 1.5, "x")),
    *(("batch", value) for value in (0, 33, 2.5, "x")),
    *(("stop", value) for value in (5, None, b"x", [5], [None])),
]


@pytest.mark.parametrize(("name", "value"), WRONG)
def test_arguments_outside_of_their_range(model: LanguageModel, name: str, value: Any) -> None:
    for prompt in ("hello", ["hello", "world"]):
        with pytest.raises(UserError, match=f"^{name} must be "):
            model.generate(prompt, **{"max_tokens": 3} | {name: value})  # type: ignore[call-overload]


@pytest.mark.parametrize(
    "prompt",
    [
        None, 5, b"abc", [b"abc"], {"role": "user", "content": "x"}, {1, 2}, [1.5], [None], iter([1, 2]), ["a", None],
        [[1], {2}], np.array([1.0]), [{"role": "user", "content": "x"}, 3],
    ],
)  # fmt: skip
def test_what_is_no_prompt(model: LanguageModel, prompt: Any) -> None:
    with pytest.raises(
        UserError, match="a prompt must be a text, a list of tokens or a list of messages"
    ):
        model.generate(prompt, 3)


def test_arrays_are_lists_of_tokens(model: LanguageModel) -> None:
    tokens = np.array([[1, 9], [1, 8]])
    alone = [model.generate(one.tolist(), 4) for one in tokens]
    assert model.generate(tokens[0], 4) == alone[0] and model.generate(tokens, 4) == alone  # type: ignore[call-overload]


def test_streams_take_turns(model: LanguageModel) -> None:
    """Streams of one model, other calls between their tokens, and streams that are dropped."""
    prompts = ["hello world", "world", "he"]
    alone = [model.generate(one, 9) for one in prompts]
    for lookup in (0, 4):
        streams = [model.generate(one, 9, stream=True, lookup=lookup) for one in prompts]
        dropped = model.generate([1, 9, 9, 9, 9], 9, stream=True, lookup=8)
        next(dropped)
        texts = ["", "", ""]
        for _ in range(12):
            for i, stream in enumerate(streams):
                texts[i] += next(stream, "")
            model.session.truncate(0)
            dropped = iter(())
        assert texts == alone


FORKS = """
import os, signal, sys
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from graphc.language_models import load

model = load(sys.argv[1], threads=1, context=48)
wanted, ended = model.generate("hello", 8), Event()

def busy():
    while not ended.is_set():
        model.generate("hello world", 20)

with ThreadPoolExecutor(1) as pool:
    other = pool.submit(busy)
    for _ in range(4):
        child = os.fork()
        if not child:
            signal.alarm(30)
            os._exit(model.generate("hello", 8) != wanted)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    ended.set()
    other.result()
print(model.generate("hello", 8) == wanted)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_child_process_goes_on_where_a_thread_was_in_a_call(tiny_path: Path) -> None:
    """In a process without other libraries, some of which warn of forks."""
    done = run_python("-c", FORKS, str(tiny_path))
    assert done.stdout.strip() == "True", done.stderr


def test_threads_may_call_one_model(model: LanguageModel) -> None:
    prompts = ["hello world", "world", "he", "hello"] * 3
    alone = [model.generate(one, 12) for one in prompts]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda one: model.generate(one, 12), prompts)) == alone
