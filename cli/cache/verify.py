"""`graphc cache verify`: checks every byte of the compile cache."""

from __future__ import annotations

import argparse
import json

from ..model_arguments import add_json_argument
from ..terminal import say
from .opened import facts_of, opened_cache, summary_of

HELP = "Check the SHA-256 of every model, kernel and file of weights in the cache"
KEYWORDS = ("fsck",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    parser.add_argument("--delete", action="store_true", help="delete the damaged files")
    add_json_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Print the damaged files; 1 if there are any. UserError if the cache is turned off or must not be used."""
    found = opened_cache()
    damaged = found.verify(args.delete)
    held = found.contents()
    if args.json:
        say(
            json.dumps(
                {**facts_of(found, held), "damaged": {str(k): v for k, v in damaged.items()}}
            )
        )
    else:
        for path, reason in damaged.items():
            say(f"damaged: {path}: {reason}")
        say(f"{len(damaged)} damaged files; {summary_of(found, held)}")
    return 1 if damaged else 0
