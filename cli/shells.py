"""Completion scripts for bash, zsh and fish, generated from the parsers."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator

from .parser import Parser, walk

_FILES = ("FILE", "DIR", "DUMP", "model", "first", "second", "artifact", "dump")
"""Names of arguments whose values are paths."""


def bash(top: Parser) -> str:
    """Return a script to `source` in bash: each command's subcommands and options, values of options, files."""
    cases = []
    for parser in walk(top):
        words = [*parser.subcommands, *_spellings(parser)]
        files = "" if parser.subcommands else " files=-f"
        cases.append(f'        "{parser.prog}") words="{" ".join(words)}"{files} ;;')
    values = [
        f'        "{parser.prog} {text}") COMPREPLY=($(compgen -W "{choices}" -- "$word")); return ;;'
        for parser in walk(top)
        for text, choices in _choices(parser)
    ]
    return _BASH.format(cases="\n".join(cases), values="\n".join(values), paths=_paths(top))


def zsh(top: Parser) -> str:
    """Return a script for zsh: the one for bash, through zsh's `bashcompinit`."""
    return f"#compdef graphc\nautoload -U +X bashcompinit && bashcompinit\n{bash(top)}"


def fish(top: Parser) -> str:
    """Return a script for fish, with the help of each command and option."""
    lines = ["complete -c graphc -e"]
    for parser in walk(top):
        names = parser.prog.split()[1:]
        seen = "; and ".join(f"__fish_seen_subcommand_from {name}" for name in names)
        below = " ".join(parser.subcommands)
        for name, one in parser.subcommands.items():
            alone = f"not __fish_seen_subcommand_from {below}"
            when = f"{seen}; and {alone}" if seen else "__fish_use_subcommand"
            help = _quoted((one.description or "").partition("\n")[0])
            lines.append(f"complete -c graphc -f -n '{when}' -a {name} -d {help}")
        for action in parser.options:
            lines.append(_fish_option(action, seen or "__fish_use_subcommand"))
    return "\n".join(lines) + "\n"


SHELLS: dict[str, Callable[[Parser], str]] = {"bash": bash, "zsh": zsh, "fish": fish}


def _fish_option(action: argparse.Action, when: str) -> str:
    words = ["complete -c graphc", f"-n '{when}'"]
    for text in action.option_strings:
        words.append(f"-l {text[2:]}" if text.startswith("--") else f"-s {text[1:]}")
    if action.choices:
        words.append(f"-x -a {_quoted(' '.join(map(str, action.choices)))}")
    elif action.nargs != 0:
        words.append("-r" if action.metavar in _FILES else "-x")
    help = (action.help or "") % {"default": action.default}
    return " ".join([*words, f"-d {_quoted(help)}"])


def _spellings(parser: Parser) -> list[str]:
    return [text for action in parser.options for text in action.option_strings]


def _choices(parser: Parser) -> Iterator[tuple[str, str]]:
    for action in parser.options:
        if action.choices:
            for text in action.option_strings:
                yield text, " ".join(map(str, action.choices))


def _paths(top: Parser) -> str:
    """The paths of commands, as a pattern of bash."""
    return "|".join(f'"{parser.prog}"' for parser in walk(top))


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


_BASH = """# bash completion of graphc: source <(graphc --completion bash)
_graphc() {{
    local word="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}" path=graphc words="" files="" i
    for ((i = 1; i < COMP_CWORD; i++)); do
        case "$path ${{COMP_WORDS[i]}}" in
        {paths}) path="$path ${{COMP_WORDS[i]}}" ;;
        esac
    done
    case "$path $before" in
{values}
    esac
    case "$path" in
{cases}
    esac
    COMPREPLY=($(compgen -W "$words" -- "$word"))
    if [[ $files && $word != -* ]]; then
        COMPREPLY+=($(compgen $files -- "$word"))
    fi
}}
complete -o filenames -F _graphc graphc
"""
