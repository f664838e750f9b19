"""Calls into user code: an exception in it is a user error, reported in one sentence."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from ..base.errors import GraphcError, UserError

Result = TypeVar("Result")


def called(
    who: str, what: str, function: Callable[..., Result], /, *args: Any, **attrs: Any
) -> Result:
    """Call a function of user code and return its result. An exception in it becomes a UserError: "WHO: WHAT
    raised ..."."""
    try:
        return function(*args, **attrs)
    except GraphcError:
        raise
    except Exception as error:
        raise UserError(
            f"{who}: {what} raised {type(error).__name__}: {error}; fix that function"
        ) from error


def check_takes(
    who: str,
    what: str,
    function: Callable[..., Any],
    operands: Iterable[str],
    attrs: Iterable[str] = (),
) -> None:
    """Raise UserError if a function does not take these positional and these keyword arguments."""
    operands, attrs = list(operands), list(attrs)
    if not callable(function):
        raise UserError(f"{who}: {what} must be a function, got {type(function).__name__}")
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # functions in machine code need not have one
        return
    try:
        signature.bind(*operands, **dict.fromkeys(attrs))
    except TypeError:
        wanted = ", ".join([*operands, *(["*", *attrs] if attrs else [])])
        raise UserError(f"{who}: {what} must take ({wanted}), got {signature}") from None
