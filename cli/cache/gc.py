"""`graphc cache gc`: deletes what the compile cache does not need."""

from __future__ import annotations

import argparse

from ...base.memory_limit import parse_memory
from ..model_arguments import add_options
from ..terminal import answer
from .opened import facts_of, opened_cache, summary_of

HELP = "Delete the least recently used entries beyond a limit, and files older than an hour that no model uses"
KEYWORDS = ("clear", "clean", "prune")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    parser.add_argument(
        "--max-bytes", metavar="SIZE",
        help="size to keep, such as 500M or 2G; 0 deletes everything (default: 4 GiB)",
    )  # fmt: skip
    add_options(parser, "json")


def run(args: argparse.Namespace) -> int:
    """Delete, and print the new contents. Raise UserError if the cache is turned off or must not be used."""
    found = opened_cache()
    before = found.contents()
    limit = parse_memory(args.max_bytes, "--max-bytes").size_bytes if args.max_bytes else None
    held = found.collect(limit)
    freed = before.size_bytes - held.size_bytes
    models, kernels, weights = (
        len(before.models) - len(held.models), before.kernels - held.kernels,
        before.weights - held.weights,
    )  # fmt: skip
    deleted = {"models": models, "kernels": kernels, "weights": weights, "bytes": freed}
    text = f"deleted {models} models, {kernels} kernels and {weights} weights, {freed / 1e6:.1f} MB"
    answer(args, {**facts_of(found, held), "deleted": deleted}, [text, summary_of(found, held)])
    return 0
