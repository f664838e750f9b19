"""`graphc dev debug`: runs a model node by node, times each, and dumps every value in TVM's formats."""

from __future__ import annotations

import argparse
from typing import Any

from ..file_kinds import ARTIFACT, MODEL
from ..model_arguments import add_compile_arguments, add_options, compile_options, model_texts
from ..progress import progress
from ..run_inputs import call_sizes, input_arrays
from ..terminal import answer

HELP = "Run a model node by node, time every node and dump every value"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    add_compile_arguments(parser, takes=(MODEL, ARTIFACT), schedules=False)
    add_options(parser, "size")
    parser.add_argument(
        "--dump-root", metavar="DIR",
        help="folder for the graph, all values and a trace, in TVM's formats (default: a new temporary folder)",
    )  # fmt: skip
    add_options(parser, "nodes")
    parser.add_argument(
        "--warmup", type=int, default=1, help="warm-up runs of each node, not timed"
    )
    parser.add_argument(
        "--repeats", type=int, default=5, help="timed runs of each node (the median is reported)"
    )
    add_options(parser, "json", "quiet")


def run(args: argparse.Namespace) -> int:
    """Print a row per node; write the dump if requested."""
    import tempfile
    from pathlib import Path

    from ...frontend import load
    from ...tools.debug_dump import FOLDER
    from ...tools.debugger import DUMP_PREFIX, open_debugger

    texts, options = model_texts(args), compile_options(args)
    with progress(args.quiet or args.json) as report:
        report("compile", 0, 1)
        executor = open_debugger(
            args.model, args.target, options,
            lambda: load(args.model, texts.inputs, texts.constants, texts.attrs),
        )  # fmt: skip
        root = executor.dump_root = Path(args.dump_root or tempfile.mkdtemp(prefix=DUMP_PREFIX))
        report("compile", 1, 1)
        for name, array in input_arrays(
            executor.inputs, texts.values, call_sizes(args.size)
        ).items():
            executor.set_input(name, array)
        executor.run(
            nodes=args.nodes, warmup=args.warmup, repeats=args.repeats,
            on_node=lambda done, total: report("nodes", done, total),
        )  # fmt: skip
    rows = [_fields(row) for row in executor.rows]
    text = [executor.table(), f"wrote {root / FOLDER}"]
    answer(args, {"nodes": rows, "dump": str(root / FOLDER)}, text)
    return 0


def _fields(row: Any) -> dict[str, Any]:
    return {
        "name": row.name, "ops": row.kernel, "seconds": row.time.seconds, "shape": list(row.shape),
        "samples": list(row.time.samples), "inputs": row.inputs, "outputs": row.outputs,
    }  # fmt: skip
