"""`graphc dev bisect`: the results of a model after every pass of both pipelines, in the interpreters."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ..model_arguments import add_compile_arguments, add_options, model_arrays, opened_model
from ..terminal import answer

if TYPE_CHECKING:
    from ...graph_ir.ir.graph import Graph
    from ...graph_ir.schedule.context import LowerContext

HELP = "Run a model after every pass and find the first pass that changes results"
KEYWORDS = ("passes",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    add_compile_arguments(parser, schedules=False)
    add_options(parser, "size", "json")


def run(args: argparse.Namespace) -> int:
    """Print the largest error after each pass that changed something; return 1 if one is too large."""
    ctx, source, values = opened_model(args)
    rows = list(_rows(source, ctx, model_arrays(args, source, values)))
    answer(args, {"passes": rows}, map(_line, rows))
    return 0 if all(row["ok"] for row in rows) else 1


def _rows(source: Graph, ctx: LowerContext, arrays: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    from ...tools.bisect_passes import graph_prefixes, program_prefixes

    ordered = [arrays[op.name] for op in source.inputs]
    for pipeline, prefixes in (
        ("graph", graph_prefixes(source, ctx, ordered)),
        ("loops", program_prefixes(source, ctx, ordered)),
    ):
        for prefix in prefixes:
            yield {
                "pipeline": pipeline,
                "number": prefix.number,
                "pass": prefix.name,
                "ok": prefix.error.ok,
                "error": prefix.error.absolute,
            }


def _line(row: Mapping[str, Any]) -> str:
    verdict = "ok" if row["ok"] else "WRONG"
    return f"{row['pipeline']:<6} {row['number']:>2} {row['pass']:<24} {row['error']:.3g} {verdict}"
