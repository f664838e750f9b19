"""Ordinary modules with dynamic axes, exported several ways and compared with PyTorch at other sizes.

    python tests/measurements/dynamic_shapes.py [--door pnnx|torch.export|onnx] [MODULE ...]

Prints a line for each export that is not right, and the counts of right, refused and wrong; "not exported" is the
exporter's own refusal, and "lost by the exporter" a file that says something else than the module.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.dynamic_modules import DOORS, LOST, MODULES, outcome


def main() -> None:
    """Print what is not right, and the counts; exit code 1 if anything is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("module", nargs="*", default=[*MODULES])
    parser.add_argument("--door", choices=[*DOORS], action="append")
    arguments = parser.parse_args()
    wrong = 0
    for door in arguments.door or DOORS:
        counts: Counter[str] = Counter()
        for name in arguments.module:
            found = _measured(door, name)
            if (door, name) in LOST and found != "right":
                found = f"lost by the exporter: {LOST[door, name]}"
            counts[found.partition(":")[0].split(" at ")[0]] += 1
            if found != "right":
                print(f"{door}, {name}: {found}", flush=True)
        wrong += counts["wrong"]
        print(f"{door}: {', '.join(f'{n} {word}' for word, n in sorted(counts.items()))}")
    sys.exit(1 if wrong else 0)


def _measured(door: str, name: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        try:
            exported = DOORS[door](MODULES[name], Path(folder))
        except Exception as error:  # noqa: BLE001 (an exporter's own)
            return f"not exported: {str(error).splitlines()[0][:150] if str(error) else error!r}"
        return outcome(MODULES[name], exported)


if __name__ == "__main__":
    main()
