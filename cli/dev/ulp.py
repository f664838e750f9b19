"""`graphc ulp`: the largest error of the f32 functions, over every input there is."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...base.errors import UserError
from ...targets.isa import ISAS
from ..progress import Report, progress
from ..terminal import answer

if TYPE_CHECKING:
    from ...graph_ir.ir.graph import Array

HELP = "Measure the largest error of every f32 function over all 2**32 inputs"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    parser.add_argument(
        "ops",
        nargs="*",
        metavar="OP",
        help="ops to measure, or variants of an op as they are printed (default: all)",
    )
    parser.add_argument(
        "--stride", type=int, default=1, metavar="N", help="only every Nth bit pattern (default: 1)"
    )
    parser.add_argument(
        "--target", action="append", choices=ISAS,
        help="instruction set (repeatable; default: those with FMA that this CPU has)",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print one JSON object per line")


def run(args: argparse.Namespace) -> int:
    """Print one line per function and instruction set; 1 if a bound does not hold."""
    from ...codegen.host import host_supports
    from ...tools.ulp_sweep import CASES, CHUNK, ISAS, PATTERNS, chunks, sweep

    known = {name for case in CASES for name in (case.op, case.name)}
    if unknown := [op for op in args.ops if op not in known]:
        raise UserError(f"op '{unknown[0]}' has no bound; known are {', '.join(sorted(known))}")
    if args.stride < 1:
        raise UserError(f"--stride must be at least 1, got {args.stride}")
    isas = [isa for isa in args.target or ISAS if host_supports(isa)]
    steps = -(-PATTERNS // (CHUNK * args.stride))
    exceeded = False
    for case in [case for case in CASES if not args.ops or {case.op, case.name} & set(args.ops)]:
        start = time.perf_counter()
        with progress(args.json) as report:
            found = sweep(case, isas, _reported(chunks(args.stride), case.name, steps, report))
        seconds = time.perf_counter() - start
        for isa, worst in found.items():
            exceeded |= worst.error > case.bound
            facts = {
                "function": case.name,
                "isa": isa,
                "ulp": max(worst.error, 0.5),
                "at": worst.at,
            }
            facts |= {"bound": case.bound, "inputs": steps * CHUNK, "seconds": round(seconds, 1)}
            answer(args, facts, [_line(facts)], 4)
    return int(exceeded)


def _reported(inputs: Iterator[Array], name: str, steps: int, report: Report) -> Iterator[Array]:
    for done, x in enumerate(inputs):
        report(name, done, steps)
        yield x
    report(name, steps, steps)


def _line(facts: dict[str, object]) -> str:
    verdict = "" if facts["ulp"] <= facts["bound"] else "  EXCEEDED"  # type: ignore[operator]
    return (
        f"{facts['function']:<34} {facts['isa']:<7} {facts['ulp']:8.4f} ULP at {facts['at']!r:<24} "
        f"bound {facts['bound']}, {facts['inputs']:,} inputs, {facts['seconds']} s{verdict}"
    )
