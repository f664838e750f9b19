"""The manual page, generated from the parsers."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from ..base.version import __version__
from .parser import Parser

_EXIT_CODES = (
    ("0", "success"),
    ("1", "a result differs from its reference"),
    ("2", "wrong usage or invalid input"),
    ("3", "valid input that is not supported"),
    ("4", "a bug in graphc"),
)
_ENVIRONMENT = (
    ("GRAPHC_CACHE_DIR", "folder of the compile cache; empty turns the cache off"),
    ("GRAPHC_NUM_THREADS", "default of --threads"),
    ("GRAPHC_JOBS", "default of --jobs"),
    ("GRAPHC_TUNING", "default of --tuning"),
    ("GRAPHC_PERF", "name loaded code for perf: map or jitdump"),
    ("GRAPHC_VERIFY", "verify the program after every pass"),
    ("GRAPHC_LOG", "loggers to print: fuse=debug,codegen"),
)


def manual_page(top: Parser) -> str:
    """Return the manual page of all commands in roff: `graphc --manual | man -l -`."""
    return "\n".join([*_lines(top), ""])


def _lines(top: Parser) -> Iterator[str]:
    yield f'.TH GRAPHC 1 "" "graphc {__version__}" "User Commands"'
    yield from (".SH NAME", "graphc \\- compile neural networks to native SIMD code")
    yield from (".SH SYNOPSIS", ".B graphc", "COMMAND [options]")
    yield ".SH COMMANDS"
    for parser in _leaves(top):
        yield f".SS {_roff(parser.synopsis())}"
        yield _roff((parser.description or "").partition("\n")[0])
        for action in (*parser.positionals, *parser.options):
            yield from _argument(action)
    yield ".SH OPTIONS"
    for action in top.options:
        yield from _argument(action)
    for title, rows in (("EXIT STATUS", _EXIT_CODES), ("ENVIRONMENT", _ENVIRONMENT)):
        yield f".SH {title}"
        for name, text in rows:
            yield from (".TP", f".B {name}", _roff(text))


def _leaves(parser: Parser) -> Iterator[Parser]:
    for one in parser.subcommands.values():
        yield from _leaves(one) if one.subcommands else (one,)


def _argument(action: argparse.Action) -> Iterator[str]:
    values = "{" + ",".join(map(str, action.choices)) + "}" if action.choices else ""
    value = "" if action.nargs == 0 else str(values or action.metavar or action.dest.upper())
    if action.option_strings:
        name = " ".join([", ".join(action.option_strings), *filter(None, [value])])
    else:
        name = str(action.metavar or action.dest)
    yield from (
        ".TP",
        f".B {_roff(name)}",
        _roff((action.help or "") % {"default": action.default}),
    )


def _roff(text: str) -> str:
    """Escape what roff would read as a request or an escape sequence."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped
