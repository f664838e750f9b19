"""Prompts: a text, tokens or a conversation, or several of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeGuard

from .chat import Message

Prompt = str | Sequence[int] | Sequence[Message]
"""A text, tokens, or the messages of a chat."""

Prompts = Sequence[str] | Sequence[Sequence[int]] | Sequence[Sequence[Message]]
"""Several prompts."""


def is_several(prompt: Prompt | Prompts) -> TypeGuard[Prompts]:
    """Return whether there are several prompts: a list whose elements are texts or lists."""
    return not isinstance(prompt, str) and any(
        isinstance(one, str | list | tuple) for one in prompt
    )
