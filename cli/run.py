"""`graphc run`: run a saved artifact on given inputs, without compiling."""

from __future__ import annotations

import argparse
import time
from dataclasses import replace

import numpy as np

from ..base.errors import UserError
from .array_folder import ArrayFolder
from .file_kinds import ARTIFACT
from .model_arguments import add_file_argument, add_options
from .run_inputs import call_sizes, input_arrays, split_inputs
from .terminal import answer

HELP = "Run a compiled model (.gcm)"
KEYWORDS = ("load", "execute")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    add_file_argument(
        parser, "artifact", (ARTIFACT,),
        "compiled model written by `graphc compile -o`; it is native code, so run only files you trust",
    )  # fmt: skip
    add_options(parser, "input", "size", "threads", "signature")
    parser.add_argument("--output-dir", metavar="DIR", help="write each output to DIR/NAME.npy")
    add_options(parser, "json")


def run(args: argparse.Namespace) -> int:
    """Load, run once, and write or describe the outputs."""
    from ..runtime.artifact import Artifact
    from ..runtime.executor import CompiledModel
    from ..runtime.threadpool import resolve_threads

    artifact = Artifact.load(args.artifact, key=args.require_signature)
    model = CompiledModel(artifact, resolve_threads(args.threads))
    specs, values = split_inputs(args.input)
    for tensor in model.inputs:
        wanted = specs.pop(tensor.name, tensor.type_text).replace(" ", "")
        if wanted != tensor.type_text:
            is_fixed = all(isinstance(n, int) for n in tensor.shape)
            remedy = (
                "compile again for that shape" if is_fixed else "--size gives its dynamic sizes"
            )
            raise UserError(
                f"input '{tensor.name}' was compiled as {tensor.type_text}, got {wanted}; {remedy}"
            )
    wanted_values = {**dict.fromkeys(specs, "random"), **values}
    arrays = input_arrays(model.inputs, wanted_values, call_sizes(args.size))
    start = time.perf_counter()
    results = model.run(None, arrays)
    seconds = time.perf_counter() - start
    outputs = [replace(t, shape=x.shape) for t, x in zip(model.outputs, results, strict=True)]
    files = []
    if args.output_dir:
        folder = ArrayFolder(args.output_dir)
        files = [folder.write(t.name, x) for t, x in zip(model.outputs, results, strict=True)]
    types = {t.name: {"type": t.type_text} for t in outputs}
    lines = [f"{t!r}  {_describe(array)}" for t, array in zip(outputs, results, strict=True)]
    lines += [*(f"wrote {file}" for file in files), f"ran in {seconds * 1e3:.3g} ms"]
    answer(args, {"seconds": seconds, "outputs": types, "files": files}, lines, 4)
    return 0


def _describe(array: np.ndarray) -> str:
    if not array.size:
        return "empty"
    wide = array.astype(np.float64)
    return f"min {wide.min():.6g}, max {wide.max():.6g}, mean {wide.mean():.6g}"
