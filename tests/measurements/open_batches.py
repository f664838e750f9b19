"""Every network of the suites, and the example, compiled once for any batch: the bits of the models of five batches.

    python tests/measurements/open_batches.py [NETWORK ...] [--whole]

Networks have small images and an eighth of their channels, so that convolutions have several forms, each for some
batches; with `--whole` the size that they are timed at.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from graphc.bench.networks import NETWORKS
from support.open_batches import differing

BATCHES = (1, 2, 5, 11, 13)
"""One, two, odd, and a register tile of 12 rows less and more one."""


def main() -> None:
    """Print a line for each network; exit code 1 if bits differ."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("network", nargs="*", default=["mlp", *NETWORKS])
    parser.add_argument(
        "--whole", action="store_true", help="with images and channels of full size"
    )
    arguments = parser.parse_args()
    wrong = 0
    for name in arguments.network:
        found = differing(name, BATCHES, arguments.whole)
        wrong += len(found)
        text = f"bits differ at batches {found}" if found else f"the same bits at batches {BATCHES}"
        print(f"{name}: {text}", flush=True)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
