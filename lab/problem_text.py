"""The text of a problem, `conv n1c64h56w56o64k3p1 f32 +bias+relu`, taken apart: what is wrong is shown by a caret."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ..base.dims import Size, size
from ..base.errors import UserError
from ..base.records import dataclass
from ..base.size_text import parse_range
from ..base.suggestion import suggestion

MAX_SIZE = 10**9

_SIZE = re.compile(r"([a-z])=?(\d+)(?:\.\.(\d+)|((?:x\d+)+))?")
_SHAPE = re.compile(r"\d+(x\d+)*")


@dataclass(frozen=True)
class Word:
    """A word of a problem, and the column at which it begins."""

    text: str
    column: int


@dataclass(frozen=True)
class ProblemText:
    """A problem's words, and an example of its kind for messages."""

    text: str
    words: tuple[Word, ...]
    example: str

    def refuse(self, word: Word | None, rule: str) -> UserError:
        """Return the error about a word, or about what is missing at the end."""
        column = word.column if word else len(self.text)
        caret = " " * column + "^" * (len(word.text) if word else 1)
        error = UserError(f"problem '{self.text}': {rule}; write it like '{self.example}'")
        error.add_note(f"    {self.text}\n    {caret}")
        return error

    def sizes(
        self, word: Word | None, letters: Mapping[str, str], needed: str, per_axis: str = ""
    ) -> dict[str, Size]:
        """Read `m128n768k768`: a number or a range for letters, of which `needed` must be there. May raise UserError.

        Letters of `per_axis` may have a number for each axis: `k7x1` is {"k": 7, "k1": 1}.
        """
        if word is None:
            raise self.refuse(None, f"sizes are missing; they are {_listed(letters)}")
        found: dict[str, Size] = {}
        at = 0
        while at < len(word.text):
            part = _SIZE.match(word.text, at)
            here = Word(word.text[at:] if part is None else part[0], word.column + at)
            if part is None:
                raise self.refuse(
                    here, "a size must be a letter and a number, or a range as m=1..512"
                )
            found[part[1]] = self._size(here, part, letters, found)
            if part[4] and part[1] not in per_axis:
                raise self.refuse(
                    here, f"size {part[1]} must be one number, or a range as m=1..512"
                )
            others = enumerate((part[4] or "").split("x")[1:], 1)
            found |= {f"{part[1]}{axis}": int(number) for axis, number in others}
            at = part.end()
        missing = [letter for letter in needed if letter not in found]
        if missing:
            raise self.refuse(word, f"size {missing[0]} is missing; sizes are {_listed(letters)}")
        return found

    def _size(
        self, word: Word, part: re.Match[str], letters: Mapping[str, str], found: Mapping[str, Size]
    ) -> Size:
        letter, low, high, _ = part.groups()
        if letter not in letters:
            raise self.refuse(word, f"there is no size {letter}; sizes are {_listed(letters)}")
        if letter in found:
            raise self.refuse(word, f"size {letter} is given twice")
        if int(low) > MAX_SIZE or int(high or 0) > MAX_SIZE or (high and int(high) <= int(low)):
            raise self.refuse(word, "a size must be at most 10^9, and a range must rise")
        if high is None:
            return int(low)
        return size(parse_range(f"{low}..{high}", letter))

    def shape(self, word: Word | None) -> tuple[int, ...]:
        """Read `8x128x768`. May raise UserError."""
        if word is None or not _SHAPE.fullmatch(word.text):
            raise self.refuse(word, "a shape must be like 8x128x768")
        dims = tuple(map(int, word.text.split("x")))
        if max(dims) > MAX_SIZE:
            raise self.refuse(word, "a size must be at most 10^9")
        return dims

    def choice(self, word: Word, known: Sequence[str], what: str) -> str:
        """Return the word, which must be one of those known. May raise UserError."""
        if word.text not in known:
            like = suggestion(word.text, known)
            listed = f"known are {', '.join(known)}"
            raise self.refuse(word, f"{what} '{word.text}' is not known; {like} {listed}")
        return word.text

    def nothing_left(self, words: Sequence[Word]) -> None:
        """Raise UserError if words are left over."""
        if words:
            raise self.refuse(words[0], f"'{words[0].text}' has no meaning here")


def words_of(text: str) -> tuple[Word, ...]:
    """Return the words of a text with their columns."""
    return tuple(Word(found[0], found.start()) for found in re.finditer(r"\S+", text))


def _listed(letters: Mapping[str, str]) -> str:
    return ", ".join(f"{letter} ({meaning})" for letter, meaning in letters.items())
