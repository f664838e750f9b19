"""`graphc cache verify`: checks every byte of the compile cache."""

from __future__ import annotations

import argparse
import json

from ..model_arguments import add_json_argument
from ..terminal import say
from .opened import facts_of, opened_cache, summary_of

HELP = "Check the SHA-256 of every file in the cache"
KEYWORDS = ("fsck",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    parser.add_argument("--delete", action="store_true", help="delete the corrupt files")
    add_json_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Print the corrupt files; 1 if there are any. Raise UserError if the cache is turned off or must not be used."""
    found = opened_cache()
    corrupt = found.verify(args.delete)
    held = found.contents()
    if args.json:
        say(
            json.dumps(
                {**facts_of(found, held), "corrupt": {str(k): v for k, v in corrupt.items()}}
            )
        )
    else:
        for path, reason in corrupt.items():
            say(f"corrupt: {path}: {reason}")
        remedy = ", deleted" if args.delete else "; --delete deletes them"
        say(f"{len(corrupt)} corrupt files{remedy if corrupt else ''}; {summary_of(found, held)}")
    return 1 if corrupt else 0
