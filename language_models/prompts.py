"""Prompts: a text, tokens or a conversation, or several of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import index
from typing import Any, NoReturn, TypeGuard

import numpy as np

from ..base.errors import UserError
from .chat import Message

Prompt = str | Sequence[int] | Sequence[Message]
"""A text, tokens, or the messages of a chat."""

Prompts = Sequence[str] | Sequence[Sequence[int]] | Sequence[Sequence[Message]]
"""Several prompts."""


def is_several(prompt: Prompt | Prompts) -> TypeGuard[Prompts]:
    """Return whether there are several prompts: a list whose elements are texts or lists."""
    return _is_list(prompt) and any(isinstance(one, str) or _is_list(one) for one in prompt)


def is_chat(prompt: Prompt) -> TypeGuard[Sequence[Message]]:
    """Return whether a prompt is the messages of a chat."""
    return _is_list(prompt) and len(prompt) > 0 and all(isinstance(one, Mapping) for one in prompt)


def given_tokens(prompt: Prompt) -> list[int]:
    """Return the tokens of a prompt that is a list of them. Raise UserError for anything else."""
    try:
        return [index(one) for one in prompt] if _is_list(prompt) else _refuse(prompt)
    except TypeError:
        _refuse(prompt)


def _is_list(prompt: Any) -> TypeGuard[Sequence[Any]]:
    """Return whether it is a list, or what is as good: a tuple, a range, an array."""
    return isinstance(prompt, Sequence | np.ndarray) and not isinstance(prompt, str | bytes)


def _refuse(prompt: object) -> NoReturn:
    raise UserError(
        f"a prompt must be a text, a list of tokens or a list of messages, got {repr(prompt)[:80]}"
    )
