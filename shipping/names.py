"""Names of a model, its tensors and its dimensions as identifiers of C and C++."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ..base.errors import UserError

MAX_LETTERS = 63
"""Significant letters of an identifier in C99 (5.2.4.1)."""

_KEYWORD_LINES = (
    "alignas alignof and and_eq asm auto bitand bitor bool break case catch char class compl concept const",
    "consteval constexpr constinit const_cast continue co_await co_return co_yield decltype default delete do",
    "double dynamic_cast else enum explicit export extern false float for friend goto if inline int long mutable",
    "namespace new noexcept not not_eq nullptr operator or or_eq private protected public register",
    "reinterpret_cast requires restrict return short signed sizeof static static_assert static_cast struct switch",
    "template this thread_local throw true try typedef typeid typename typeof typeof_unqual union unsigned using",
    "virtual void volatile wchar_t while xor xor_eq",
)
_KEYWORDS = frozenset(word for line in _KEYWORD_LINES for word in line.split())


def identifier(text: str) -> str:
    """Return a text as an identifier: other letters become underscores, and one is appended to a keyword."""
    name = re.sub(r"[^A-Za-z0-9_]+", "_", text)[:MAX_LETTERS].strip("_")
    if not name or name[0].isdigit():
        name = f"x{name}"
    return f"{name}_" if name in _KEYWORDS else name


def identifiers(texts: Iterable[str]) -> list[str]:
    """Return texts as different identifiers."""
    found: dict[str, None] = {}
    for text in texts:
        name, number = identifier(text), 2
        stem = name
        while name in found:
            name, number = f"{stem}_{number}", number + 1
        found[name] = None
    return list(found)


def checked_prefix(name: str) -> str:
    """Return a prefix that a user gave. Raise UserError if it is not an identifier."""
    if identifier(name) != name:
        raise UserError(
            f"the prefix must be an identifier of C such as '{identifier(name)}', got '{name}'"
        )
    return name
