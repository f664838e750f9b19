"""Jinja's sandbox, with bounds of time and memory: templates come with files that nobody has read."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from typing import Any

from jinja2.sandbox import ImmutableSandboxedEnvironment

from ..base.errors import UserError

MAX_TEXT = 1 << 24
"""Characters of a text, and elements of a list, that a template makes."""

MAX_SECONDS, MAX_BYTES = 5.0, 1 << 28
"""A template that takes more is not one of a model."""

MAX_BITS = 1 << 16
"""Bits of an integer."""

_WIDE = re.compile(r"\d{7,}|\*")
"""A width of a format that makes large texts, or one that an argument says."""


class BoundedSandbox(ImmutableSandboxedEnvironment):  # type: ignore[misc]
    """Refuses operations whose result would be huge, before they are computed."""

    filters: dict[str, Any]
    intercepted_binops = frozenset(("*", "**", "%"))

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.filters = {name: _bounded(one) for name, one in self.filters.items()}

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """Compute a binary operation. Raise UserError for a huge result."""
        if operator == "**" and isinstance(left, int) and isinstance(right, int):
            _check(left.bit_length() * right, MAX_BITS)
        elif operator == "*" and isinstance(left, int) and isinstance(right, int):
            _check(left.bit_length() + right.bit_length(), MAX_BITS)
        elif operator == "*":
            for some, count in ((left, right), (right, left)):
                if hasattr(some, "__len__") and isinstance(count, int):
                    _check(len(some) * count, MAX_TEXT)
        elif isinstance(left, str) and _WIDE.search(left):
            raise refused()
        return super().call_binop(context, operator, left, right)

    def call(self, context: Any, function: Any, /, *args: Any, **options: Any) -> Any:
        """Call a function. Raise UserError where its arguments ask for a huge result."""
        owner = getattr(getattr(function, "__wrapped__", function), "__self__", None)
        _check_arguments(args, options)
        if isinstance(owner, str):
            if function.__name__ in ("format", "format_map") and _WIDE.search(owner):
                raise refused()
            if function.__name__ in ("replace", "join", "translate"):
                _check(_longest((owner,)) * _longest(args), MAX_TEXT)
        return super().call(context, function, *args, **options)


def _bounded(function: Callable[..., Any]) -> Callable[..., Any]:
    """A filter whose arguments do not ask for a huge result."""

    @wraps(function)
    def checked(*args: Any, **options: Any) -> Any:
        _check_arguments(args, options)
        texts = [one for one in args if hasattr(one, "__len__")]
        if function.__name__ in ("do_replace", "sync_do_join", "do_join") and texts:
            _check(_longest(texts[:1]) * _longest(texts[1:]), MAX_TEXT)
        if function.__name__ == "do_format" and _WIDE.search(str(args[0])):
            raise refused()
        return function(*args, **options)

    return checked


def _check_arguments(args: tuple[Any, ...], options: Mapping[str, Any]) -> None:
    for value in (*args, *options.values()):
        if isinstance(value, int):
            _check(value, MAX_TEXT)


def _longest(values: Any) -> int:
    return max((len(one) for one in values if hasattr(one, "__len__")), default=1) or 1


def _check(size: int, limit: int) -> None:
    if size > limit:
        raise refused()


def refused() -> UserError:
    """Return the error for a template that takes too much."""
    return UserError(
        f"the chat template must end within {MAX_SECONDS:g} s and {MAX_BYTES >> 20} MiB, as those of models do; "
        "give the prompt as text"
    )


@contextmanager
def bounded() -> Iterator[None]:
    """Raise UserError from inside the block once it takes too long, or too much memory, in Python code."""
    begin, before, old = time.monotonic(), _peak_bytes(), sys.gettrace()

    def trace(*_: Any) -> Any:
        if time.monotonic() - begin > MAX_SECONDS or _peak_bytes() - before > MAX_BYTES:
            raise refused()
        return trace

    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(old)


def _peak_bytes() -> int:
    """The most memory that the process had resident; 0 where the system does not say."""
    try:
        from resource import RUSAGE_SELF, getrusage
    except ImportError:
        return 0
    return getrusage(RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
