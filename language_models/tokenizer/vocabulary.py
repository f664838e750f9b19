"""The tokens of a file: their texts, kinds, and those with a meaning of their own."""

from __future__ import annotations

import re
from functools import cached_property

import numpy as np

from ...base.errors import UnsupportedError
from ...base.records import dataclass
from ...frontend.gguf import GgufFile

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
"""Kinds of tokens, as files number them."""

_ENDS = ("eos_token_id", "eot_token_id", "eom_token_id")
END_TEXTS = tuple(map(str.encode, (
    "<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<|endoftext|>", "<|eom_id|>", "</s>", "<EOT>", "_<EOT>",
    "<|end_of_text|>", "<eos>", "[EOS]", "[EOT]", "<turn|>", "<end_of_utterance>", "<|return|>", "<|call|>",
    "<|calls|>", "<|flush|>", "<｜end▁of▁sentence｜>",
)))  # fmt: skip
"""Texts of tokens that end a reply, whatever the metadata name: llama.cpp has a list like it."""

WHOLE_FIRST = ("llama-bpe", "llama3", "llama-v3", "tekken")
"""Pre-tokenizers with which a word that is a token is not merged from parts, and a text begins with a token unless the
file says otherwise."""

MAX_SPECIAL = 1 << 19
"""Bytes of the texts of special tokens: Gemma's 6,242 take 64 thousand."""

_BYTE_TEXT = re.compile(rb"<0x[0-9A-Fa-f]{2}>")
_MAY_BE_NORMAL = b"</s>"
"""The one of these that is plain text where the file calls it a normal token."""


@dataclass(frozen=True)
class Vocabulary:
    """Tokens by number; `bos` is None where a text begins without a token, `adds_end` where it ends without one."""

    texts: list[bytes]
    kinds: np.ndarray
    scores: np.ndarray
    bos: int | None
    ends: frozenset[int]
    unknown: int | None
    adds_end: int | None

    @cached_property
    def numbers(self) -> dict[bytes, int]:
        """The number of each text, the last of those that are equal."""
        return {text: number for number, text in enumerate(self.texts)}

    def splitter(self, control: bool) -> re.Pattern[bytes] | None:
        """Return the pattern of the tokens that are found in plain text: those that users defined, and on request those
        of control; longer ones first. Raise UnsupportedError for more than `MAX_SPECIAL` bytes."""
        wanted = (USER_DEFINED, CONTROL, UNKNOWN) if control else (USER_DEFINED,)
        numbers = np.flatnonzero(np.isin(self.kinds, wanted))
        texts = sorted(
            {self.texts[n] for n in numbers.tolist()} - {b""}, key=lambda text: (-len(text), text)
        )
        size = sum(map(len, texts))
        if size > MAX_SPECIAL:
            what = f"special tokens of {size} bytes in all are not supported, {MAX_SPECIAL} at most"
            raise UnsupportedError(what, "give a model whose vocabulary is not corrupt")
        return re.compile(b"|".join(map(re.escape, texts))) if texts else None


def vocabulary_of(file: GgufFile) -> Vocabulary:
    """Read the vocabulary of a file. Raise UserError if its parts do not fit together."""
    texts = file.metadata.get("tokenizer.ggml.tokens")
    if not isinstance(texts, list) or not all(isinstance(text, bytes) for text in texts):
        raise file.rule("'tokenizer.ggml.tokens' must be a list of texts", type(texts).__name__)
    table = file.tensors.get("token_embd.weight")
    if table is not None and table.dims[0] != len(texts):
        rule = f"'tokenizer.ggml.tokens' must have a text for each row of the {table.dims[0]} of 'token_embd.weight'"
        raise file.rule(rule, str(len(texts)))
    kinds = _column(file, "token_type", len(texts), NORMAL)
    wrong = [
        n for n in np.flatnonzero(kinds == BYTE).tolist() if not _BYTE_TEXT.fullmatch(texts[n])
    ]
    if wrong:
        raise file.rule("tokens of bytes must be '<0x00>' to '<0xFF>'", repr(texts[wrong[0]])[:40])
    special = {
        name: _token(file, name, len(texts))
        for name in ("bos_token_id", "unknown_token_id", *_ENDS)
    }
    numbers = {text: number for number, text in enumerate(texts)}
    by_text = [numbers[text] for text in END_TEXTS if text in numbers]
    by_text = [n for n in by_text if texts[n] != _MAY_BE_NORMAL or kinds[n] != NORMAL]
    kinds = kinds.copy()
    kinds[by_text] = (
        CONTROL  # in some files users defined them; llama.cpp makes them control tokens too
    )
    ends = {*by_text, *(special[name] for name in _ENDS)}
    model = file.text("tokenizer.ggml.model")
    by_default = model == "llama" or file.text("tokenizer.ggml.pre", "") in WHOLE_FIRST
    begins = bool(file.metadata.get("tokenizer.ggml.add_bos_token", by_default))
    adds_end = bool(file.metadata.get("tokenizer.ggml.add_eos_token", False))
    return Vocabulary(
        texts=texts,
        kinds=kinds,
        scores=_column(file, "scores", len(texts), 0.0),
        bos=special["bos_token_id"] if begins else None,
        ends=frozenset(one for one in ends if one is not None),
        unknown=special["unknown_token_id"],
        adds_end=special["eos_token_id"] if adds_end else None,
    )


def _column(file: GgufFile, name: str, count: int, default: float) -> np.ndarray:
    """A number for each token."""
    found = file.metadata.get(f"tokenizer.ggml.{name}")
    if found is None:
        return np.full(count, default)
    if not isinstance(found, np.ndarray) or len(found) != count:
        raise file.rule(f"'tokenizer.ggml.{name}' must have {count} numbers", str(np.size(found)))
    return found


def _token(file: GgufFile, name: str, count: int) -> int | None:
    key = f"tokenizer.ggml.{name}"
    found = file.metadata.get(key)
    if found is None:
        return None
    if not isinstance(found, int) or not 0 <= found < count:
        raise file.rule(f"'{key}' must be a token below {count}", str(found))
    return found
