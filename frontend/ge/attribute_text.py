"""Attribute values of a readable dump. A scanner, not a grammar: strings are printed without escaping.

A string ends at the quote that is followed by the next attribute (or list item), so where it ends depends on what
comes after it.
"""

from __future__ import annotations

import re
from typing import Any

from ...base.errors import UserError
from .document import GraphName, TensorText, TypeName

_KEY = re.compile(r"([^\s:,{}\"]+): ?")
_NEXT = re.compile(r", [^\s:,{}\"]+: |\Z")
_STRING_END = re.compile(r'"(?=, [^\s:,{}"]+: |\Z)')
_ITEM_END = re.compile(r'"(?=, |\})')
_WORD = re.compile(r"[^\s,{}\[\]\"<>]+")
_INTEGER = re.compile(r"[+-]?\d{1,19}\Z", re.ASCII)
_FLOAT = re.compile(
    r"[+-]?(\d{1,400}\.\d{0,400}([eE][+-]?\d{1,4})?|\d{1,400}[eE][+-]?\d{1,4}|inf|nan)\Z", re.ASCII
)
_SPECIAL = {"<empty>": "", "<invalid>": "<invalid>", "<not_supported>": "<not_supported>"}
_SHOWN = 40  # characters of the text quoted in a message

MAX_DEPTH = 64
"""Maximum nesting of lists."""


def read_attrs(text: str, where: str) -> dict[str, Any]:
    """`key: value, key: value` as a dictionary; UserError, which starts with `where`, for any other text."""
    attrs: dict[str, Any] = {}
    at = 0
    while at < len(text):
        match = _KEY.match(text, at)
        if not match:
            raise UserError(
                f"{where}: an attribute must be written key: value, got {_cut(text, at)}"
            )
        key = match[1]
        if key in attrs:
            raise UserError(f"{where}: attribute '{key}' must be given once")
        attrs[key], at = _value(text, match.end(), where)
        if at < len(text) and not text.startswith(", ", at):
            raise UserError(f"{where}: ', ' must follow attribute '{key}', got {_cut(text, at)}")
        at += 2
    return attrs


def read_number(text: str) -> int | float | bool | None:
    """An integer of 64 bits, a float or a bool; None for any other text."""
    if text in ("true", "false"):
        return text == "true"
    if _INTEGER.match(text):
        value = int(text)
        return value if -(2**63) <= value < 2**64 else None
    return float(text) if _FLOAT.match(text) else None


def _value(text: str, at: int, where: str) -> tuple[Any, int]:
    """One value and where it ends; lists are kept on an explicit stack, so deep nesting is safe."""
    if text.startswith("%", at):
        after = _NEXT.search(text, at)
        end = after.start() if after else len(text)
        return GraphName(text[at + 1 : end]), end
    stack: list[list[Any]] = []
    while True:
        if text.startswith("{", at):
            stack.append([])
            if len(stack) > MAX_DEPTH:
                raise UserError(
                    f"{where}: lists must not be nested more than {MAX_DEPTH} deep, got {_cut(text, at)}"
                )
            at += 1
            if not text.startswith("}", at):
                continue
        else:
            value, at = _leaf(text, at, where, bool(stack))
            if not stack:
                return value, at
            stack[-1].append(value)
        while text.startswith("}", at):
            done = tuple(stack.pop())
            at += 1
            if not stack:
                return done, at
            stack[-1].append(done)
        if not text.startswith(", ", at):
            raise UserError(f"{where}: ', ' or '}}' must follow a list item, got {_cut(text, at)}")
        at += 2


def _leaf(text: str, at: int, where: str, in_list: bool) -> tuple[Any, int]:
    if text.startswith('"', at):
        end = (_ITEM_END if in_list else _STRING_END).search(text, at + 1)
        if not end:
            raise UserError(f'{where}: a string must end with ", got {_cut(text, at)}')
        return text[at + 1 : end.start()], end.end()
    if text.startswith("[", at):
        close = text.find("]", at)
        if close < 0:
            raise UserError(f"{where}: a tensor must end with ], got {_cut(text, at)}")
        return _tensor(text[at + 1 : close], where), close + 1
    for special, missing in _SPECIAL.items():
        if text.startswith(special, at):
            return TensorText((), missing), at + len(special)
    word = _WORD.match(text, at)
    if not word:
        raise UserError(f"{where}: a value must follow the key, got {_cut(text, at)}")
    number = read_number(word[0])
    if number is None and (word[0][0] in "+-." or word[0][0].isdigit()):
        raise UserError(f"{where}: numbers must fit in 64 bits, got {_cut(word[0], 0)}")
    return (TypeName(word[0]) if number is None else number), word.end()


def _tensor(text: str, where: str) -> TensorText:
    items: list[int | float | bool] = []
    missing = ""
    for word in text.split():
        if word == "..." and not missing:
            missing = "elided"
            continue
        number = read_number(word)
        if number is None:
            raise UserError(
                f"{where}: tensor elements must be numbers of 64 bits, got {_cut(word, 0)}"
            )
        items.append(number)
    return TensorText(tuple(items), missing)


def _cut(text: str, at: int) -> str:
    rest = text[at : at + _SHOWN]
    return f"'{rest}'" + ("..." if len(text) > at + _SHOWN else "") if rest else "nothing"
