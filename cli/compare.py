"""`graphc compare`: finds where a compiled model first goes wrong, and the pass, kernel or importer to blame."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..base.errors import UserError
from .model_arguments import add_compile_arguments, add_options, model_arrays, opened_model
from .progress import Report, progress
from .terminal import answer

if TYPE_CHECKING:
    from ..graph_ir.ir.graph import Graph
    from ..graph_ir.schedule.context import LowerContext
    from ..tools.compare import Finding, Outcome
    from ..tools.precision_error import PrecisionError

HELP = "Check results against a reference; find the first wrong op and its cause"
KEYWORDS = ("accuracy", "test")
MAX_ERRORS = 5
"""Ops that are listed of a lower precision."""

ENGINES = ("numpy", "ort", "openvino", "onnx-reference", "xla", "torch")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    add_compile_arguments(parser, schedules=False)
    add_options(parser, "size")
    parser.add_argument(
        "--against", choices=ENGINES, default="numpy",
        help="the engine to compare the imported model with: xla for HLO, torch for PNNX, the others for ONNX "
        "(default: numpy, the references of graphc's own ops)",
    )  # fmt: skip
    parser.add_argument(
        "--reproducer", metavar="DIR", default="graphc-reproducer",
        help="folder for the smallest model that shows the error (default: %(default)s)",
    )  # fmt: skip
    add_options(parser, "json", "quiet")


def run(args: argparse.Namespace) -> int:
    """Print the verdict; if something is wrong, write a reproducer and return 1."""
    ctx, source, values = opened_model(args)
    arrays = model_arrays(args, source, values)
    precision = None
    if args.precision != "f32":
        from ..graph_ir.inspect.lowered_model import lowered_model
        from ..tools.precision_error import precision_error

        exact = source
        source, ctx = lowered_model(exact, ctx)
        precision = precision_error(exact, source, arrays)
    with progress(args.quiet or args.json) as report:
        outcomes = _outcomes(args, source, ctx, arrays, report)
    finding = next((o.finding for o in outcomes.values() if o.finding), None)
    command = _reproducer(args, finding) if finding else None
    facts = _facts(outcomes, command)
    lines = _lines(outcomes, command)
    if precision is not None:
        facts["precision"] = asdict(precision)
        lines = chain(_precision_lines(args.precision, precision), lines)
    answer(args, facts, lines)
    return 1 if finding else 0


def _outcomes(
    args: argparse.Namespace,
    source: Graph,
    ctx: LowerContext,
    arrays: Mapping[str, Any],
    report: Report,
) -> dict[str, Outcome]:
    """Run the comparisons, up to the first finding; yields (reference, result)."""
    from ..tools.compare import compare_with_engine, compare_with_references

    outcomes: dict[str, Outcome] = {}
    if args.against != "numpy":
        from ..bench.intermediates import engine_values

        values = engine_values(args.against, args.model, arrays)
        outcomes[args.against] = compare_with_engine(source, args.against, values, arrays, report)
    if not any(outcome.finding for outcome in outcomes.values()):
        outcomes["numpy"] = compare_with_references(source, ctx, arrays, report)
    return outcomes


def _reproducer(args: argparse.Namespace, finding: Finding) -> str | None:
    from ..tools.submodel import write_reproducer

    if finding.model is None:
        return None
    if finding.stage == "frontend":
        return f"graphc compare {args.model} --against {args.against}"
    options = [f"-X {switch}" for switch in args.switches] + ["--exact"] * args.exact
    if args.target != "native":
        options.append(f"--target {args.target}")
    try:
        return write_reproducer(Path(args.reproducer), finding.model, finding.arrays, options)
    except UserError as error:
        return f"none: {error}"


def _lines(outcomes: Mapping[str, Outcome], command: str | None) -> Iterator[str]:
    for side, outcome in outcomes.items():
        finding = outcome.finding
        if finding is None:
            yield (
                f"ok: {outcome.checked} values agree with {side}; "
                f"worst is {outcome.worst} at {outcome.worst_share:.1%} of its bound"
            )
            continue
        yield f"WRONG against {side} after {outcome.checked} right values"
        yield f"stage     {finding.stage}"
        yield f"culprit   {finding.culprit}"
        yield f"op        {finding.op}: {finding.error}"
        yield from (f"          {note}" for note in finding.notes)
        if command:
            yield f"again     {command}"


def _precision_lines(name: str, found: PrecisionError) -> Iterator[str]:
    """Yield the error of each output relative to f32, and the ops that add most of it."""
    for output, error in found.outputs.items():
        yield f"{name}: {output} differs from f32 by {error:.2%} (root mean square)"
    for op, error in list(found.ops.items())[:MAX_ERRORS]:
        yield f"      {op} adds {error:.2%} on exact inputs"
    for op, why in list(found.kept.items())[:MAX_ERRORS]:
        yield f"      {op} {why}"


def _facts(outcomes: Mapping[str, Outcome], command: str | None) -> dict[str, Any]:
    sides = {
        side: {
            "checked": outcome.checked,
            "worst": outcome.worst,
            "worst_share": outcome.worst_share,
            "finding": _finding(outcome.finding) if outcome.finding else None,
        }
        for side, outcome in outcomes.items()
    }
    return {"against": sides, "reproducer": command}


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "stage": finding.stage,
        "culprit": finding.culprit,
        "op": finding.op,
        "error": finding.error.absolute,
        "bound": finding.error.bound,
        "notes": list(finding.notes),
    }
