"""`graphc compile`: a model file to native code; run it, save it, or look at any stage."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..base.errors import UserError
from ..base.whole_file import write_file
from .model_arguments import (
    ModelTexts,
    add_compile_arguments,
    add_options,
    compile_request,
    model_texts,
    pairs,
)
from .progress import progress
from .run_inputs import call_sizes, check_names, input_arrays
from .summary import Verdict, summary_lines, timing_rows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..driver.compiler import Outcome
    from ..driver.request import CompileRequest
    from ..graph_ir.ir.graph import Graph
    from ..runtime.artifact import Artifact
from .terminal import answer, say

HELP = "Compile a model to native code; run it, save it, or print a stage"
KEYWORDS = ("build",)
_LINKED = {
    ".dll": ("Windows", "--target ISA@windows -o m.obj"),
    ".lib": ("Windows", "--target ISA@windows -o m.obj"),
    ".exe": ("Windows", "--target ISA@windows -o m.obj"),
    ".dylib": ("macOS", "--target ISA@macos -o m.o"),
}
"""Endings of libraries that are not written here: the system whose linker makes them, and options for its input."""
STAGES = ("graph", "tensor-ir", "llvm", "asm", "obj")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    add_compile_arguments(parser)
    add_options(parser, "json")
    volume = parser.add_mutually_exclusive_group()
    volume.add_argument("-v", "--verbose", action="store_true", help="also print every kernel")
    volume.add_argument("-q", "--quiet", action="store_true", help="print only the verdict")
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="write the compiled model: .gcm, or a native library with its header (.so, .a, .o, .obj, or a "
        "folder: m/); or the stage given "
        "by --emit",
    )
    parser.add_argument(
        "--run", action="store_true", help="run once and check against the NumPy reference"
    )
    parser.add_argument(
        "--alias", action="append", default=[], metavar="OUTPUT=INPUT",
        help="write an output into the memory of an input, so that a key-value cache grows in place "
        "(auto: every output for which that is possible)",
    )  # fmt: skip
    parser.add_argument(
        "--targets", metavar="ISA,ISA", type=lambda text: text.split(","), default=[],
        help="instruction sets of a native library, of which the loader chooses one by the CPU",
    )  # fmt: skip
    parser.add_argument(
        "--prefix", metavar="NAME", default="",
        help="beginning of the names of a native library's functions (default: the name of the model)",
    )  # fmt: skip
    parser.add_argument(
        "--sign", metavar="KEY",
        help="sign the compiled model (.gcm) with this Ed25519 private key (PEM or OpenSSH)",
    )  # fmt: skip
    parser.add_argument(
        "--weights", metavar="DIR",
        help="write large constants of the compiled model (.gcm) to files in DIR, which models and processes share",
    )  # fmt: skip
    parser.add_argument("--emit", choices=STAGES, help="print a stage (to FILE with -o)")
    parser.add_argument(
        "--jobs",
        type=int,
        metavar="N",
        help="number of processes to compile with (default: GRAPHC_JOBS, or one per CPU)",
    )
    parser.add_argument("--no-cache", action="store_true", help="do not use the compile cache")
    add_options(parser, "size")
    parser.add_argument(
        "--dump-dir", metavar="DIR", help="write the text of every stage that changed to DIR"
    )


def run(args: argparse.Namespace) -> int:
    """Compile; then emit, save and run as requested. Return 1 if the result differs from the reference."""
    texts = model_texts(args)
    _check_targets(args)
    if args.emit:
        return _emit(args, texts)
    outcome, *others = [_compile(args, texts, target) for target in args.targets or [args.target]]
    meta = outcome.artifact.metadata
    check_names([spec.name for spec in meta.inputs], texts.values)
    files = _save(args, [one.artifact for one in (outcome, *others)]) if args.output else []
    verdict = _run(outcome, texts.values, call_sizes(args.size)) if args.run else None
    facts = {
        "from_cache": outcome.from_cache,
        "not_cached": outcome.not_cached,
        "seconds": outcome.phases.seconds,
        "verdict": verdict.to_json() if verdict else None,
    }
    lines = [] if args.quiet else summary_lines(meta, args.verbose, timing_rows(outcome))
    if files and not args.quiet:
        lines.append(f"{'wrote':<9} {', '.join(files)}")
    if args.json or lines:
        answer(args, {**meta.to_json(), **facts}, lines)
    if verdict and not args.json:
        say(verdict)
    return 0 if verdict is None or verdict.ok else 1


def _check_targets(args: argparse.Namespace) -> None:
    """Raise UserError for options of native libraries where the result is none, and for those of artifacts."""
    from ..shipping.export import is_library
    from ..targets.systems import SYSTEMS
    from ..targets.target_names import NATIVE, split_target_name

    if args.output == "":
        raise UserError(
            "-o: the name of a file must have a letter or more, got ''; leave -o out to write none"
        )
    is_native = bool(args.output) and not args.emit and is_library(args.output)
    ending = Path(args.output or "").suffix
    if ending in _LINKED and not args.emit:
        name, example = _LINKED[ending]
        raise UserError(
            f"-o {args.output}: {ending} files must be made by a linker of {name}, of an object; "
            f"write one with {example}"
        )
    system = split_target_name(args.target).system
    if system and not is_native and args.emit in (None, "obj"):
        ending = SYSTEMS[system].suffix
        raise UserError(
            f"code for {system} is a native library; name one with -o, such as m{ending}"
        )
    if args.targets and args.target != NATIVE:
        raise UserError(
            f"--target {args.target}: must be left out beside --targets; list all instruction sets there"
        )
    for option, value in (("--targets", args.targets), ("--prefix", args.prefix)):
        if value and not is_native:
            raise UserError(f"{option} is for native libraries; name one with -o, such as m.so")
    for option, value in (("--sign", args.sign), ("--weights", args.weights)):
        if value and (is_native or args.emit or not args.output):
            raise UserError(f"{option} is for compiled models; name one with -o, such as m.gcm")


def _save(args: argparse.Namespace, artifacts: Sequence[Artifact]) -> list[str]:
    """Write the compiled model; return the names of its files."""
    from ..driver.export import name_of
    from ..shipping.export import export_library, is_library

    if not is_library(args.output):
        artifacts[0].save(args.output, sign=args.sign, store=args.weights or "")
        return [args.output]
    name = name_of(args.model, artifacts)
    return [str(path) for path in export_library(artifacts, args.output, name, args.prefix)]


def _compile(args: argparse.Namespace, texts: ModelTexts, target: str) -> Outcome:
    """The artifact for a target, from the cache if it is there."""
    from ..driver.compile_cache import default_cache
    from ..driver.compiler import compile_request as compile_as_requested
    from ..driver.request import resolve_jobs

    cache = None if args.no_cache else default_cache()
    request = compile_request(
        argparse.Namespace(**{**vars(args), "target": target}), texts, args.dump_dir
    )
    named = args.alias != ["auto"]
    alias = dict(pairs("--alias", args.alias, "OUTPUT=INPUT")) if named else "auto"
    request = replace(request, jobs=resolve_jobs(args.jobs), cache=cache, alias=alias)
    with progress(args.quiet or args.json) as report:
        return compile_as_requested(request, report)


def _emit(args: argparse.Namespace, texts: ModelTexts) -> int:
    from ..codegen.aot import assembly
    from ..driver.compiler import compile_stages
    from ..graph_ir.text.printer import print_graph
    from ..tensor_ir.printer import print_module

    stage, output = args.emit, args.output
    compilation = compile_stages(compile_request(args, texts, args.dump_dir))
    check_names([spec.name for spec in compilation.artifact.metadata.inputs], texts.values)
    if stage == "obj":
        if output is None and sys.stdout.isatty():
            raise UserError("--emit obj writes bytes; give a file with -o")
        data = compilation.artifact.object_code
    else:
        text = {
            "graph": lambda: print_graph(compilation.graph),
            "tensor-ir": lambda: print_module(compilation.module),
            "llvm": lambda: compilation.llvm_ir,
            "asm": lambda: assembly(compilation.llvm_ir, compilation.target),
        }[stage]()
        data = text.encode()
    if output is None:
        sys.stdout.buffer.write(data)
        return 0
    write_file(output, data)
    return 0


def _run(outcome: Outcome, values: dict[str, str], sizes: dict[str, int]) -> Verdict:
    """Run on the given or generated inputs, compare with the graph's NumPy reference, and time it."""
    from ..bench.measure import interleave
    from ..bench.peak import measured_peak
    from ..codegen.host import cpu_name
    from ..runtime.executor import CompiledModel
    from ..tools.sized_model import sized_model

    meta = outcome.artifact.metadata
    model = CompiledModel(outcome.artifact, outcome.request.options.threads)
    arrays = input_arrays(meta.inputs, values, sizes)
    results: list[Any] = model.run(None, arrays)
    source = sized_model(outcome.request.source, arrays)
    ok, finding = _judged(outcome.request, source, arrays, results)
    call = model.bind(arrays, model.allocate(arrays))
    timing = interleave({"graphc": call}, rounds=3, seconds=0.2)["graphc"]
    return Verdict(
        versions=meta.versions,
        cpu=cpu_name(),
        isa=meta.isa,
        threads=model.threads,
        model=meta.model,
        model_hash=meta.model_hash,
        seconds=timing.median,
        gflop=sum(op.get_gflop() for op in source.ops) if meta.sizes else meta.stats["gflop"],
        peak=measured_peak(outcome.request.target),
        outcome=finding,
        ok=ok,
    )


def _judged(
    request: CompileRequest, source: Graph, arrays: Mapping[str, Any], results: Sequence[Any]
) -> tuple[bool, str]:
    """Return whether results are right, and the largest error as text.

    Results beyond the tolerance may be right: a value on the boundary between two integers may be rounded to either, so
    that what follows differs by a whole step. Then they are held to the error bound of the graph, and each kernel to
    that of the ops it fuses on the inputs it received, where roundings of earlier kernels make no difference.
    """
    from ..graph_ir.inspect.compare import difference
    from ..tools.compare import compare_with_references
    from ..tools.error_bound import CAREFUL, DISTURBED, expected_outputs, worst_error

    given = [arrays[op.name] for op in source.inputs]
    expected = source.evaluate(given)
    differences = [difference(y, r) for y, r in zip(results, expected, strict=True)]
    worst = max(differences, key=lambda d: (not d.ok, d.relative))
    text = f"{worst} against NumPy"
    if all(d.ok for d in differences):
        return True, text
    for walks in (DISTURBED, CAREFUL):
        error = worst_error(expected_outputs(source, given, walks)[: len(results)], results)
        if error.ok:
            break
    else:
        return False, f"{text}, {error}"
    finding = compare_with_references(request.source, request.context, arrays).finding
    if finding:
        return False, f"{text}, {finding.op}: {finding.error}"
    return True, f"{text}, within the bound of rounding errors"
