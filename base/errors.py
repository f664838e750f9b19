"""Errors by blame: wrong input, input that graphc does not support yet, and bugs in graphc."""

from __future__ import annotations

import re
from typing import Self

from .printable import printable

_LONG_WORD = re.compile(r"\S{501,}")
_MAX_LETTERS = 50_000
_MESSAGE_LINES, _EXCERPT_LINES, _COLUMNS = 6, 14, 160


class GraphcError(Exception):
    """Base of every error graphc raises deliberately. `exit_code` is the exit code of the command line."""

    exit_code = 4

    def said(self, message: str) -> Self:
        """The same error with another message, such as its own with the name of the file in front."""
        self.args = (one_line(message),)
        return self


class _ReportedError(GraphcError):
    """Base of one-sentence errors for the user: text quoted from a file is kept on one line and shortened."""

    def __init__(self, message: str) -> None:
        super().__init__(one_line(message))


class UserError(_ReportedError):
    """The model file, a shape, a dtype or an argument is wrong. One sentence: who, rule, values, remedy."""

    exit_code = 2


class UnsupportedError(_ReportedError):
    """The input is valid but graphc does not handle it. Lists every such item at once, and what to do about them."""

    exit_code = 3

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(f"{message}; {remedy}" if remedy else message)


class GraphcWarning(UserWarning):
    """Something that the user should know, although nothing failed."""


class InternalError(GraphcError):
    """A bug in graphc. `excerpt` is the text of the IR around the error.

    The message and the beginning of the excerpt, which is a note, fit one screen; `whole` has all of both, for the
    reproducer that the driver writes.
    """

    exit_code = 4

    def __init__(self, message: str, excerpt: str = "") -> None:
        super().__init__(screenful(message, _MESSAGE_LINES))
        self.whole = f"{message}\n\n{excerpt}" if excerpt else message
        if excerpt:
            self.add_note(screenful(excerpt, _EXCERPT_LINES))


def screenful(text: str, most: int) -> str:
    """The first lines of a text, cut to the width of a page: at most `most`, the last says how many more there are."""
    lines = text.splitlines()
    shown = lines if len(lines) <= most else lines[: most - 1]
    cut = [line if len(line) <= _COLUMNS else f"{line[: _COLUMNS - 3]}..." for line in shown]
    more = [f"... and {len(lines) - len(shown)} more lines"] if len(shown) < len(lines) else []
    return "\n".join([*map(printable, cut), *more])


def one_line(message: str) -> str:
    """A message without control characters; of a word of more than 500 letters, or of a text beyond all measure, the
    middle is left out."""
    text = _LONG_WORD.sub(lambda found: _without_middle(found[0], 200), printable(message))
    return text if len(text) <= _MAX_LETTERS else _without_middle(text, _MAX_LETTERS // 2)


def _without_middle(text: str, kept: int) -> str:
    return f"{text[:kept]}[{len(text) - 2 * kept} more]{text[-kept:]}"
