"""`graphc debug`: runs a model node by node, times each, and dumps every value in TVM's formats."""

from __future__ import annotations

import argparse
import json
from typing import Any

from .model_arguments import (
    add_compile_arguments,
    compile_options,
    input_arrays,
    read_model,
)
from .progress import progress
from .terminal import say

NAME = "debug"
HELP = "Run a model node by node, time every node and dump every value (TVM's formats)."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    add_compile_arguments(parser)
    parser.add_argument(
        "--dump-root", metavar="DIR", help="write the graph, all values and a trace into DIR"
    )
    parser.add_argument("--nodes", metavar="GLOB", default="*", help="only nodes of these names")
    parser.add_argument(
        "--warmup", type=int, default=1, help="warm-up runs of each node, not timed"
    )
    parser.add_argument(
        "--repeats", type=int, default=5, help="timed runs of each node (the median is reported)"
    )
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object instead of a table"
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress")


def run(args: argparse.Namespace) -> int:
    """Print a row per node; write the dump if requested."""
    from pathlib import Path

    from ..codegen.host import target_for
    from ..graph_ir.schedule.context import LowerContext
    from ..tools.debug_dump import FOLDER
    from ..tools.debugger import DebugExecutor

    ctx = LowerContext(target_for(args.target), compile_options(args))
    root = Path(args.dump_root) if args.dump_root else None
    with progress(args.quiet or args.json) as report:
        report("compile", 0, 1)
        source, values = read_model(args)
        executor = DebugExecutor(source, ctx, root)
        report("compile", 1, 1)
        for name, array in input_arrays(executor.inputs, values).items():
            executor.set_input(name, array)
        executor.run(
            nodes=args.nodes, warmup=args.warmup, repeats=args.repeats,
            on_node=lambda done, total: report("nodes", done, total),
        )  # fmt: skip
    if args.json:
        folder = str(root / FOLDER) if root else None
        say(json.dumps({"nodes": [_fields(row) for row in executor.rows], "dump": folder}))
        return 0
    say(executor.table())
    if root:
        say(f"wrote {root / FOLDER}")
    return 0


def _fields(row: Any) -> dict[str, Any]:
    return {
        "name": row.name, "ops": row.kernel, "seconds": row.time.seconds, "shape": list(row.shape),
        "samples": list(row.time.samples), "inputs": row.inputs, "outputs": row.outputs,
    }  # fmt: skip
