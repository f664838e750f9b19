"""`graphc convert`: a model file in another format."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ..base.errors import UserError
from .model_arguments import add_model_argument, add_options, add_reading_arguments, model_texts
from .progress import progress
from .quantize import add_calibration_arguments, quantize
from .terminal import answer

if TYPE_CHECKING:
    from ..tools.convert import Conversion

HELP = "Write a model in another format, in 8 bits, or as a picture"
KEYWORDS = ("export", "import", "dot", "quantize", "calibrate", "int8")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    add_model_argument(parser)
    add_reading_arguments(parser)
    parser.add_argument(
        "--to", metavar="FORMAT",
        help="name or suffix of an output format, such as onnx or dot (default: from the suffix of -o)",
    )  # fmt: skip
    parser.add_argument(
        "-o", "--output", metavar="FILE",
        help="the file to write (default: the model's name in the current folder)",
    )  # fmt: skip
    add_calibration_arguments(parser)
    add_options(parser, "json", "quiet")


def run(args: argparse.Namespace) -> int:
    """Read the model, write it, and print what was written."""
    from ..frontend.formats import output_format
    from ..tools.convert import convert

    if args.calibrate:
        return quantize(args)
    if not args.to and not args.output:
        raise UserError("give the format with --to, or the file to write with -o")
    target = output_format(args.to or Path(args.output).name)
    output = Path(args.output or Path(args.model).stem + target.suffix)
    texts = model_texts(args)
    with progress(args.quiet or args.json) as report:
        done = convert(
            args.model, target.name, output, texts.inputs, texts.constants, texts.attrs, report
        )
    answer(args, _facts(done), _lines(args.model, done))
    return 0


def _facts(done: Conversion) -> dict[str, object]:
    facts: dict[str, object] = {
        "from": done.source,
        "to": done.target,
        "files": [str(file) for file in done.files],
        "arguments": list(done.arguments),
    }
    if done.graph is not None:
        facts["inputs"] = {op.name: str(op.outputs[0].details) for op in done.graph.inputs}
        facts["outputs"] = [str(op.inputs[0].details) for op in done.graph.outputs]
        facts["ops"] = sum(op.kind not in ("source", "sink") for op in done.graph.ops)
    return facts


def _lines(model: str, done: Conversion) -> Iterator[str]:
    facts = _facts(done)
    ops = f", {facts['ops']} ops" if done.graph is not None else ""
    yield f"{'read':<9} {model} ({done.source}{ops})"
    yield f"{'wrote':<9} {', '.join(map(str, done.files))}"
    if done.arguments:
        yield f"{'read it':<9} {shlex.join([str(done.files[0]), *done.arguments])}"
