"""Every network of the suites and every example, compiled once for any batch: the bits of the models of five batches.

    python tests/measurements/dynamic_batches.py [NETWORK ...] [--whole]

Networks have small images and an eighth of their channels, so that convolutions have several forms, each for some
batches; with `--whole` the size that they are timed at. Examples of text have any length too.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from graphc.bench.dynamic_case import sizes_text
from graphc.bench.networks import NETWORKS
from support.dynamic_batches import differing
from support.dynamic_examples import EXAMPLES, differing_sizes, dynamic_example

BATCHES = (1, 2, 5, 11, 13)
"""One, two, odd, and a register tile of 12 rows less and more one."""


def main() -> None:
    """Print a line for each network; exit code 1 if bits differ."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("network", nargs="*", default=[*EXAMPLES, *NETWORKS])
    parser.add_argument(
        "--whole", action="store_true", help="with images and channels of full size"
    )
    arguments = parser.parse_args()
    wrong = 0
    for name in arguments.network:
        found, tried = _compared(name, arguments.whole)
        wrong += len(found)
        text = f"bits differ at {found}" if found else f"the same bits at {tried}"
        print(f"{name}: {text}", flush=True)
    sys.exit(1 if wrong else 0)


def _compared(name: str, whole: bool) -> tuple[list[str], str]:
    """(the sizes at which bits differ, those that were tried)."""
    if name not in EXAMPLES:
        return [*map(str, differing(name, BATCHES, whole))], f"batches {BATCHES}"
    with tempfile.TemporaryDirectory() as folder:
        example = dynamic_example(name, Path(folder))
        tried = ", ".join(map(sizes_text, example.sizes))
        return [*map(sizes_text, differing_sizes(example, example.sizes))], tried


if __name__ == "__main__":
    main()
