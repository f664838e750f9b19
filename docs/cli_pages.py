"""The pages of the command line, generated from the parsers of argparse."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from graphc.cli.command_tree import GROUPS, Parser, parser_of, walk


def pages() -> dict[str, str]:
    """Return the file name of each command's page -> its Markdown, and the table of all commands, `table.inc`."""
    top = parser_of()
    found = {f"{_slug(one)}.md": _page(one) for one in _commands(top)}
    lines = []
    for title, names in GROUPS.items():
        lines += ["", f"**{title}**", "", "| command | what it does |", "|---|---|"]
        for one in _commands(*(top.subcommands[name] for name in names)):
            lines.append(f"| [`{one.prog}`](cli/{_slug(one)}.md) | {_first_line(one)} |")
    return found | {"table.inc": "\n".join([*lines, ""])}


def _commands(*parsers: Parser) -> Iterator[Parser]:
    """The parsers that run something, of these and below, in the order of the help."""
    for parser in parsers:
        yield from (one for one in walk(parser) if not one.subcommands)


def _slug(parser: Parser) -> str:
    return "-".join(parser.prog.split()[1:])


def _first_line(parser: Parser) -> str:
    return _escaped((parser.description or "").partition("\n")[0])


def _page(parser: Parser) -> str:
    lines = [f"# {parser.prog}", "", _first_line(parser), "", "```text", parser.synopsis(), "```"]
    for title, actions in (("Arguments", parser.positionals), ("Options", parser.options)):
        if actions:
            lines += ["", f"## {title}", "", f"| {title[:-1].lower()} | meaning |", "|---|---|"]
            lines += [f"| {_name(action)} | {_help(parser, action)} |" for action in actions]
    return "\n".join(lines) + "\n"


def _name(action: argparse.Action) -> str:
    value = ""
    if action.nargs != 0:
        choices = "|".join(map(str, action.choices)) if action.choices else ""
        default = action.dest.upper() if action.option_strings else action.dest
        value = str(action.metavar or choices or default)
    names = action.option_strings or [""]
    spelled = [f"`{f'{name} {value}'.strip()}`" for name in names]
    return ", ".join(spelled).replace("|", "\\|")


def _help(parser: Parser, action: argparse.Action) -> str:
    expanded = (action.help or "") % {**vars(action), "prog": parser.prog}
    return _escaped(" ".join(expanded.split()))


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "\\<").replace("*", "\\*")
