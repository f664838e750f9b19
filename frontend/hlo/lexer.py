"""The tokens of HLO text: one compiled `re`, matched on demand.

On demand, because the text after `backend_config=` is JSON, not HLO: the parser asks for the next token or for a raw
value, whichever the grammar expects there. A plain shape such as `f32[4,32]{1,0}` is one token, which is what
makes the parser fast.
"""

from __future__ import annotations

import re

from ...base.errors import GraphcError, UserError
from .syntax import Origin

_TYPES = (
    r"(?:pred|bf16|f16|f32|f64|[su](?:16|32|64|[1248])|c64|c128|token|opaque"
    r"|f8e(?:5m2fnuz|5m2|4m3fnuz|4m3fn|4m3b11fnuz|4m3|3m4|8m0fnu)|f4e2m1fn|f6e2m3fn|f6e3m2fn)"
)
_BLANKS = r"(?:[ \t\r\n]++|/\*(?:[^*]++|\*(?!/))*+\*/|//[^\n]*+|(?:(?<=\n)|\A)\#[^\n]*+)*+"
_LAYOUT = rf"\{{{_BLANKS}[0-9:](?:[^{{}}]++|\{{[^{{}}]*+\}})*+\}}"
_TOKEN = re.compile(
    rf"""
    {_BLANKS}
    (?:(?P<shape>{_TYPES}{_BLANKS}\[(?:\]\{{\}}|[^\[\]{{}}()"%]*+\](?:{_BLANKS}{_LAYOUT})?))
    |(?P<word>[A-Za-z_][A-Za-z0-9_.-]*+(?![=:]))
    |(?P<attr>[A-Za-z_][A-Za-z0-9_.-]*+=)
    |(?P<label>[A-Za-z_][A-Za-z0-9_.-]*+:)
    |(?P<name>%[A-Za-z0-9_.-]++)
    |(?P<string>"(?:[^"\\]++|\\.)*+"|'(?:[^'\\]++|\\.)*+')
    |(?P<int>-?[0-9]++)
    |(?P<punct>->|<=|\.\.\.|[=,:*\#+~\[\]{{}}()?])
    |(?P<end>\Z))
    """,
    re.VERBOSE | re.ASCII | re.DOTALL,
)
_SKIP = re.compile(_BLANKS)
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*|(?m:^)#[^\n]*", re.DOTALL)
_FLAT_BRACES = re.compile(r'\{(?:[^{}"\']++|"(?:[^"\\]++|\\.)*+")*+\}', re.DOTALL)
_BALANCED = {
    # HLO knows both quotes, JSON only the double one.
    "hlo": re.compile(r'[\[\](){}]|"(?:[^"\\]++|\\.)*+"|\'(?:[^\'\\]++|\\.)*+\'', re.DOTALL),
    "json": re.compile(r'[\[\](){}]|"(?:[^"\\]++|\\.)*+"', re.DOTALL),
}
_CLOSING = {"(": ")", "[": "]", "{": "}"}
_MAX_DIGITS = 20  # those of the largest u64

MAX_NESTED = 64
"""Maximum nesting depth of parentheses, braces and inline computations."""


class Lexer:
    """A text and the current token: `kind`, `text` and its position (`start`, `end`).

    `kind` is the name of a group of the pattern above; of punctuation it is the text itself.
    """

    __slots__ = ("_match", "end", "kind", "origin", "source", "start", "text")

    def __init__(self, origin: Origin) -> None:
        self.origin = origin
        self.source = origin.source
        self._match = _TOKEN.match
        self.kind = self.text = ""
        self.start = self.end = 0
        self.advance()

    def advance(self) -> None:
        """Advance to the next token. Raise UserError if there is none."""
        found = self._match(self.source, self.end)
        if found is None:
            raise self._no_token()
        kind = found.lastgroup
        assert kind is not None
        self.text = text = found[kind]
        self.end = end = found.end()
        self.start = end - len(text)
        self.kind = text if kind == "punct" else kind

    def move(self, position: int) -> None:
        """Go to the token that starts at or after `position`."""
        self.end = position
        self.advance()

    def take(self, kind: str, what: str = "") -> str:
        """The text of the current token, which must be of this kind; then the next one is current."""
        if self.kind != kind:
            raise self.expected(what or f"'{kind}'")
        text = self.text
        self.advance()
        return text

    def take_name(self, what: str) -> str:
        """The current name, with or without its `%`, of `what` is expected; then the next token is current."""
        if self.kind == "word":
            return self.take("word")
        return self.take("name", what)[1:]

    def accept(self, kind: str) -> bool:
        """Return whether the current token is of this kind; if so, it is consumed."""
        if self.kind != kind:
            return False
        self.advance()
        return True

    def integer(self, what: str) -> int:
        """The current token as an integer. Raise UserError for anything else, a number beyond 64 bits included."""
        if self.kind != "int":
            raise self.expected(what)
        value = self.to_integer(self.text, self.start)
        self.advance()
        return value

    def to_integer(self, text: str, position: int) -> int:
        """The value of an integer's text. UserError beyond 64 bits."""
        try:
            return to_integer(text)
        except UserError as error:
            raise self.error(str(error), position) from error

    def raw_group(self, position: int, rule: str = "hlo") -> str:
        """The balanced group that starts at `position` with a bracket; no token is consumed.

        `rule` says which strings hide brackets: "hlo" or "json". Raise UserError if it does not end.
        """
        flat = _FLAT_BRACES.match(self.source, position)
        if flat:
            return flat[0]
        open_: list[str] = []
        for found in _BALANCED[rule].finditer(self.source, position):
            text = found[0]
            if text in _CLOSING:
                open_.append(_CLOSING[text])
                if len(open_) > MAX_NESTED:
                    raise self.too_deep(found.start())
            elif text[0] not in "\"'":
                if text != open_.pop():
                    raise self.error(
                        f"brackets must match, got '{text}' in {_shown(self.source, position)}",
                        found.start(),
                    )
                if not open_:
                    return self.source[position : found.end()]
        opened = self.source[position]
        raise self.error(f"'{opened}' must be closed before the end of the text", position)

    def skip_blanks(self) -> int:
        """The start of the next token, without consuming it."""
        found = _SKIP.match(self.source, self.end)
        return found.end() if found else self.end

    def error(self, message: str, position: int) -> GraphcError:
        """An error at a position in the text."""
        return self.origin.error(message, position)

    def expected(self, what: str) -> GraphcError:
        """The error for a token that the grammar does not expect."""
        got = "the end of the text" if self.kind == "end" else _shown(self.source, self.start)
        return self.error(f"expected {what}, got {got}", self.start)

    def too_deep(self, position: int) -> GraphcError:
        """The error that something is nested too deep."""
        return self.error(f"nesting must not exceed {MAX_NESTED} levels", position)

    def _no_token(self) -> GraphcError:
        position = self.skip_blanks()
        if self.source.startswith("/*", position):
            return self.error("a comment must end with '*/', got the end of the text", position)
        if self.source[position] in "\"'":
            return self.error(
                f"a string must end with {self.source[position]}, got the end of the text", position
            )
        return self.error(
            f"no token of HLO text starts with {_shown(self.source, position, 1)}", position
        )


def to_integer(text: str) -> int:
    """The value of an integer's text; UserError, without a position, beyond 64 bits."""
    digits = len(text.lstrip("-"))
    if digits > _MAX_DIGITS:
        raise UserError(f"a number must fit 64 bits, got one of {digits} digits")
    value = int(text)
    if not -(1 << 63) <= value < 1 << 64:
        raise UserError(f"a number must fit 64 bits, got {value}")
    return value


def _shown(source: str, position: int, most: int = 24) -> str:
    """The first characters at `position` up to the end of the line, in quotes."""
    line = source[position : position + most + 1].partition("\n")[0]
    return repr(line if len(line) <= most else line[:most] + ("..." if most > 1 else ""))
