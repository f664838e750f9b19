"""Byte-level BPE, with the pre-tokenizer that a file names, by the library `tokenizers`."""

from __future__ import annotations

from typing import Any

from ...base.errors import UnsupportedError, UserError
from ...frontend.gguf import GgufFile
from .vocabulary import WHOLE_FIRST, Vocabulary

_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
    r"\s+(?!\S)|\s+"
)
_QWEN2 = _LLAMA3.replace("{1,3}", "")
_UPPER_THEN_LOWER = (
    r"[^\r\n\p{L}\p{N}]?((?=[\p{L}])([^a-z]))*((?=[\p{L}])([^A-Z]))+ENDS|"
    r"[^\r\n\p{L}\p{N}]?((?=[\p{L}])([^a-z]))+((?=[\p{L}])([^A-Z]))*ENDS|"
    r"DIGITS| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_GPT4O = _UPPER_THEN_LOWER.replace("DIGITS", r"\p{N}{1,3}").replace(
    "ENDS", "(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])?"
)
_TEKKEN = _UPPER_THEN_LOWER.replace("DIGITS", r"\p{N}").replace("ENDS", "")
_DEFAULT = (
    r"[\p{P}\$\+<=>\^~\|]+",
    _GPT2.removesuffix(r"|\s+"),
    r"\p{N}+",
    r"[0-9][0-9][0-9]",
)
PATTERNS = {
    "default": _DEFAULT,
    **dict.fromkeys(("gpt-2", "phi-2", "olmo", "jais", "mpt"), (_GPT2,)),
    **dict.fromkeys(
        ("smollm", "starcoder", "refact", "command-r", "codeshell", "exaone"), (r"\p{N}", _GPT2)
    ),
    **dict.fromkeys(("llama-bpe", "llama3", "llama-v3", "smaug-bpe", "dbrx"), (_LLAMA3,)),
    **dict.fromkeys(("qwen2", "deepseek-r1-qwen", "stablelm2", "megrez"), (_QWEN2,)),
    "gpt-4o": (_GPT4O,),
    "tekken": (_TEKKEN,),
}
"""Patterns by which text is cut, one after another, before bytes are merged, by the name in the file."""


class BytePairs:
    """Tokens of byte-level BPE."""

    def __init__(self, file: GgufFile, vocabulary: Vocabulary) -> None:
        """Raise UserError for merges that are not pairs of tokens, UnsupportedError for an unknown pre-tokenizer."""
        name = file.text("tokenizer.ggml.pre", "default")
        patterns = PATTERNS.get(name)
        if patterns is None:
            what = f"'{file.path}': pre-tokenizer '{name}' is not supported"
            raise UnsupportedError(what, f"known are {', '.join(PATTERNS)}")
        self._model = _model(file, vocabulary, patterns, name in WHOLE_FIRST)

    def encode(self, text: bytes, begins: bool) -> list[int]:
        """Return the tokens of a text; bytes that are not UTF-8 become U+FFFD."""
        found = self._model.encode(text.decode("utf-8", "replace"), add_special_tokens=False)
        return list(found.ids)


def bytes_of_letters() -> dict[str, int]:
    """Return which byte each letter of byte-level BPE stands for: itself if it is visible, else one from 256 on."""
    visible = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in visible]
    return {chr(byte): byte for byte in visible} | {
        chr(256 + i): byte for i, byte in enumerate(others)
    }


def _model(
    file: GgufFile, vocabulary: Vocabulary, patterns: tuple[str, ...], whole_first: bool
) -> Any:
    try:
        from tokenizers import Regex, Tokenizer, models, pre_tokenizers
    except ImportError:
        raise UserError(
            "the tokenizer of this file needs the package 'tokenizers'; install graphc[llm]"
        ) from None
    merges = file.metadata.get("tokenizer.ggml.merges")
    texts = [one for one in merges if isinstance(one, bytes)] if isinstance(merges, list) else []
    pairs = [one.decode("utf-8", "replace").split(" ", 1) for one in texts]
    if not pairs or any(len(pair) != 2 for pair in pairs):
        raise file.rule("'tokenizer.ggml.merges' must be pairs of tokens", f"{len(pairs)} lines")
    numbers = {text.decode("utf-8", "replace"): n for text, n in vocabulary.numbers.items()}
    known = [(a, b) for a, b in pairs if a in numbers and b in numbers and a + b in numbers]
    made = Tokenizer(models.BPE(numbers, known, ignore_merges=whole_first))
    cuts = [pre_tokenizers.Split(Regex(one), "isolated") for one in patterns]
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [*cuts, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    return made
