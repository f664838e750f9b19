"""Byte-level BPE: letters for bytes, pre-tokenizers by name, and files that fit no rule."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from graphc.base.errors import UnsupportedError, UserError
from graphc.frontend.gguf import read_gguf
from graphc.language_models.tokenizer import Tokenizer, tokenizer_of
from graphc.language_models.tokenizer.byte_pairs import bytes_of_letters
from support.gguf_files import write_gguf

MERGES = ["h e", "l l", "he ll", "hell o", "Ġ w", "1 2", "12 3", "3 4"]


def tokenizer(tmp_path: Path, **more: Any) -> Tokenizer:
    letters = [letter.encode() for letter in bytes_of_letters()]
    made = [merge.replace(" ", "").encode() for merge in MERGES]
    texts = [*letters, *made, b"<|end|>", b"Hi"]
    metadata = {
        "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "qwen2", "tokenizer.ggml.tokens": texts,
        "tokenizer.ggml.merges": MERGES, "tokenizer.ggml.eos_token_id": len(texts) - 2,
    }  # fmt: skip
    return tokenizer_of(read_gguf(write_gguf(tmp_path / "m.gguf", metadata | more, {})))


def texts(one: Tokenizer, text: str | bytes) -> list[str]:
    return [one.vocabulary.texts[n].decode() for n in one.encode(text)]


def test_letters_stand_for_all_bytes() -> None:
    assert sorted(bytes_of_letters().values()) == list(range(256))
    assert bytes_of_letters()["Ġ"] == 32 and bytes_of_letters()["a"] == 97


def test_words_are_cut_and_merged(tmp_path: Path) -> None:
    one = tokenizer(tmp_path)
    assert texts(one, "hello world") == ["hello", "Ġw", "o", "r", "l", "d"]
    assert texts(one, "123") == ["1", "2", "3"], "qwen2 cuts digits"
    assert one.decode(one.encode("hello é\n\t €")) == "hello é\n\t €"
    assert one.vocabulary.ends == {len(one.vocabulary.texts) - 2}
    assert one.vocabulary.bos is None
    end = len(one.vocabulary.texts) - 2
    assert end not in one.encode("<|end|>") and one.encode("<|end|>", control=True) == [end]
    assert one.decode([end]) == "", (
        "a text that ends replies is a control token, whatever the file calls it"
    )
    llama = tokenizer(tmp_path, **{"tokenizer.ggml.pre": "llama-bpe"})
    assert texts(llama, "1234") == ["123", "4"], "three digits at a time"
    assert texts(llama, "Hi") == ["Hi"] and texts(one, "Hi") == ["H", "i"]


@pytest.mark.parametrize(
    ("name", "digits", "word"),
    [
        ("default", "5 12 3", "H i"), ("gpt-2", "5 123", "H i"), ("smollm", "5 1 2 3", "H i"),
        ("llama-bpe", "5 12 3", "Hi"), ("smaug-bpe", "5 12 3", "H i"), ("dbrx", "5 12 3", "H i"),
        ("qwen2", "5 1 2 3", "H i"), ("gpt-4o", "5 12 3", "H i"), ("tekken", "5 1 2 3", "Hi"),
    ],
)  # fmt: skip
def test_digits_and_whole_words_as_llama_cpp_has_them(
    name: str, digits: str, word: str, tmp_path: Path
) -> None:
    one = tokenizer(tmp_path, **{"tokenizer.ggml.pre": name})
    assert texts(one, "5123") == digits.split()
    assert texts(one, "Hi") == word.split()


def test_a_file_without_a_name_has_the_default(tmp_path: Path) -> None:
    one = tokenizer(tmp_path, **{"tokenizer.ggml.pre": "default"})
    raw = (tmp_path / "m.gguf").read_bytes().replace(b"tokenizer.ggml.pre", b"tokenizer.ggml.prx")
    (tmp_path / "n.gguf").write_bytes(raw)
    other = tokenizer_of(read_gguf(tmp_path / "n.gguf"))
    assert texts(other, "5123 hello") == texts(one, "5123 hello")


@pytest.mark.parametrize(
    ("name", "begins"), [("llama-bpe", True), ("tekken", True), ("qwen2", False)]
)
def test_a_text_begins_with_a_token_where_the_file_does_not_say(
    name: str, begins: bool, tmp_path: Path
) -> None:
    """Files of Llama 3 leave it to the pre-tokenizer."""
    more: dict[str, Any] = {"tokenizer.ggml.pre": name, "tokenizer.ggml.bos_token_id": 7}
    assert tokenizer(tmp_path, **more).encode("h")[0] == (7 if begins else 71)
    more["tokenizer.ggml.add_bos_token"] = not begins
    assert tokenizer(tmp_path, **more).encode("h")[0] == (71 if begins else 7)


@pytest.mark.parametrize(
    ("more", "error", "message"),
    [
        ({"tokenizer.ggml.pre": "deepseek-x"}, UnsupportedError, "pre-tokenizer 'deepseek-x'"),
        ({"tokenizer.ggml.model": "t5"}, UnsupportedError, "tokenizer model 't5'"),
        ({"tokenizer.ggml.merges": ["ab"]}, UserError, "pairs of tokens"),
        ({"tokenizer.ggml.merges": []}, UserError, "pairs of tokens"),
        ({"tokenizer.ggml.tokens": 5}, UserError, "list of texts"),
        ({"tokenizer.ggml.eos_token_id": 99999}, UserError, "must be a token below"),
    ],
)
def test_what_is_refused(
    tmp_path: Path, more: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        tokenizer(tmp_path, **more)
