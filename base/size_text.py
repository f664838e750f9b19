"""Sizes as text: ranges, and expressions as `str` of a `Dim` writes them."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np

from .dims import MOST, Size, Symbol, floor_quotient, minimum, size
from .errors import UserError
from .scaled_sizes import scaled

_TOKEN = re.compile(
    r"\d{1,18}(?:\.\d{1,18})?(?:e[-+]\d{1,3})?f?|[A-Za-z_]\w{0,39}|//|[-+*();]", re.ASCII
)


def parse_range(text: str, name: str) -> Symbol:
    """The symbol `name` with the range `1..64`, `8..` or `..64`. May raise UserError."""
    least, dots, most = text.partition("..")
    if not dots or not all(re.fullmatch(r"[0-9]{0,10}", end) for end in (least, most)):
        raise UserError(f"the range of size '{name}' must be like 1..64, got '{text}'")
    return Symbol(name, int(least or 1), int(most or MOST))


def parse_size(text: str, symbols: Mapping[str, Symbol]) -> Size:
    """Read `64`, `N`, `2*N+1`, `B*S-S`, `2*((H+1)//2)`, `min(5;N)`, `floor(H*0.57)` back.

    Raise KeyError for an unknown symbol, ValueError for another text.
    """
    plain = text.replace(" ", "")
    tokens = _TOKEN.findall(plain)
    if "".join(tokens) != plain:
        raise ValueError(text)
    reader = _Reader(tokens, symbols)
    value = reader.sum()
    if reader.tokens:
        raise ValueError(text)
    return value


class _Reader:
    """Parses sums of terms over numbers, symbols and sums in parentheses; `//` has the precedence of `*`."""

    def __init__(self, tokens: list[str], symbols: Mapping[str, Symbol]) -> None:
        self.tokens = tokens[::-1]
        self.symbols = symbols

    def sum(self) -> Size:
        total = self._term(self._taken("-"))
        while self.tokens and self.tokens[-1] in "+-":
            total = total + self._term(self.tokens.pop() == "-")
        return total

    def _term(self, negative: bool) -> Size:
        value = self._factor()
        while self.tokens and self.tokens[-1] in ("*", "//"):
            if self.tokens.pop() == "*":
                value = value * self._factor()
            else:
                divisor = self._factor()
                if not isinstance(divisor, int) or divisor < 1:
                    raise ValueError(divisor)
                value = floor_quotient(value, divisor)
        return -value if negative else value

    def _factor(self) -> Size:
        token = self.tokens.pop() if self.tokens else ""
        if token.isdigit():
            return int(token)
        if token == "(":
            value = self.sum()
            if not self._taken(")"):
                raise ValueError(token)
            return value
        if token == "floor" and self._taken("("):
            value = self._factor()
            factor = self.tokens.pop() if self._taken("*") and self.tokens else ""
            if not self._taken(")"):
                raise ValueError(token)
            bits = 32 if factor.endswith("f") else 64
            number = float(factor.rstrip("f"))
            return scaled(value, number if bits == 64 else float(np.float32(number)), bits)
        if token == "min" and self._taken("("):
            one = self.sum()
            if not self._taken(";"):
                raise ValueError(token)
            other = self.sum()
            if not self._taken(")"):
                raise ValueError(token)
            return minimum(one, other)
        if not token.isidentifier():
            raise ValueError(token)
        return size(self.symbols[token])

    def _taken(self, token: str) -> bool:
        """Return whether the next token is this one, which is read then."""
        found = bool(self.tokens) and self.tokens[-1] == token
        if found:
            self.tokens.pop()
        return found


def listed(values: Mapping[str, object]) -> str:
    """Return `m=1 n=768`, the names and values of sizes or settings."""
    return " ".join(f"{name}={value}" for name, value in values.items())
