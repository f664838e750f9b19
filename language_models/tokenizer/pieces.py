"""SentencePiece-like tokenization by scores, as llama.cpp does it.

The library `tokenizers` merges by the rank of a pair, not by the score of what it makes, and handles literal U+2581 and
runs of spaces in another way: the results differ on such texts.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush

from .vocabulary import Vocabulary

_SPACE = "▁".encode()
_GONE = -2
"""The successor of a piece that is part of another."""


class Pieces:
    """Merges neighboring pieces of UTF-8 text, those first whose union has the best score, the leftmost of equals."""

    def __init__(self, vocabulary: Vocabulary, adds_space: bool) -> None:
        self._numbers, self._adds_space = vocabulary.numbers, adds_space
        self._scores = vocabulary.scores.tolist()
        self._bytes = [
            self._numbers.get(b"<0x%02X>" % byte, vocabulary.unknown) for byte in range(256)
        ]

    def encode(self, text: bytes, begins: bool) -> list[int]:
        """Return the tokens of a text; `begins`: it is at the beginning or follows a token of control."""
        if not text:
            return []
        text = (b" " + text if self._adds_space and begins else text).replace(b" ", _SPACE)
        return [number for piece in self._merged(_characters(text)) for number in self._of(piece)]

    def _of(self, piece: bytes) -> list[int]:
        """The token of a piece, or those of its bytes."""
        number = self._numbers.get(piece)
        if number is not None:
            return [number]
        return [found for found in map(self._bytes.__getitem__, piece) if found is not None]

    def _merged(self, pieces: list[bytes]) -> list[bytes]:
        following = [*range(1, len(pieces)), -1]
        previous = list(range(-1, len(pieces) - 1))
        queue = [pair for i in range(len(pieces) - 1) for pair in self._pair(pieces, i, i + 1)]
        heapify(queue)
        while queue:
            _, left, right, size = heappop(queue)
            if following[left] != right or len(pieces[left]) + len(pieces[right]) != size:
                continue  # one of them has been merged with another since
            pieces[left], pieces[right] = pieces[left] + pieces[right], b""
            following[left], following[right] = following[right], _GONE
            after = following[left]
            if after >= 0:
                previous[after] = left
                for pair in self._pair(pieces, left, after):
                    heappush(queue, pair)
            if (before := previous[left]) >= 0:
                for pair in self._pair(pieces, before, left):
                    heappush(queue, pair)
        return [piece for piece in pieces if piece]

    def _pair(
        self, pieces: list[bytes], left: int, right: int
    ) -> list[tuple[float, int, int, int]]:
        """The entry of two neighbors, if their union is a token."""
        union = pieces[left] + pieces[right]
        number = self._numbers.get(union)
        return [] if number is None else [(-self._scores[number], left, right, len(union))]


def _characters(text: bytes) -> list[bytes]:
    """The characters of UTF-8 text, by the length that the first byte says; the last may be cut off."""
    found, at = [], 0
    while at < len(text):
        size = (1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 3, 4)[text[at] >> 4]
        found.append(text[at : at + size])
        at += size
    return found
