"""Text to tokens and back: special tokens are found first, what is between them is for the model of the file."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator
from typing import Protocol

from ...base.errors import UnsupportedError
from ...frontend.gguf import GgufFile
from .byte_pairs import BytePairs, bytes_of_letters
from .pieces import Pieces
from .vocabulary import BYTE, CONTROL, NORMAL, UNKNOWN, UNUSED, Vocabulary, vocabulary_of


class _Model(Protocol):
    def encode(self, text: bytes, begins: bool) -> list[int]: ...


class TextStream(Protocol):
    """The text of tokens, as they come."""

    def push(self, token: int) -> str:
        """Return the whole characters that a token completes."""
        ...

    def rest(self) -> str:
        """Return the rest at the end: U+FFFD for bytes that are not a character."""
        ...


class TextTokenizer(Protocol):
    """A tokenizer of any format. `ends`: the tokens that end a text."""

    @property
    def ends(self) -> frozenset[int]:
        """The tokens that end a text."""
        ...

    def encode(self, text: str, begins: bool = True, control: bool = False) -> list[int]:
        """Return the tokens of a text, with the one that begins texts if `begins`."""
        ...

    def decode(self, tokens: Iterable[int], control: bool = False) -> str:
        """Return the text of tokens."""
        ...

    def stream(self) -> TextStream:
        """Return a stream of the text of tokens to come."""
        ...


class Tokenizer:
    """Tokens of a file.

    Attributes:
        vocabulary: The tokens by number.
    """

    def __init__(self, vocabulary: Vocabulary, model: _Model, is_byte_level: bool) -> None:
        self.vocabulary, self._model = vocabulary, model
        self._letters = bytes_of_letters() if is_byte_level else {}
        self._splitters: dict[bool, re.Pattern[bytes] | None] = {}

    @property
    def ends(self) -> frozenset[int]:
        """The tokens that end a text."""
        return self.vocabulary.ends

    def stream(self) -> _Bytes:
        """Return a stream of the text of tokens to come."""
        return _Bytes(self)

    def encode(self, text: str | bytes, begins: bool = True, control: bool = False) -> list[int]:
        """Return the tokens of a text.

        Args:
            text: The text, or bytes, which need not be UTF-8.
            begins: Whether the token that begins texts is put in front, as the file says.
            control: Whether the texts of control tokens stand for them; else they are plain text.
        """
        vocabulary = self.vocabulary
        data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
        found = [] if vocabulary.bos is None or not begins else [vocabulary.bos]
        after_special = True
        for part, is_special in self._parts(data, control):
            if is_special:
                found.append(vocabulary.numbers[part])
            else:
                found += self._model.encode(part, after_special)
            after_special = is_special
        if begins and vocabulary.adds_end is not None:
            found.append(vocabulary.adds_end)
        return found

    def _parts(self, data: bytes, control: bool) -> Iterator[tuple[bytes, bool]]:
        """Yield the text between special tokens, and these."""
        if control not in self._splitters:
            self._splitters[control] = self.vocabulary.splitter(control)
        splitter, at = self._splitters[control], 0
        for match in splitter.finditer(data) if splitter else ():
            if match.start() > at:
                yield data[at : match.start()], False
            yield match[0], True
            at = match.end()
        if at < len(data):
            yield data[at:], False

    def bytes_of(self, token: int, control: bool = False) -> bytes:
        """Return the text of a token; that of control tokens is empty unless `control`."""
        kind, text = int(self.vocabulary.kinds[token]), self.vocabulary.texts[token]
        if kind in (CONTROL, UNKNOWN, UNUSED):
            return text if control else b""
        if kind == BYTE:
            return bytes([int(text[3:5], 16)])
        if self._letters:
            return self._decoded(text)
        return text.replace("▁".encode(), b" ") if kind == NORMAL else text

    def _decoded(self, text: bytes) -> bytes:
        """Decode byte-level BPE: a letter for each byte; other letters, as in tokens that users defined, stay."""
        letters = text.decode("utf-8", "replace")
        return b"".join(
            bytes([self._letters[one]]) if one in self._letters else one.encode() for one in letters
        )

    def decode(self, tokens: Iterable[int], control: bool = False) -> str:
        """Return the text of tokens; bytes that are not UTF-8 become U+FFFD."""
        return b"".join(self.bytes_of(one, control) for one in tokens).decode("utf-8", "replace")


class _Bytes:
    """Text whose characters may be split into tokens."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._letters = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, token: int) -> str:
        """Return the whole characters that a token completes."""
        return self._letters.decode(self._tokenizer.bytes_of(token))

    def rest(self) -> str:
        """Return U+FFFD for bytes that are not a character."""
        return self._letters.decode(b"", final=True)


def tokenizer_of(file: GgufFile) -> Tokenizer:
    """Return the tokenizer that the metadata of a file describe. May raise UserError or UnsupportedError."""
    vocabulary, kind = vocabulary_of(file), file.text("tokenizer.ggml.model")
    if kind == "llama":
        adds_space = bool(file.metadata.get("tokenizer.ggml.add_space_prefix", True))
        return Tokenizer(vocabulary, Pieces(vocabulary, adds_space), is_byte_level=False)
    if kind == "gpt2":
        return Tokenizer(vocabulary, BytePairs(file, vocabulary), is_byte_level=True)
    what = f"'{file.path}': tokenizer model '{kind}' is not supported"
    raise UnsupportedError(what, "known are llama and gpt2")
