"""Chat templates: messages to the text that a model was trained on, by Jinja2 in its sandbox."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NoReturn

from ..base.errors import GraphcError, UnsupportedError, UserError

MAX_TEMPLATE = 1 << 18
"""Characters of a template."""

MAX_INDENT = 16
"""Spaces of a level of JSON."""

Message = Mapping[str, Any]
"""`role` and `content`, as in `{"role": "user", "content": "Hello"}`."""


def chat_text(template: str, messages: Sequence[Message], tokens: Mapping[str, str]) -> str:
    """Return the text of messages, with the beginning of a reply after them.

    `tokens`: texts of special tokens by the names that templates use, `bos_token` and `eos_token`. Raise UserError for
    messages that the template refuses, or a template that is none. Raise UnsupportedError for one that is too large.
    """
    try:
        from .sandbox import BoundedSandbox, bounded
    except ImportError:
        raise UserError("chat templates need the package 'jinja2'; install graphc[llm]") from None
    _check(messages)
    if len(template) > MAX_TEMPLATE:
        what = f"a chat template of more than {MAX_TEMPLATE} characters is not supported"
        raise UnsupportedError(what, "give the prompt as text")
    scope = BoundedSandbox(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    scope.filters["tojson"] = _to_json
    scope.globals |= {
        "raise_exception": _refuse,
        "strftime_now": lambda form: datetime.now().strftime(form),
    }
    given = {"messages": list(messages), "add_generation_prompt": True, **tokens}
    try:
        with bounded():
            return _limited(scope.from_string(template).generate(given))
    except GraphcError:
        raise
    except Exception as error:  # noqa: BLE001 - filters raise what they like, NameError too
        reason = str(error)[:200] or type(error).__name__
        raise UserError(
            f"the chat template refuses the messages ({reason}); give others, or the prompt as text"
        ) from None


def _limited(parts: Iterator[str]) -> str:
    from .sandbox import MAX_TEXT, refused

    found, size = [], 0
    for part in parts:
        found.append(part)
        size += len(part)
        if size > MAX_TEXT:
            raise refused()
    return "".join(found)


def _check(messages: Sequence[Message]) -> None:
    if not messages:
        raise UserError("messages: there must be one at least, got none")
    for one in messages:
        if (
            not isinstance(one, Mapping)
            or not isinstance(one.get("role"), str)
            or "content" not in one
        ):
            raise UserError(f"messages must be mappings with 'role' and 'content', got {one!r}")


def _refuse(message: str) -> NoReturn:
    from .sandbox import bounded_value

    raise ValueError(bounded_value(message))


def _to_json(value: Any, indent: int | None = None) -> str:
    from .sandbox import bounded_value

    if indent is not None and not 0 <= indent <= MAX_INDENT:
        raise ValueError(f"indent must be in [0, {MAX_INDENT}], got {indent}")
    return json.dumps(bounded_value(value), ensure_ascii=False, indent=indent)
