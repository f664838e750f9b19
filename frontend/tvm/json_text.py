"""JSON as people write it: comments and trailing commas are passed over. Positions are kept."""

from __future__ import annotations

import json
import re
from typing import Any

from ...errors import UserError

_COMMENT = re.compile(r'"(?:[^"\\\n]|\\.)*"|#[^\n]*|//[^\n]*')
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
    except ValueError as error:
        raise UserError(f"{label}: numbers must have fewer digits ({error})") from error


def _strict(text: str, label: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=lambda pairs: _object(pairs, label))
    except RecursionError as error:
        raise UserError(f"{label}: the JSON text is nested too deeply") from error


def _object(pairs: list[tuple[str, Any]], label: str) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise UserError(f"{label}: key '{twice}' is given twice in one object")
    return found


def _blank(match: re.Match[str]) -> str:
    return match[0] if match[0].startswith('"') else " " * len(match[0])
