"""Tokens of 1,000 texts are those of llama.cpp, where the package `xllamacpp` is installed."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphc.frontend.gguf import read_gguf
from graphc.language_models.tokenizer import tokenizer_of
from graphc.language_models.tokenizer.byte_pairs import PATTERNS
from graphc.language_models.tokenizer.vocabulary import CONTROL, END_TEXTS, NORMAL, USER_DEFINED
from support.gguf_files import TinyDecoder, vocabulary
from support.llama_cpp import LlamaCppTokenizer
from support.tokenizer_texts import texts

pytest.importorskip("xllamacpp")


def assert_tokens_are_equal(path: Path) -> None:
    """Compare the tokens of all texts, with and without parsing tokens of control."""
    ours, theirs = tokenizer_of(read_gguf(path)), LlamaCppTokenizer(path)
    wrong = []
    for text in texts():
        for control in (False, True):
            found, wanted = ours.encode(text, control=control), theirs.encode(text, control)
            if found != wanted:
                wrong.append((text, control, found, wanted))
    assert not wrong, (len(wrong), wrong[:5])


def test_gemma(gemma: Path) -> None:
    assert_tokens_are_equal(gemma)


@pytest.mark.parametrize("adds_space", [False, True])
def test_pieces_with_and_without_a_space_in_front(adds_space: bool, tmp_path: Path) -> None:
    more = {"tokenizer.ggml.add_space_prefix": adds_space}
    assert_tokens_are_equal(model(tmp_path, vocabulary(300) | more, 300))


@pytest.fixture(scope="module")
def learned() -> tuple[list[str], list[str]]:
    """Tokens and merges, learned from the texts without those that end a text."""
    library = pytest.importorskip("tokenizers")
    special = re.compile(
        "|".join(map(re.escape, (*(one.decode() for one in END_TEXTS), "<|added|>")))
    )
    trained, letters = library.Tokenizer(library.models.BPE()), library.pre_tokenizers.ByteLevel
    trained.pre_tokenizer = letters(add_prefix_space=False, use_regex=False)
    trainer = library.trainers.BpeTrainer(
        vocab_size=900, initial_alphabet=letters.alphabet(), show_progress=False
    )
    trained.train_from_iterator([special.sub("", text) for text in texts()], trainer)
    numbers, found = trained.get_vocab(), json.loads(trained.to_str())["model"]["merges"]
    merges = [one if isinstance(one, str) else " ".join(one) for one in found]
    return sorted(numbers, key=numbers.__getitem__), merges


@pytest.mark.parametrize("name", PATTERNS)
def test_byte_pairs(name: str, learned: tuple[list[str], list[str]], tmp_path: Path) -> None:
    words, merges = learned
    special = {"<|endoftext|>": CONTROL, "<|im_end|>": NORMAL, "<|added|>": USER_DEFINED}
    all_words, end = [*words, *special], len(words)
    kinds = np.array([NORMAL] * end + list(special.values()), np.int32)
    metadata = {
        "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": name, "tokenizer.ggml.merges": merges,
        "tokenizer.ggml.tokens": [word.encode() for word in all_words], "tokenizer.ggml.token_type": kinds,
        "tokenizer.ggml.eos_token_id": end, "tokenizer.ggml.bos_token_id": end,
    }  # fmt: skip
    assert_tokens_are_equal(model(tmp_path, metadata, len(all_words)))


def model(folder: Path, metadata: dict[str, Any], tokens: int) -> Path:
    """Write a decoder with a tokenizer."""
    tiny = TinyDecoder(
        "llama", layers=1, width=32, heads=2, kv_heads=1, hidden=32, vocabulary=tokens
    )
    own = {key: one for key, one in tiny.metadata().items() if not key.startswith("tokenizer.")}
    tiny.metadata = lambda: own | metadata  # type: ignore[method-assign]
    return tiny.write(folder / "tiny.gguf")[0]
