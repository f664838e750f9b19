"""`graphc cache`: what the compile cache holds, and how to empty it."""

from __future__ import annotations

import argparse
import json
import time

from ...base.errors import UserError
from ..model_arguments import add_json_argument
from ..terminal import say

HELP = "Show or clear the cache of compiled models and kernels"
KEYWORDS = ("clean",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    parser.add_argument(
        "action", choices=("status", "clear"), help="list what it holds, or delete all of it"
    )
    add_json_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Show or clear. UserError if the cache is turned off or must not be used."""
    from ...driver.compile_cache import LIMIT_BYTES, default_cache

    found = default_cache()
    if found is None:
        raise UserError(
            "the compile cache is off: GRAPHC_CACHE_DIR is empty; unset it, or name a folder in it"
        )
    if args.action == "clear":
        models, kernels, size = found.clear()
        facts = {
            "folder": str(found.folder),
            "models": models,
            "kernels": kernels,
            "bytes": size,
        }
        lines = [
            f"deleted {models} models and {kernels} kernels, {size / 1e6:.1f} MB, from {found.folder}"
        ]
    else:
        held = found.contents()
        size = held.size_bytes
        facts = {
            "folder": str(found.folder),
            "limit_bytes": LIMIT_BYTES,
            "bytes": size,
            "models": [vars(entry) for entry in held.models],
            "kernels": held.kernels,
            "kernel_bytes": held.kernel_bytes,
        }
        lines = [
            f"{entry.key[:12]}  {entry.size_bytes / 1e6:9.1f} MB  {_ago(entry.used):>9}  {entry.model}"
            for entry in held.models
        ]
        lines.append(
            f"{len(held.models)} models and {held.kernels} kernels ({held.kernel_bytes / 1e6:.1f} MB), "
            f"{size / 1e6:.1f} of {LIMIT_BYTES / 1e6:.0f} MB, in {found.folder}"
        )
    say(json.dumps(facts) if args.json else "\n".join(lines))
    return 0


def _ago(moment: float) -> str:
    """The age in the largest unit that fits."""
    seconds = max(0.0, time.time() - moment)
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit} ago"
    return f"{seconds:.0f} s ago"
