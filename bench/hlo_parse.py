"""The time to read HLO text by number of instructions: parsing (with shape checks) and importing.

    python -m graphc.bench.hlo_parse [INSTRUCTIONS ...]

`chain` is a sequence of elementwise operations, `layers` a dense network of 13 opcodes with calls and tuples.
Targets on one core: 13,000 instructions parse in under 1.0 s and import in under 3 s, linear to 200,000.
"""

from __future__ import annotations

import gc
import sys
import time

from ..frontend.hlo import import_hlo, parse_hlo

SIZES = (1_000, 13_000, 50_000, 100_000, 200_000)
OPCODES = ("add", "multiply", "maximum", "subtract")


LAYER = """\
  d{i} = f32[16,16]{{1,0}} dot(v{p}, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  b{i} = f32[16,16]{{1,0}} broadcast(one), dimensions={{}}
  a{i} = f32[16,16]{{1,0}} add(d{i}, b{i})
  cmp{i} = pred[16,16]{{1,0}} compare(a{i}, b{i}), direction=GT
  p{i} = f32[16,16]{{1,0}} select(cmp{i}, a{i}, b{i})
  t{i} = f32[16,16]{{0,1}} transpose(p{i}), dimensions={{1,0}}
  m{i} = f32[16]{{0}} reduce(t{i}, low), dimensions={{1}}, to_apply=larger
  n{i} = f32[16,16]{{1,0}} broadcast(m{i}), dimensions={{0}}
  e{i} = f32[16,16]{{1,0}} exponential(n{i}), metadata={{op_name="layer_{i}/exp" source_line={i}}}
  sub{i} = f32[16,16]{{1,0}} call(t{i}, e{i}), to_apply=shifted
  r{i} = f32[256]{{0}} reshape(sub{i})
  g{i} = (f32[256]{{0}}, f32[16]{{0}}) tuple(r{i}, m{i})
  h{i} = f32[256]{{0}} get-tuple-element(g{i}), index=0
  v{i} = f32[16,16]{{1,0}} reshape(h{i})
"""
BODIES = """\
larger { x = f32[] parameter(0) y = f32[] parameter(1) ROOT z = f32[] maximum(x, y) }
shifted {
  x = f32[16,16]{1,0} parameter(0)
  y = f32[16,16]{1,0} parameter(1)
  ROOT z = f32[16,16]{1,0} subtract(x, y)
}
"""


def layers_text(count: int) -> str:
    """A module of about `count` instructions: as many layers as that takes."""
    layers = max(1, count // LAYER.count("\n"))
    body = "".join(LAYER.format(i=i, p=i - 1) for i in range(1, layers + 1))
    return (
        f"HloModule layers\n{BODIES}ENTRY main {{\n  v0 = f32[16,16]{{1,0}} parameter(0)\n"
        "  w = f32[16,16]{1,0} parameter(1)\n  one = f32[] constant(1)\n  low = f32[] constant(-inf)\n"
        f"{body}  ROOT out = f32[16,16]{{1,0}} copy(v{layers})\n}}\n"
    )


def chain_text(count: int) -> str:
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
    """Print both curves."""
    sizes = [int(text) for text in sys.argv[1:]] or SIZES
    print(
        f"{'module':>8} {'instructions':>12} {'MB':>6} {'parse s':>8} {'us each':>8} "
        f"{'import s':>9} {'us each':>8}"
    )
    for name, make in (("chain", chain_text), ("layers", layers_text)):
        for size in sizes:
            text = make(size)
            gc.collect()  # the previous graph is full of reference cycles
            start = time.process_time()
            module = parse_hlo(text)
            parsed = time.process_time()
            import_hlo(module)
            done = time.process_time()
            parse, build = parsed - start, done - parsed
            print(
                f"{name:>8} {size:12} {len(text) / 1e6:6.1f} {parse:8.2f} {parse / size * 1e6:8.1f} "
                f"{build:9.2f} {build / size * 1e6:8.1f}"
            )


if __name__ == "__main__":
    main()
