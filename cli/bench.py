"""`graphc bench`: times a model or a suite against other engines in one process."""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..base.errors import UserError
from ..base.file_errors import unwritable
from ..base.whole_file import whole_file
from .model_arguments import (
    TARGETS,
    add_input_argument,
    add_threads_argument,
    call_sizes,
    input_arrays,
    known_sizes,
    shapes_of_files,
    split_inputs,
)
from .progress import progress
from .terminal import say

if TYPE_CHECKING:
    from ..bench.cases import Case
    from ..bench.engines import OnStep, Row, Setting
    from ..bench.open_case import OpenCase
    from ..bench.torch_networks import TorchCase

NAME = "bench"
HELP = "Time a model or a suite against other engines."
SUITES = (
    "gemm", "mlp", "mha", "tiny", "conv", "networks", "transformers", "ops", "quantized", "dynamic",
    "torch",
)  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    parser.add_argument("model", nargs="?", help="model to time; other engines read ONNX only")
    parser.add_argument("--suite", choices=SUITES, help="a suite of workloads instead of a model")
    parser.add_argument(
        "--only", metavar="TEXT", help="cases of the suite whose name contains TEXT"
    )
    parser.add_argument(
        "--vs",
        default="",
        metavar="LIST",
        help="other engines: ort,ort-exact (no bytes saturate),openvino; of the suite torch also inductor,autotune",
    )
    parser.add_argument(
        "--ablate",
        action="store_true",
        help="time graphc alone, with each optimisation off in turn",
    )
    add_input_argument(parser)
    parser.add_argument(
        "--size", action="append", default=[], metavar="NAME=NUMBER",
        help="a row for what open sizes are: B=2,S=37; may be given several times (default: 64)",
    )  # fmt: skip
    parser.add_argument(
        "--target", choices=TARGETS, default="native", help="instruction set for graphc"
    )
    add_threads_argument(parser)
    parser.add_argument("--rounds", type=int, default=7, help="interleaved rounds (default 7)")
    parser.add_argument("--seconds", type=float, default=2.0, help="time per case (default 2)")
    parser.add_argument(
        "--json",
        nargs="?",
        const="-",
        metavar="FILE",
        help="write the table as JSON to FILE or stdout",
    )
    parser.add_argument(
        "--resume", metavar="FILE", type=Path,
        help="time a suite in pieces: finished cases are kept in FILE, and are not timed again",
    )  # fmt: skip
    parser.add_argument(
        "--minutes", type=float, default=math.inf, help="begin no case of a suite after so long"
    )
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress")


def run(args: argparse.Namespace) -> int:
    """Time every case; 1 if an engine disagrees with graphc."""
    from ..bench.engines import Setting
    from ..bench.measure import load_warning, pin_to
    from ..bench.pieces import Pieces
    from ..runtime.threadpool import resolve_threads

    if (args.model is None) == (args.suite is None):
        raise UserError("bench takes a model file or --suite; give one of the two")
    if args.ablate and args.suite == "torch":
        raise UserError("--ablate times models, not the modules of suite torch; give a model")
    if args.rounds < 1 or not 0 < args.seconds < math.inf:
        raise UserError(
            f"bench needs at least 1 round and a time above 0, got {args.rounds} and {args.seconds:g} s"
        )
    threads = resolve_threads(args.threads)
    os.environ["OMP_NUM_THREADS"] = str(threads)
    warning = load_warning(threads)
    if warning:
        print(f"graphc: warning: {warning}", file=sys.stderr)
    pin_to(threads)
    peers = [name for name in args.vs.split(",") if name]
    setting = Setting(peers, args.target, threads, args.rounds, args.seconds)
    if args.ablate:
        return _ablate(args, threads)
    pieces = Pieces(args.resume, args.minutes, threads)
    with progress(args.quiet or args.json == "-") as report:
        for label, make in _makers(args).items():
            if pieces.begins(label):
                pieces.keep(label, _compare(make(), setting, report))
    _write(pieces.rows, args, threads)
    if pieces.left:
        print(f"graphc: not timed for lack of time: {', '.join(pieces.left)}", file=sys.stderr)
    return 0 if all(row.agree for row in pieces.rows) else 1


def _compare(case: Case | OpenCase | TorchCase, setting: Setting, report: OnStep) -> list[Row]:
    from ..bench.cases import Case
    from ..bench.open_case import OpenCase

    if isinstance(case, Case):
        from ..bench.engines import compare

        return [compare(case, setting, report)]
    if isinstance(case, OpenCase):
        from ..bench.dynamic import compare_open

        return compare_open(case, setting, report)
    from ..bench.torch_engines import compare_modules

    return [compare_modules(case, setting, report)]


def _ablate(args: argparse.Namespace, threads: int) -> int:
    from ..bench.ablation import ablate, ablation_json, ablation_table

    with progress(args.quiet or args.json == "-") as report:
        rows = {
            case.name: ablate(case, args.target, threads, args.rounds, args.seconds, report)
            for case in (_of_one_size(make()) for make in _makers(args).values())
        }
    _output(lambda: ablation_json(rows), lambda: ablation_table(rows), args.json)
    return 0


def _of_one_size(case: Case | OpenCase | TorchCase) -> Case:
    from ..bench.cases import Case

    if not isinstance(case, Case):
        raise UserError(
            f"--ablate needs models of fixed sizes, but '{case.name}' leaves some open; fix them"
        )
    return case


def _makers(args: argparse.Namespace) -> Mapping[str, Callable[[], Case | OpenCase | TorchCase]]:
    """What builds each case, so that only one network is in memory."""
    if not args.suite:
        return {"": lambda: _model_case(args)}
    from ..bench.suites import makers

    found = makers(args.suite, args.only or "")
    if not found:
        raise UserError(
            f"suite '{args.suite}' has no case with '{args.only}' in its name; leave --only out"
        )
    return found


def _model_case(args: argparse.Namespace) -> Case | OpenCase:
    """The model; where it leaves sizes open, with a call for each --size."""
    from ..base.dims import symbols_of
    from ..bench.cases import Case
    from ..bench.open_case import Call, OpenCase, sizes_text
    from ..frontend import load
    from ..runtime.metadata import TensorSpec

    specs, values = split_inputs(args.input)
    graph = load(args.model, {**shapes_of_files(values), **specs})
    inputs = [(op.name, op.outputs[0].details) for op in graph.inputs]
    tensors = [TensorSpec(name, details.dtype, details.plain_dims) for name, details in inputs]
    path, texts = Path(args.model), args.size or [""]
    if not symbols_of(size for tensor in tensors for size in tensor.shape):
        shapes = {tensor.name: tensor.shape for tensor in tensors}
        return Case(path.name, path, shapes, input_arrays(tensors, values, call_sizes(args.size)))
    calls = []
    for text in texts:
        sizes = known_sizes(tensors, {}, call_sizes([text] if text else []))
        calls.append(Call(sizes_text(sizes), input_arrays(tensors, values, sizes)))
    return OpenCase(path.name, path, calls, {**shapes_of_files(values), **specs})


def _write(rows: list[Row], args: argparse.Namespace, threads: int) -> None:
    from ..bench.tables import table, to_json

    _output(lambda: to_json(rows, threads), lambda: table(rows, threads), args.json)


def _output(facts: Callable[[], Any], table: Callable[[], Any], file: str | None) -> None:
    """JSON to stdout (`-`), or to a file and the table to the terminal."""
    if file == "-":
        say(json.dumps(facts(), indent=1))
        return
    if file:
        try:
            with whole_file(file) as stream:
                stream.write((json.dumps(facts(), indent=1) + "\n").encode())
        except OSError as error:
            raise unwritable(file, error) from error
    from rich.console import Console

    Console().print(table())
