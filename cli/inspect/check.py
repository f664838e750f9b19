"""`graphc inspect check`: whether a model of any format would compile, and what would be slow, without compiling it."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from ..model_arguments import add_model_argument, add_options, add_reading_arguments, read_model
from ..terminal import answer

HELP = "Report unsupported and slow ops of a model without compiling it"
KEYWORDS = ("lint", "validate")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    add_model_argument(parser)
    add_reading_arguments(parser)
    add_options(parser, "target", "json")


def run(args: argparse.Namespace) -> int:
    """0 if the model compiles; what is refused is an error as of `compile`: 2 or 3, with its reason."""
    from ...codegen.host import target_for
    from ...tools.check import check_model

    graph, _ = read_model(args)
    remarks = check_model(graph, target_for(args.target))
    counted = sum(op.kind not in ("source", "sink") for op in graph.ops)
    facts = {
        "model": graph.name,
        "ops": counted,
        "gflop": graph.get_gflop(),
        "inputs": {op.name: str(op.outputs[0].details) for op in graph.inputs},
        "checks": list(graph.checks),
        "slow": [asdict(remark) for remark in remarks],
    }
    lines = [f"compiles  {graph.name}: {counted} ops, {graph.get_gflop():.3g} GFLOP"]
    lines += [f"each run  checks: {text}" for text in graph.checks]
    for remark in remarks:
        share = f" ({remark.share:.0%} of the work)" if remark.share >= 0.005 else ""
        lines.append(f"slow      {remark.type} '{remark.op}'{share}: {remark.text}")
    answer(args, facts, lines, 10)
    return 0
