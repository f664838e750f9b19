"""Errors by blame: the user's input, what graphc does not handle yet, and our own faults."""

from __future__ import annotations


class GraphcError(Exception):
    """Base of every error graphc raises on purpose. `exit_code` is what the command line returns."""

    exit_code = 4


class UserError(GraphcError):
    """The model file, a shape, a dtype or an argument is wrong. One sentence: who, rule, values, remedy."""

    exit_code = 2


class UnsupportedError(GraphcError):
    """The input is valid but graphc does not handle it. Lists every such item at once."""

    exit_code = 3


class InternalError(GraphcError):
    """A fault of graphc itself. `excerpt` is the text of the IR around the fault, shown with the message."""

    exit_code = 4

    def __init__(self, message: str, excerpt: str = "") -> None:
        super().__init__(message)
        if excerpt:
            self.add_note(excerpt)
