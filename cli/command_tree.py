"""The tree of commands: their parsers, the grouped help, and suggestions for mistyped commands and options."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from ..base.suggestion import closest
from ..base.version import __version__
from .file_kinds import described, identify
from .manual import manual_page
from .parser import Parser, walk
from .shells import SHELLS

GROUPS = {
    "Everyday": ("compile", "run", "generate", "profile", "bench"),
    "Look inside": ("explain", "inspect"),
    "Find errors": ("compare", "doctor"),
    "Prepare models": ("convert", "tune"),
    "Deploy": ("serve", "cache"),
    "Develop graphc": ("dev",),
}
"""The commands, in the order of the help."""

PLUGIN_HELP = "load ops, kernels, passes or patterns from a Python file or module (repeatable)"


def parse(words: Sequence[str]) -> argparse.Namespace:
    """Parse a command line. SystemExit for `--help`, or with code 2 for wrong usage."""
    path = _path(words)
    top = parser_of(path)
    args, unknown = top.parse_known_args(list(words))
    if unknown and not _takes_late(top, path, unknown, args):
        _refuse(top, path, unknown)
    return args


def _takes_late(
    top: Parser, path: Sequence[str], unknown: Sequence[str], args: argparse.Namespace
) -> bool:
    """Give a word behind options to the optional argument that the parser took for absent when it met the options."""
    parser = top
    for name in path:
        parser = parser.subcommands[name]
    absent = [one for one in parser.late_arguments if getattr(args, one.dest) == one.default]
    if len(unknown) > 1 or unknown[0].startswith("-") or not absent:
        return False
    setattr(args, absent[0].dest, unknown[0])
    return True


def parser_of(path: Sequence[str] = ()) -> Parser:
    """Return the parser of the command at `path`, (`dev`, `fuzz`), with those above it; of all commands if empty."""
    top = Parser(
        prog="graphc", formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Compile neural networks to native SIMD code for this CPU.\n\n" + _overview(path),
        epilog="`graphc COMMAND --help` describes a command.",
    )  # fmt: skip
    top.add_argument("--version", action="version", version=f"graphc {__version__}")
    top.add_argument(
        "--completion", action=_Completion, choices=SHELLS, help="print a completion script"
    )
    top.add_argument("--manual", action=_Manual, nargs=0, help="print the manual page (roff)")
    _add_debug(top, default=False)
    _add_commands(top, path[:1] or [x for names in GROUPS.values() for x in names], path[1:], "")
    return top


def _add_commands(parser: Parser, names: Sequence[str], path: Sequence[str], package: str) -> None:
    """Add the commands of a package; of those below it, only those on the path, if there is one."""
    found = parser.add_subparsers(
        metavar="COMMAND", required=True, parser_class=Parser, help=argparse.SUPPRESS
    )
    for name in names:
        module = _module(f"{package}.{name}")
        below = getattr(module, "SUBCOMMANDS", None)
        one = found.add_parser(name, help=module.HELP, description=f"{module.HELP}.")
        if below is None:
            _add_debug(one, default=argparse.SUPPRESS)  # keep options given before the command
            one.add_argument(
                "--plugin", action="append", default=[], metavar="FILE", help=PLUGIN_HELP
            )
            module.add_arguments(one)
            one.set_defaults(command=module.run, prog=one.prog)  # `compile` has its own --run
        else:
            one.description = f"{module.HELP}.\n\n{_listing(f'{package}.{name}', below)}"
            one.formatter_class = argparse.RawDescriptionHelpFormatter
            _add_commands(one, path[:1] or below, path[1:], f"{package}.{name}")


def _module(name: str) -> Any:
    """The module of a command, such as `.dev.fuzz`."""
    return import_module(name, __package__)


def _listing(package: str, names: Sequence[str]) -> str:
    return "\n".join(f"  {name:<10} {_module(f'{package}.{name}').HELP}" for name in names)


def _overview(path: Sequence[str]) -> str:
    """The commands by group; empty where one command is known to be meant, so that only its module is imported."""
    if path:
        return ""
    return "\n\n".join(f"{title}:\n{_listing('', names)}" for title, names in GROUPS.items())


def _path(words: Sequence[str]) -> tuple[str, ...]:
    """The path of the command that the words name. SystemExit for one that does not exist."""
    path: tuple[str, ...] = ()
    names = tuple(name for group in GROUPS.values() for name in group)
    for word in words:
        if word == "--completion":
            break  # its value is not a command
        if word.startswith("-"):
            continue
        if word not in names:
            _refuse_command(path, word, names)
        path += (word,)
        names = getattr(_module("." + ".".join(path)), "SUBCOMMANDS", ())
        if not names:
            break
    return path


def _refuse_command(path: tuple[str, ...], word: str, names: Sequence[str]) -> NoReturn:
    """Exit for a word that names no command; suggest one of any level by its name or its keywords."""
    above = " ".join(("graphc", *path))
    if found := identify(Path(word)):
        print(f"graphc: error: {described(word, found)}", file=sys.stderr)
        raise SystemExit(2)
    keywords: dict[str, str] = {}
    commands: dict[str, str] = {name: f"{above} {name}" for name in names}
    for parser in walk(parser_of()):
        name = parser.prog.rpartition(" ")[2]
        commands.setdefault(name, parser.prog)
        if not parser.subcommands:
            module = _module(".".join(["", *parser.prog.split()[1:]]))
            for keyword in getattr(module, "KEYWORDS", ()):
                keywords.setdefault(keyword, parser.prog)
    like = keywords.get(word) or commands.get(closest(word, list(commands)))
    meant = f"did you mean `{like}`?" if like else f"commands are {', '.join(names)}"
    print(f"graphc: error: '{above}' has no command '{word}'; {meant}", file=sys.stderr)
    raise SystemExit(2)


def _refuse(top: Parser, path: Sequence[str], unknown: Sequence[str]) -> NoReturn:
    """Exit for arguments that the command does not take."""
    parser = top
    for name in path:
        parser = parser.subcommands[name]
    word = unknown[0].partition("=")[0]
    if not word.startswith("-"):
        parser.error(f"there is no use for the argument '{unknown[0]}'")
    known = [text for action in parser.options for text in action.option_strings]
    like = closest(word, [text for text in known if text.startswith("--")])
    parser.error(f"there is no option '{word}'" + (f"; did you mean '{like}'?" if like else ""))


def _add_debug(parser: argparse.ArgumentParser, default: object) -> None:
    parser.add_argument(
        "--debug", action="store_true", default=default, help="print the traceback of an error"
    )


class _Completion(argparse.Action):
    """Print the completion script of a shell and exit."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: Any = None) -> None:
        print(SHELLS[values](parser_of()), end="")
        parser.exit()


class _Manual(argparse.Action):
    """Print the manual page and exit."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: Any = None) -> None:
        print(manual_page(parser_of()), end="")
        parser.exit()
