"""`graphc cache verify`: checks every byte of the compile cache."""

from __future__ import annotations

import argparse

from ..model_arguments import add_options
from ..terminal import answer
from .opened import facts_of, opened_cache, summary_of

HELP = "Check the SHA-256 of every file in the cache"
KEYWORDS = ("fsck",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    parser.add_argument("--delete", action="store_true", help="delete the corrupt files")
    add_options(parser, "json")


def run(args: argparse.Namespace) -> int:
    """Print the corrupt files; 1 if there are any. Raise UserError if the cache is turned off or must not be used."""
    found = opened_cache()
    corrupt = found.verify(args.delete)
    held = found.contents()
    reasons = {str(path): reason for path, reason in corrupt.items()}
    remedy = ", deleted" if args.delete else "; --delete deletes them"
    lines = [f"corrupt: {path}: {reason}" for path, reason in reasons.items()]
    lines.append(
        f"{len(corrupt)} corrupt files{remedy if corrupt else ''}; {summary_of(found, held)}"
    )
    answer(args, {**facts_of(found, held), "corrupt": reasons}, lines)
    return 1 if corrupt else 0
