"""Outcomes of corrupt model files, by format: read all the same, refused with a sentence, or neither.

    python tests/measurements/damage.py [--count 1000] [--seed 1]

Each file is a small network with bytes flipped, runs of bytes cut, doubled or replaced, its end cut off, or parts of
two positions swapped. Slow files, over five seconds of CPU time, and exceptions that are not a sentence are failures.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from frontend.test_damage import NAMES, SECONDS, Sample

from graphc.base.errors import UnsupportedError, UserError
from graphc.frontend import load


def corrupt(data: bytes, rng: random.Random) -> bytes:
    """The bytes with one to three changes."""
    content = bytearray(data)
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(content) or 1)
        piece = content[at : at + rng.choice((1, 2, 4, 16, 64))]
        kind = rng.randrange(6)
        if kind == 0 and content:
            content[at] ^= rng.randrange(1, 256)
        elif kind == 1:
            del content[at : at + len(piece)]
        elif kind == 2:
            content[at:at] = piece
        elif kind == 3:
            content[at : at + len(piece)] = rng.randbytes(len(piece))
        elif kind == 4:
            del content[at:]
        else:
            other = rng.randrange(len(content) or 1)
            content[other : other + len(piece)] = piece
    return bytes(content)


def outcome(sample: Sample, data: bytes) -> str:
    """read, refused by blame, or a failure."""
    sample.path.write_bytes(data)
    started = time.process_time()
    try:
        load(sample.path, sample.specs, sample.constants)
        found = "read"
    except UserError:
        found = "refused"
    except UnsupportedError:
        found = "unsupported"
    except Exception as error:  # noqa: BLE001 - that is what is looked for
        found = f"FAILURE {type(error).__name__}"
    return found if time.process_time() - started < SECONDS else "FAILURE slow"


def main() -> int:
    """Print a line per format; 1 if there was a failure."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=1000, help="files of each format")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    failures = 0
    for name in NAMES:
        rng = random.Random(f"{arguments.seed} {name}")
        with tempfile.TemporaryDirectory() as folder:
            sample = Sample(name, Path(folder))
            outcomes = (outcome(sample, corrupt(sample.data, rng)) for _ in range(arguments.count))
            counts = Counter(outcomes)
        failures += sum(count for found, count in counts.items() if found.startswith("FAILURE"))
        texts = ", ".join(f"{count} {found}" for found, count in counts.most_common())
        print(f"{name:<6} {arguments.count} files: {texts}", flush=True)
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
