"""JSON as people write it: comments and trailing commas are passed over. Positions are kept."""

from __future__ import annotations

import json
import re
from typing import Any

from ...base.errors import UserError

_COMMENT = re.compile(r'"(?:[^"\\\n]|\\.)*"|#[^\n]*|//[^\n]*')
_ENDLESS_NUMBER = re.compile(r"\d{4301,}")
_BRACKET = re.compile(r'"(?:[^"\\\n]|\\.)*"|[\[\]{}]')
_DEEP = 500
_COMMA = re.compile(r'"(?:[^"\\\n]|\\.)*"|,(?=\s*[}\]])')


def parse_json(text: str, label: str) -> Any:
    """The value of a JSON text, strict or not. UserError with line and column."""
    try:
        return _strict(text, label)
    except ValueError:
        pass  # not strict JSON: once more without comments and trailing commas
    plain = _COMMA.sub(_blank, _COMMENT.sub(_blank, text))
    try:
        return _strict(plain, label)
    except json.JSONDecodeError as error:
        raise UserError(
            f"{label} line {error.lineno} column {error.colno}: it must be JSON, but {error.msg}"
        ) from error
    except ValueError as error:  # Python converts no integer of more than 4300 digits
        number = _ENDLESS_NUMBER.search(plain)
        assert number is not None
        raise UserError(
            f"{label}{_location(plain, number.start())}: a number must fit 64 bits, "
            f"got one of {len(number[0])} digits"
        ) from error


def _strict(text: str, label: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=lambda pairs: _object(pairs, label))
    except RecursionError as error:
        location = _location(text, _deep_at(text))
        raise UserError(
            f"{label}{location}: the JSON text must be nested less than {_DEEP} levels deep"
        ) from error


def _deep_at(text: str) -> int:
    """Return the position at which the nesting first reaches `_DEEP` levels, which is below the parser's limit."""
    depth = 0
    for found in _BRACKET.finditer(text):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(found[0], 0)
        if depth == _DEEP:
            return found.start()
    return len(text)


def _location(text: str, position: int) -> str:
    line = text.count("\n", 0, position) + 1
    return f" line {line} column {position - text.rfind(chr(10), 0, position)}"


def _object(pairs: list[tuple[str, Any]], label: str) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise UserError(f"{label}: keys of an object must differ, got '{twice}' twice")
    return found


def _blank(match: re.Match[str]) -> str:
    return match[0] if match[0].startswith('"') else " " * len(match[0])
