"""Prompts: a text, tokens or a conversation, or several of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeGuard

from .chat import Message

Prompt = str | Sequence[int] | Sequence[Message]
"""A text, tokens, or the messages of a chat."""

Prompts = Sequence[str] | Sequence[Sequence[int]] | Sequence[Sequence[Message]]
"""Several prompts."""


def is_several(prompt: Prompt | Prompts) -> TypeGuard[Prompts]:
    """Return whether there are several prompts: a list whose elements are texts or lists."""
    if isinstance(prompt, str | bytes) or not isinstance(prompt, Iterable):
        return False
    return any(isinstance(one, str | list | tuple) or getattr(one, "ndim", 0) for one in prompt)
