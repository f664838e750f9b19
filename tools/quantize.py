"""Static quantization of ONNX models: calibration, Q and DQ nodes, and what that costs."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from ..base.errors import UserError
from ..base.records import dataclass
from ..base.whole_file import write_file
from ..driver.compiler import compile as compile_model
from ..frontend import format_of, load
from ..frontend.onnx.reader import read_proto
from ..graph_ir.ir.graph import Array
from .calibration import OnStep, batches_of, calibrate, computed_values, scale_of
from .insert_quantization import insert_quantization, quantizable


@dataclass(frozen=True)
class Quantized:
    """A written model: the results of the nodes that are quantized, and the relative root mean square error of each
    output on the calibration inputs; infinite where only one of the models has values that are 0 or not finite."""

    nodes: Sequence[str]
    errors: Mapping[str, float]


def quantize_model(
    model: str | os.PathLike[str],
    output: str | os.PathLike[str],
    arrays: Mapping[str, Array],
    inputs: Mapping[str, str] | None = None,
    method: str = "min-max",
    percentile: float = 99.99,
    step: OnStep | None = None,
) -> Quantized:
    """Write an ONNX model with int8 convolutions and matmuls: u8 activations, s8 weights with one scale per output.

    Args:
        model: The f32 model, an ONNX file.
        output: The file to write.
        arrays: Calibration samples per input, along the first axis.
        inputs: Shapes of dynamic inputs.
        method: How the range of an activation is chosen: `min-max`, `percentile` or `mse`.
        percentile: The share of values within the range, for `percentile`.
        step: Called with the progress.

    Raises:
        UserError: The model is not ONNX or has nothing to quantize, or the samples do not fit.
    """
    if format_of(Path(model)) != "onnx":
        raise UserError(
            f"quantize: the model must be ONNX, got '{model}'; graphc convert writes it"
        )
    source = load(model, dict(inputs or {}))
    proto = read_proto(model)
    known = computed_values(source)
    sites = [site for site in quantizable(proto) if site.activation in known]
    if not sites:
        raise UserError(
            f"quantize: '{model}' has no matmul or convolution with constant f32 weights; "
            "give one in f32 that has some"
        )
    batches = batches_of(source, arrays)
    values = list(dict.fromkeys(site.activation for site in sites))
    ranges = calibrate(source, values, batches, method, percentile, step)
    made = insert_quantization(proto, sites, {name: scale_of(x) for name, x in ranges.items()})
    write_file(output, made.SerializeToString(), "quantize")
    errors = _errors(model, output, batches, dict(inputs or {}), step)
    return Quantized([site.node for site in sites], errors)


def _errors(
    model: str | os.PathLike[str],
    output: str | os.PathLike[str],
    batches: Sequence[Mapping[str, Array]],
    inputs: dict[str, str],
    step: OnStep | None,
) -> dict[str, float]:
    """The error of each output over all batches, relative to the f32 results."""
    report = step or (lambda phase, done, total: None)
    exact, rounded = (compile_model(path, inputs=inputs) for path in (model, output))
    sums: dict[str, list[float]] = {}
    for done, batch in enumerate(batches):
        report("check", done, len(batches))
        results = zip(exact.outputs, exact.run(None, batch), rounded.run(None, batch), strict=True)
        for spec, wanted, found in results:
            total = sums.setdefault(spec.name, [0.0, 0.0])
            wide, other = wanted.astype(np.float64), found.astype(np.float64)
            same = (wide == other) | (np.isnan(wide) & np.isnan(other))
            with np.errstate(invalid="ignore", over="ignore"):
                total[0] += float(np.sum(np.square(np.where(same, 0.0, other - wide))))
            total[1] += float(
                np.sum(np.square(wide, where=np.isfinite(wide), out=np.zeros(wide.shape)))
            )
    report("check", len(batches), len(batches))
    return {name: _share(*total) for name, total in sums.items()}


def _share(errors: float, values: float) -> float:
    """The square root of a share; infinite where it has no measure."""
    if not errors:
        return 0.0
    return math.sqrt(errors / values) if values and math.isfinite(errors) else math.inf
