"""Merges by score, beside a search through all pairs; special tokens; text that is not UTF-8."""

from __future__ import annotations

import random

import numpy as np

from graphc.language_models.tokenizer import Tokenizer
from graphc.language_models.tokenizer.pieces import Pieces
from graphc.language_models.tokenizer.vocabulary import (
    BYTE,
    CONTROL,
    NORMAL,
    USER_DEFINED,
    Vocabulary,
)


def vocabulary(words: dict[str, float], special: dict[str, int] | None = None) -> Vocabulary:
    special = special or {}
    texts = [b"<0x%02X>" % byte for byte in range(256)]
    texts += [word.encode() for word in (*words, *special)]
    kinds = [BYTE] * 256 + [NORMAL] * len(words) + list(special.values())
    scores = [0.0] * 256 + list(words.values()) + [0.0] * len(special)
    return Vocabulary(texts, np.array(kinds), np.array(scores), None, frozenset(), None, None)


def searched(known: dict[str, float], text: str) -> list[str]:
    """The best pair of all, again and again."""
    pieces = list(text)
    while True:
        pairs = [
            (-known[a + b], i)
            for i, (a, b) in enumerate(zip(pieces, pieces[1:], strict=False))
            if a + b in known
        ]
        if not pairs:
            return pieces
        at = min(pairs)[1]
        pieces[at : at + 2] = [pieces[at] + pieces[at + 1]]


def test_random_vocabularies() -> None:
    rng = random.Random(0)
    for _ in range(60):
        words = {"".join(rng.choices("ab▁", k=rng.randint(1, 5))) for _ in range(40)} | set("ab▁")
        known = {word: float(-rng.randint(0, 30)) for word in sorted(words)}
        pieces, found = Pieces(all_ := vocabulary(known), adds_space=False), []
        text = "".join(rng.choices("ab ", k=rng.randint(0, 40)))
        found = [all_.texts[n].decode() for n in pieces.encode(text.encode(), True)]
        assert found == searched(known, text.replace(" ", "▁"))


def test_long_text_takes_time_that_grows_slowly() -> None:
    pieces = Pieces(vocabulary({"a": 0, "aa": -1, "aaaa": -2}), adds_space=False)
    assert len(pieces.encode(b"a" * 100_000, True)) == 25_000


def test_special_tokens_spaces_and_bytes() -> None:
    known = {"▁": -9.0, "▁a": -1.0, "a": -2.0, "b": -3.0, "▁▁": -4.0}
    special = {"<end>": CONTROL, "<b>": USER_DEFINED, "<b><b>": USER_DEFINED}
    words = vocabulary(known, special)
    tokenizer = Tokenizer(words, Pieces(words, adds_space=True), is_byte_level=False)

    def texts(text: str | bytes, control: bool = False) -> list[str]:
        return [words.texts[n].decode() for n in tokenizer.encode(text, control=control)]

    assert texts("a b") == ["▁a", "▁", "b"]
    assert texts("a  a") == ["▁a", "▁", "▁a"]
    assert texts("a<b>a") == ["▁a", "<b>", "▁a"]
    assert texts("<b><b><b>") == ["<b><b>", "<b>"], "the longest first"
    assert texts("<end>", control=True) == ["<end>"] and len(texts("<end>")) > 3
    assert texts("é") == ["▁", "<0xC3>", "<0xA9>"] and texts(b"\xff") == ["▁", "<0xFF>"]
    assert texts(b"a\xe2\x96") == ["▁a", "<0xE2>", "<0x96>"] and texts("") == []
    assert tokenizer.decode(tokenizer.encode("a é  b<b>")) == " a é  b<b>"
    end = words.numbers[b"<end>"]
    assert tokenizer.decode([end]) == "" and tokenizer.decode([end], control=True) == "<end>"
