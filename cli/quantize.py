"""`graphc convert --calibrate`: an ONNX model with matmuls and convolutions in 8 bits, calibrated on sample inputs."""

from __future__ import annotations

import argparse
import math
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..base.errors import UserError
from ..base.file_errors import unreadable
from ..base.pipes import without_waiting
from ..base.source_files import note_source
from .progress import progress
from .run_inputs import split_inputs
from .terminal import answer

if TYPE_CHECKING:
    import numpy as np


def add_calibration_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of quantization."""
    group = parser.add_argument_group("quantization")
    group.add_argument(
        "--calibrate", metavar="FILE",
        help="write an 8-bit ONNX model, calibrated on a .npz file with one array per input, samples stacked along its "
        "first axis",
    )  # fmt: skip
    group.add_argument(
        "--method", choices=("min-max", "percentile", "mse"), default="min-max",
        help="how to choose the range of an activation: all values, a percentile, or the least mean squared error",
    )  # fmt: skip
    group.add_argument(
        "--percentile", type=float, default=99.99,
        help="percentage of the values inside the range, for --method percentile (default: 99.99)",
    )  # fmt: skip


def quantize(args: argparse.Namespace) -> int:
    """Calibrate, write the model, and say how far its results are from those of the f32 model."""
    from ..tools.quantize import quantize_model

    if not 0 < args.percentile <= 100:
        raise UserError(f"--percentile must be above 0 and at most 100, got {args.percentile}")
    if not args.output or Path(args.output).suffix != ".onnx" or args.to not in (None, "onnx"):
        raise UserError("--calibrate writes an ONNX model; name one with -o, such as m.int8.onnx")
    output = Path(args.output)
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
    count = "1 op" if len(done.nodes) == 1 else f"{len(done.nodes)} ops"
    lines = [f"wrote     {output}: {count} in 8 bits"]
    for name, error in done.errors.items():
        share = f"{error:.2%}" if math.isfinite(error) else "more than any share of it"
        rule = "root mean square, on the calibration inputs"
        lines.append(f"          {name} differs by {share} ({rule})")
    answer(args, facts, lines)
    return 0


def _read_npz(path: str) -> dict[str, np.ndarray[Any, Any]]:
    import numpy as np

    note_source(path)
    try:
        with (
            open(path, "rb", opener=without_waiting) as stream,
            np.load(stream, allow_pickle=False) as file,
        ):
            if not isinstance(file, np.lib.npyio.NpzFile):
                raise ValueError
            return {name: file[name] for name in file.files}
    except OSError as error:
        raise unreadable(path, error, "--calibrate") from error
    except (ValueError, EOFError, zipfile.BadZipFile, AttributeError) as error:
        raise UserError(
            f"--calibrate: '{path}' is not a .npz file of arrays of numbers; write one with numpy.savez"
        ) from error
