"""Leaves a graph to PyTorch where compiling it ends in an error, and says so in one line of the log."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from ..base.errors import UserError
from ..driver.reproducer import add_reproducer, is_bug

log = logging.getLogger("graphc.torch")


def compiled_or(
    otherwise: Callable[[str], Any],
    compiling: Callable[[], Any],
    *,
    strict: bool = False,
    is_last: bool = True,
) -> Any:
    """Return what `compiling` gives; where it fails, log the error and return `otherwise` of its text.

    An error of any kind leaves the graph to PyTorch, whose own operators run it. Raises a UserError, which says what is
    wrong with the arguments of `torch.compile`, Dynamo's requests to trace again, and with `strict` every error. Of an
    attempt that is not the last, errors other than Dynamo's are remarks: the last one raises and reports them.
    """
    from torch._dynamo.exc import RestartAnalysis, SkipFrame

    try:
        return compiling()
    except Exception as error:
        if isinstance(error, (RestartAnalysis, SkipFrame)):
            raise
        if is_last and is_bug(error):
            add_reproducer(error)
        if is_last and (strict or isinstance(error, UserError)):
            raise
        reason = named(error)
    if is_last:
        say(f"the graph runs in eager: {reason}")
    return otherwise(reason)


def named(error: Exception) -> str:
    """The class of an error, the first line of its message, and the notes that name its reproducer."""
    first = f"{error}".strip().partition("\n")[0]
    notes = [note for note in getattr(error, "__notes__", ()) if "\n" not in note]
    return "; ".join([f"{type(error).__name__}: {first}", *notes])


def say(text: str) -> None:
    """Log a line; print it to stderr where no handler exists, as graphc is silent by itself."""
    log.warning("%s", text)
    if not logging.getLogger().handlers and logging.lastResort is not None:
        record = log.makeRecord(log.name, logging.WARNING, "", 0, f"graphc: {text}", (), None)
        logging.lastResort.handle(record)
