"""Vocabularies that do not fit a model, or would take minutes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphc.base.errors import UnsupportedError, UserError
from graphc.frontend.gguf import read_gguf
from graphc.language_models.tokenizer import Tokenizer, tokenizer_of
from graphc.language_models.tokenizer.vocabulary import BYTE, MAX_SPECIAL, NORMAL, USER_DEFINED
from support.gguf_files import TinyDecoder

TINY = TinyDecoder("llama", layers=1, width=32, heads=2, kv_heads=1, hidden=32, kinds=("q8_0",))
KEYS = TINY.metadata()
TEXTS: list[bytes] = KEYS["tokenizer.ggml.tokens"]
KINDS: np.ndarray = KEYS["tokenizer.ggml.token_type"]


def tokenizer(folder: Path, more: dict[str, Any]) -> Tokenizer:
    tiny = TinyDecoder(**vars(TINY))
    tiny.metadata = lambda: KEYS | {f"tokenizer.ggml.{key}": one for key, one in more.items()}  # type: ignore[method-assign]
    return tokenizer_of(read_gguf(tiny.write(folder / "tiny.gguf")[0]))


def kinds(changes: dict[int, int]) -> np.ndarray:
    found = KINDS.copy()
    found[list(changes)] = list(changes.values())
    return found


@pytest.mark.parametrize(
    ("more", "rule"),
    [
        (
            {"tokens": TEXTS[:280], "scores": np.zeros(280, np.float32), "token_type": KINDS[:280]},
            "a text for each row of the 300 of 'token_embd.weight', got 280",
        ),
        (
            {"tokens": [*TEXTS, b"x"], "scores": np.zeros(301, np.float32), "token_type": np.append(KINDS, KINDS[-1])},
            "a text for each row of the 300 of 'token_embd.weight', got 301",
        ),
        ({"tokens": [*TEXTS[:9], b"<0xZZ>", *TEXTS[10:]]}, "must be '<0x00>' to '<0xFF>', got b'<0xZZ>'"),
        ({"tokens": [*TEXTS[:9], b"", *TEXTS[10:]]}, "tokens of bytes must be"),
        ({"token_type": kinds({270: BYTE})}, "tokens of bytes must be"),
        ({"model": "gpt2", "pre": "gpt-2", "merges": np.arange(3, dtype=np.int32)}, "must be pairs of tokens"),
    ],
)  # fmt: skip
def test_holes(more: dict[str, Any], rule: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=rule):
        tokenizer(tmp_path, more)


def test_giant_special_tokens_are_refused(tmp_path: Path) -> None:
    giant = [*TEXTS[:-1], b"x" * (MAX_SPECIAL + 1)]
    found = tokenizer(tmp_path, {"tokens": giant, "token_type": kinds({299: USER_DEFINED})})
    with pytest.raises(UnsupportedError, match="special tokens of 524289 bytes in all"):
        found.encode("hello")
    assert tokenizer(tmp_path, {"tokens": giant, "token_type": kinds({299: NORMAL})}).encode(
        "hello"
    )


def test_any_kinds_and_texts_are_decoded(tmp_path: Path) -> None:
    """Unknown kinds, texts that are empty, equal or not UTF-8."""
    for texts in ([b""] * 41, [b"a"] * 41, [b"\xff\xfe" + bytes([i]) for i in range(41)]):
        for kind in (-1, 0, NORMAL, 99):
            column = kinds(dict.fromkeys(range(259, 300), kind))
            one = tokenizer(tmp_path, {"tokens": [*TEXTS[:259], *texts], "token_type": column})
            one.decode(range(300))
            text = one.decode(one.encode("hello é \x00"))
            assert text.replace("▁", " ") == "hello é \x00", "no token of a space in bytes"


def test_changed_vocabularies_are_read_or_refused_in_a_sentence(tmp_path: Path) -> None:
    path, _ = TINY.write(tmp_path / "tiny.gguf")
    data, rng, read = path.read_bytes(), np.random.default_rng(0), 0
    first, end = data.index(b"tokenizer."), data.index(b"token_embd")
    for _ in range(400):
        changed = bytearray(data)
        for at in rng.integers(first, end, 2).tolist():
            changed[at] = int(
                rng.choice([0, 1, 4, 6, 8, 9, 127, 128, 255, *rng.integers(0, 256, 2)])
            )
        path.write_bytes(changed)
        try:
            one = tokenizer_of(read_gguf(path))
            one.decode([*range(300), *one.encode("hello é <s>", control=True)], control=True)
            read += 1
        except (UserError, UnsupportedError) as error:
            assert len(str(error)) < 400 and "\n" not in str(error)
    assert read > 20
