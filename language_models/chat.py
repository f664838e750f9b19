"""Chat templates: messages to the text that a model was trained on, by Jinja2 in its sandbox."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NoReturn

from ..base.errors import UnsupportedError, UserError

MAX_TEMPLATE, MAX_TEXT = 1 << 18, 1 << 24
"""Characters of a template, and of what it makes."""
MAX_SECONDS = 5.0
"""A template that writes longer than this is not one of a model."""

Message = Mapping[str, Any]
"""`role` and `content`, as in `{"role": "user", "content": "Hello"}`."""


def chat_text(template: str, messages: Sequence[Message], tokens: Mapping[str, str]) -> str:
    """Return the text of messages, with the beginning of a reply after them.

    `tokens`: texts of special tokens by the names that templates use, `bos_token` and `eos_token`. Raise UserError for
    messages that the template refuses, or a template that is none. Raise UnsupportedError for one that is too large.
    """
    try:
        from jinja2 import TemplateError
        from jinja2.sandbox import ImmutableSandboxedEnvironment
    except ImportError:
        raise UserError("chat templates need the package 'jinja2'; install graphc[llm]") from None
    _check(messages)
    if len(template) > MAX_TEMPLATE:
        what = f"a chat template of more than {MAX_TEMPLATE} characters is not supported"
        raise UnsupportedError(what, "give the prompt as text")
    scope = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    scope.filters["tojson"] = _to_json
    scope.globals |= {
        "raise_exception": _refuse,
        "strftime_now": lambda form: datetime.now().strftime(form),
    }
    try:
        parts = scope.from_string(template).generate(
            messages=list(messages), add_generation_prompt=True, **tokens
        )
        return _limited(parts)
    except (TemplateError, TypeError, ValueError, KeyError, OverflowError, RecursionError) as error:
        raise UserError(
            f"the chat template refuses the messages ({error}); give others, or the prompt as text"
        ) from None


def _limited(parts: Any) -> str:
    found, size, start = [], 0, time.monotonic()
    for part in parts:
        found.append(part)
        size += len(part)
        if size > MAX_TEXT or time.monotonic() - start > MAX_SECONDS:
            raise UserError(
                "the chat template must end; it has written more than any conversation has, give the prompt as text"
            )
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
    raise ValueError(message)


def _to_json(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)
