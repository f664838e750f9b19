"""The parser of a command line: no abbreviations, short usage, errors of one sentence."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any, NoReturn, cast


class Parser(argparse.ArgumentParser):
    """A parser that takes no abbreviations and reports wrong usage in one sentence."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(allow_abbrev=False, **kwargs)

    def error(self, message: str) -> NoReturn:
        """Exit with code 2."""
        self.exit(2, f"graphc: error: {message}; see `{self.prog} --help`\n")

    def format_usage(self) -> str:
        """Return `usage: graphc run [options] artifact`."""
        return f"usage: {self.synopsis()}\n"

    def format_help(self) -> str:
        """Return the help with the short usage line in front."""
        _, _, rest = super().format_help().partition("\n\n")
        return f"{self.format_usage()}\n{rest}"

    def synopsis(self) -> str:
        """Return the command, `[options]` and its positional arguments."""
        words = [self.prog, "[options]"]
        for action in self._get_positional_actions():
            name = action.metavar or action.dest
            words.append(f"[{name}]" if action.nargs in ("?", "*") else str(name))
        return " ".join([*words, "..."] if self.subcommands else words)

    @property
    def subcommands(self) -> dict[str, Parser]:
        """The parsers of the commands below this one, by name."""
        for action in self._get_positional_actions():
            if isinstance(action, argparse._SubParsersAction):
                return cast("dict[str, Parser]", action.choices)
        return {}

    @property
    def late_arguments(self) -> list[argparse.Action]:
        """The positional arguments that may be absent, in order."""
        return [one for one in self._get_positional_actions() if one.nargs == "?"]

    @property
    def options(self) -> list[argparse.Action]:
        """The options that the help shows."""
        actions = self._get_optional_actions()
        return [action for action in actions if action.help != argparse.SUPPRESS]

    @property
    def positionals(self) -> list[argparse.Action]:
        """The positional arguments, except for commands."""
        actions = self._get_positional_actions()
        return [a for a in actions if not isinstance(a, argparse._SubParsersAction)]


def walk(parser: Parser) -> Iterator[Parser]:
    """Yield a parser and those of the commands below it."""
    yield parser
    for one in parser.subcommands.values():
        yield from walk(one)
