"""`graphc quantize`: an ONNX model with matmuls and convolutions in 8 bits, calibrated on sample inputs."""

from __future__ import annotations

import argparse
import json
import math
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..base.errors import UserError
from ..base.file_errors import unreadable
from .model_arguments import (
    add_input_argument,
    add_json_argument,
    add_model_argument,
    add_quiet_argument,
)
from .progress import progress
from .run_inputs import split_inputs
from .terminal import say

if TYPE_CHECKING:
    import numpy as np

HELP = "Write an 8-bit ONNX model, calibrated on sample inputs"
KEYWORDS = ("calibrate", "int8")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    add_model_argument(parser)
    add_input_argument(parser)
    parser.add_argument(
        "--calibrate", metavar="FILE", required=True,
        help="a .npz file with one array per input, samples stacked along its first axis",
    )  # fmt: skip
    parser.add_argument(
        "--method", choices=("min-max", "percentile", "mse"), default="min-max",
        help="how to choose the range of an activation: all values, a percentile, or the least mean squared error",
    )  # fmt: skip
    parser.add_argument(
        "--percentile",
        type=float,
        default=99.99,
        help="percentage of the values inside the range, for --method percentile (default: 99.99)",
    )
    parser.add_argument("-o", "--output", metavar="FILE", required=True, help="the file to write")
    add_json_argument(parser)
    add_quiet_argument(parser)


def run(args: argparse.Namespace) -> int:
    """Calibrate, write the model, and say how far its results are from those of the f32 model."""
    from ..tools.quantize import quantize_model

    if not 0 < args.percentile <= 100:
        raise UserError(f"--percentile must be above 0 and at most 100, got {args.percentile}")
    output = Path(args.output)
    if output.exists() and output.samefile(args.model):
        raise UserError(f"'{output}' is the model itself; give another file with -o")
    specs, _ = split_inputs(args.input)
    arrays = _read_npz(args.calibrate)
    with progress(args.quiet or args.json) as report:
        done = quantize_model(
            args.model, output, arrays, specs, args.method, args.percentile, report
        )
    facts: dict[str, Any] = {
        "file": str(output),
        "quantized": list(done.nodes),
        "errors": {name: x if math.isfinite(x) else None for name, x in done.errors.items()},
    }
    if args.json:
        say(json.dumps(facts))
        return 0
    count = "1 op" if len(done.nodes) == 1 else f"{len(done.nodes)} ops"
    say(f"wrote     {output}: {count} in 8 bits")
    for name, error in done.errors.items():
        share = f"{error:.2%}" if math.isfinite(error) else "more than any share of it"
        say(f"          {name} differs by {share} (root mean square, on the calibration inputs)")
    return 0


def _read_npz(path: str) -> dict[str, np.ndarray[Any, Any]]:
    import numpy as np

    try:
        with np.load(path, allow_pickle=False) as file:
            if not isinstance(file, np.lib.npyio.NpzFile):
                raise ValueError
            return {name: file[name] for name in file.files}
    except OSError as error:
        raise unreadable(path, error, "--calibrate") from error
    except (ValueError, EOFError, zipfile.BadZipFile, AttributeError) as error:
        raise UserError(
            f"--calibrate: '{path}' is not a .npz file of arrays of numbers; write one with numpy.savez"
        ) from error
