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
from ..base.whole_file import write_file
from .bench_decode import is_language_model, run_decode
from .bench_kernels import run_kernels
from .file_kinds import FOLDER, MODEL
from .model_arguments import add_model_argument, add_options
from .progress import progress
from .run_inputs import (
    call_sizes,
    input_arrays,
    known_sizes,
    shapes_of_files,
    split_inputs,
)
from .terminal import say, show, warn_of_load

if TYPE_CHECKING:
    from ..bench.cases import Case
    from ..bench.dynamic_case import DynamicCase
    from ..bench.engines import OnStep, Row, Setting
    from ..bench.torch_networks import TorchCase

HELP = "Time a model or a suite against other engines"
KEYWORDS = ("benchmark",)
KERNELS = "kernels"
DECODE = "decode"
SUITES = (
    "gemm", "mlp", "mha", "tiny", "conv", "networks", "transformers", "ops", "quantized", "dynamic",
    "torch", KERNELS, DECODE,
)  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    add_model_argument(parser, takes=(MODEL, FOLDER), nargs="?")
    parser.add_argument("--suite", choices=SUITES, help="a suite of workloads instead of a model")
    parser.add_argument(
        "--only", metavar="TEXT", help="cases of the suite whose name contains TEXT"
    )
    parser.add_argument(
        "--against", "--vs", default="", metavar="LIST",
        help="other engines, which read ONNX only: ort, ort-exact (without int8 saturation), openvino; for the suite "
        "torch also inductor, autotune; for a language model and the suite decode llama.cpp and onnxruntime-genai",
    )  # fmt: skip
    parser.add_argument(
        "--ablate", action="store_true",
        help="time graphc alone, with each optimization turned off in turn",
    )  # fmt: skip
    add_options(parser, "input")
    parser.add_argument(
        "--size", action="append", default=[], metavar="NAME=NUMBER",
        help="sizes of dynamic dimensions in one row of the table: B=2,S=37 (repeatable; default: small sizes)",
    )  # fmt: skip
    add_options(parser, "target", "threads")
    parser.add_argument("--rounds", type=int, default=7, help="interleaved rounds (default: 7)")
    parser.add_argument("--seconds", type=float, default=2.0, help="time per case (default: 2)")
    add_options(parser, "json")
    parser.add_argument("-o", "--output", metavar="FILE", help="also write the JSON object to FILE")
    parser.add_argument(
        "--resume", metavar="FILE",
        help="keep finished cases of a suite in FILE, and do not time them again",
    )  # fmt: skip
    parser.add_argument(
        "--minutes", type=float, default=math.inf, help="start no case of a suite after this time"
    )
    add_options(parser, "quiet")


def run(args: argparse.Namespace) -> int:
    """Time every case; 1 if an engine disagrees with graphc."""
    from ..bench.engines import Setting
    from ..bench.measure import pin_to
    from ..bench.peers import import_peers
    from ..bench.pieces import Pieces
    from ..runtime.threadpool import resolve_threads

    if (args.model is None) == (args.suite is None):
        raise UserError("bench takes a model file or --suite; give one of the two")
    if args.ablate and args.suite in ("torch", KERNELS, DECODE):
        raise UserError(f"--ablate times models, not those of the suite {args.suite}; give a model")
    if args.rounds < 1 or not 0 < args.seconds < math.inf:
        raise UserError(
            f"bench needs at least 1 round and a time above 0, got {args.rounds} and {args.seconds:g} s"
        )
    threads = resolve_threads(args.threads)
    os.environ["OMP_NUM_THREADS"] = str(threads)
    warn_of_load(threads)
    if args.suite == DECODE or is_language_model(args.model):
        # Not pinned: llama.cpp has a thread that waits for another.
        return run_decode(args, threads, lambda facts, rows: _output(facts, rows, args))
    peers = [name for name in args.against.split(",") if name]
    import_peers([*peers, "eager"] if args.suite == "torch" else peers)
    pin_to(threads)
    if args.ablate or args.suite == KERNELS:
        return _ablate(args, threads) if args.ablate else _kernels(args, threads)
    setting = Setting(peers, args.target, threads, args.rounds, args.seconds)
    pieces = Pieces(Path(args.resume) if args.resume else None, args.minutes, threads)
    with progress(args.quiet or args.json) as report:
        for label, make in _makers(args).items():
            if pieces.begins(label):
                pieces.keep(label, _compare(make(), setting, report))
    _write(pieces.rows, args, threads)
    if pieces.left:
        print(f"graphc: not timed within --minutes: {', '.join(pieces.left)}", file=sys.stderr)
    return 0 if all(row.agree for row in pieces.rows) else 1


def _compare(case: Case | DynamicCase | TorchCase, setting: Setting, report: OnStep) -> list[Row]:
    from ..bench.cases import Case
    from ..bench.dynamic_case import DynamicCase

    if isinstance(case, Case):
        from ..bench.engines import compare

        return [compare(case, setting, report)]
    if isinstance(case, DynamicCase):
        from ..bench.dynamic import compare_dynamic

        return compare_dynamic(case, setting, report)
    from ..bench.torch_engines import compare_modules

    return [compare_modules(case, setting, report)]


def _kernels(args: argparse.Namespace, threads: int) -> int:
    return run_kernels(args, threads, lambda facts, rows: _output(facts, rows, args))


def _ablate(args: argparse.Namespace, threads: int) -> int:
    from ..bench.ablation import ablate, ablation_json, ablation_table

    with progress(args.quiet or args.json) as report:
        rows = {
            case.name: ablate(case, args.target, threads, args.rounds, args.seconds, report)
            for case in (_of_one_size(make()) for make in _makers(args).values())
        }
    _output(lambda: ablation_json(rows), lambda: ablation_table(rows), args)
    return 0


def _of_one_size(case: Case | DynamicCase | TorchCase) -> Case:
    from ..bench.cases import Case

    if not isinstance(case, Case):
        raise UserError(
            f"--ablate needs a model of static shapes, but '{case.name}' has dynamic dimensions; fix them with --input"
        )
    return case


def _makers(args: argparse.Namespace) -> Mapping[str, Callable[[], Case | DynamicCase | TorchCase]]:
    """Return a function that builds each case, so that only one network is in memory."""
    if not args.suite:
        return {"": lambda: _model_case(args)}
    from ..bench.suites import makers

    return makers(args.suite, args.only or "")


def _model_case(args: argparse.Namespace) -> Case | DynamicCase:
    """Return the model; if it has dynamic dimensions, with a call for each --size."""
    from ..base.dims import symbols_of
    from ..bench.cases import Case
    from ..bench.dynamic_case import Call, DynamicCase, sizes_text
    from ..driver.artifact import input_specs
    from ..frontend import load

    specs, values = split_inputs(args.input)
    graph = load(args.model, {**shapes_of_files(values), **specs})
    tensors = input_specs(graph)
    path, texts = Path(args.model), args.size or [""]
    if not symbols_of(size for tensor in tensors for size in tensor.shape):
        shapes = {tensor.name: tensor.shape for tensor in tensors}
        return Case(path.name, path, shapes, input_arrays(tensors, values, call_sizes(args.size)))
    calls = []
    for text in texts:
        sizes = known_sizes(tensors, {}, call_sizes([text] if text else []))
        calls.append(Call(sizes_text(sizes), input_arrays(tensors, values, sizes)))
    return DynamicCase(path.name, path, calls, {**shapes_of_files(values), **specs})


def _write(rows: list[Row], args: argparse.Namespace, threads: int) -> None:
    from ..bench.tables import table, to_json

    _output(lambda: to_json(rows, threads), lambda: table(rows, threads), args)


def _output(facts: Callable[[], Any], table: Callable[[], Any], args: argparse.Namespace) -> None:
    """Print the table or JSON, and write JSON to the file of --output."""
    text = json.dumps(facts(), indent=1) if args.json or args.output else ""
    if args.output:
        write_file(args.output, f"{text}\n")
    if args.json:
        say(text)
        return
    show(table())
