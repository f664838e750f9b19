"""How long reading HLO text takes, by the number of instructions: parse (with the check of shapes) and import.

    python benchmarks/hlo_parse.py [INSTRUCTIONS ...]

Targets on one core: 13,000 instructions parse in under 1.0 s and import in under 3 s, linear to 200,000.
"""

from __future__ import annotations

import sys
import time

from graphc.frontend.hlo import import_hlo, parse_hlo

SIZES = (1_000, 13_000, 50_000, 100_000, 200_000)
OPCODES = ("add", "multiply", "maximum", "subtract")


def module_text(count: int) -> str:
    """A module of `count` instructions in the long form, metadata included."""
    shape = "f32[16,16]{1,0}"
    lines = [
        "HloModule benchmark",
        "",
        "ENTRY %main (x: f32[16,16]) -> f32[16,16] {",
        f"  %v.0 = {shape} parameter(0)",
    ]
    for i in range(1, count):
        root = "ROOT " if i == count - 1 else ""
        operands = f"{shape} %v.{i - 1}, {shape} %v.{max(0, i - 7)}"
        metadata = f'op_type="Mul" op_name="transformer/layer_{i}/mul_1" source_line={i}'
        lines.append(
            f"  {root}%v.{i} = {shape} {OPCODES[i % 4]}({operands}), metadata={{{metadata}}}"
        )
    return "\n".join([*lines, "}", ""])


def main() -> None:
    """Print the curve."""
    sizes = [int(text) for text in sys.argv[1:]] or SIZES
    print(
        f"{'instructions':>12} {'MB':>6} {'parse s':>8} {'us each':>8} {'import s':>9} {'us each':>8}"
    )
    for size in sizes:
        text = module_text(size)
        start = time.process_time()
        module = parse_hlo(text)
        parsed = time.process_time()
        import_hlo(module)
        done = time.process_time()
        parse, build = parsed - start, done - parsed
        print(
            f"{size:12} {len(text) / 1e6:6.1f} {parse:8.2f} {parse / size * 1e6:8.1f} "
            f"{build:9.2f} {build / size * 1e6:8.1f}"
        )


if __name__ == "__main__":
    main()
