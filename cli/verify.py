"""`graphc verify`: every op of a model in every layout and blocking it offers, native code against NumPy."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .model_arguments import (
    add_compile_arguments,
    check_names,
    compile_options,
    read_model,
)
from .progress import Report, progress

if TYPE_CHECKING:
    from ..graph_ir.context import LowerContext
    from .variants import Variant

NAME = "verify"
HELP = "Check every op of a model in every layout and blocking against NumPy."
BATCH = 64  # variants compiled at once


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    add_compile_arguments(parser)
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object instead of a table"
    )
    parser.add_argument(
        "-q", "--quiet", action="store_true", help="print mismatches and the count only"
    )


def run(args: argparse.Namespace) -> int:
    """Print a row per (op, layout, blocking); 1 if any result is wrong."""
    from ..codegen.host import target_for
    from ..graph_ir.context import LowerContext
    from .variants import model_variants

    ctx = LowerContext(target_for(args.target), compile_options(args))
    graph, values = read_model(args)
    check_names([op.name for op in graph.inputs], values)
    variants = model_variants(graph, ctx)
    with progress(args.quiet or args.json) as report:
        rows = check(variants, ctx, report)
    wrong = sum(not row["ok"] for row in rows)
    if args.json:
        print(json.dumps({"rows": rows, "mismatches": wrong}))
    else:
        _print_table([row for row in rows if not (args.quiet and row["ok"])])
        print(f"{len(rows)} variants, {wrong} mismatches, {ctx.target.isa}")
    return 1 if wrong else 0


def check(variants: Sequence[Variant], ctx: LowerContext, report: Report) -> list[dict[str, Any]]:
    """Compile and run the variants in batches; a row of plain values for each."""
    rows: list[dict[str, Any]] = []
    report("verify", 0, len(variants))
    for start in range(0, len(variants), BATCH):
        batch = variants[start : start + BATCH]
        for variant, result in zip(batch, _results(batch, ctx), strict=True):
            found = variant.check(result)
            rows.append(
                {
                    "op": variant.op, "layout": variant.layout, "blocking": variant.blocking,
                    "max_error": found.absolute, "ok": found.ok,
                }
            )  # fmt: skip
        report("verify", len(rows), len(variants))
    return rows


def _results(variants: Sequence[Variant], ctx: LowerContext) -> list[np.ndarray[Any, Any]]:
    from ..codegen.aot import compile_to_object
    from ..codegen.module import emit_module
    from ..runtime.artifact import Artifact
    from ..runtime.executor import CompiledModel
    from ..runtime.metadata import Metadata, TensorSpec
    from ..tensor_ir import pipeline
    from .variants import program

    arrays = [a for variant in variants for a in variant.inputs]
    module = pipeline.run(program(variants), ctx.target)
    inputs = tuple(
        TensorSpec(f"x{i}", p.dtype, a.shape)
        for i, (p, a) in enumerate(zip(_params(variants), arrays, strict=True))
    )
    outputs = tuple(
        TensorSpec(f"y{i}", v.output.dtype, v.output.blocking_dims) for i, v in enumerate(variants)
    )
    metadata = Metadata("verify", inputs, outputs, 0, ctx.target.isa)
    code = compile_to_object(emit_module(module, ctx.target), ctx.target)
    with CompiledModel(Artifact(metadata, np.empty(0, np.uint8), code)) as model:
        return model.run(None, {spec.name: a for spec, a in zip(inputs, arrays, strict=True)})


def _params(variants: Sequence[Variant]) -> list[Any]:
    return [p for variant in variants for p in variant.function.params[:-1]]


def _print_table(rows: Sequence[dict[str, Any]]) -> None:
    if not rows:
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    for heading in ("op", "layout", "blocking"):
        table.add_column(heading, overflow="fold")
    table.add_column("max error", justify="right")
    table.add_column("")
    for row in rows:
        verdict = "ok" if row["ok"] else "MISMATCH"
        table.add_row(row["op"], row["layout"], row["blocking"], f"{row['max_error']:.2g}", verdict)
    Console().print(table)
