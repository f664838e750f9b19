"""Quantized forms of a case, made by ONNX Runtime's quantization tool."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ..base.errors import UserError
from .cases import Array, Case

SAMPLES = 2
"""Inputs that static ranges are measured on; they are of one distribution, so that two are enough."""

FORMS = ("qdq", "7-bit", "operator", "dynamic")


def quantized(case: Case, form: str, per_channel: bool = False) -> Case:
    """The case with u8 activations and s8 weights; its `origin` is the f32 model.

    `form`: "qdq" (static ranges, QuantizeLinear and DequantizeLinear around f32 ops), "7-bit" (the same, weights within
    7 bits, which engines that saturate multiply exactly too), "operator" (static, integer ops) or "dynamic" (ranges
    measured in each run). Raise UserError if the tool is not installed.
    """
    try:
        from onnxruntime.quantization import shape_inference
    except ImportError as error:
        raise UserError(
            f"the suite 'quantized' is made by ONNX Runtime's tool, which is not installed ({error});"
            " pip install 'graphc[bench]'"
        ) from error
    with tempfile.TemporaryDirectory() as folder, _silence():
        source, prepared, target = (Path(folder, f"{name}.onnx") for name in ("f", "p", "q"))
        source.write_bytes(case.onnx())
        shape_inference.quant_pre_process(source, prepared, skip_symbolic_shape=True)
        _quantize(case, form, per_channel, prepared, target)
        return replace(case, model=target.read_bytes(), origin=case.onnx())


def _quantize(case: Case, form: str, per_channel: bool, source: Path, target: Path) -> None:
    from onnxruntime import quantization as tool

    common: dict[str, Any] = {"per_channel": per_channel, "weight_type": tool.QuantType.QInt8}
    if form == "dynamic":
        tool.quantize_dynamic(source, target, **common)
        return
    tool.quantize_static(
        source,
        target,
        _Samples(case),
        nodes_to_exclude=_probabilities(source),
        quant_format=tool.QuantFormat.QOperator if form == "operator" else tool.QuantFormat.QDQ,
        reduce_range=form == "7-bit",
        activation_type=tool.QuantType.QUInt8,
        **common,
    )


def _probabilities(source: Path) -> list[str]:
    """The name of a softmax that makes the result: in steps of 1 / 255, a thousand probabilities would all be 0."""
    import onnx

    graph = onnx.load(source).graph
    results = {output.name for output in graph.output}
    return [x.name for x in graph.node if x.op_type == "Softmax" and results & set(x.output)]


class _Samples:
    """The reader of calibration inputs that the tool asks: the case's own input and others like it."""

    def __init__(self, case: Case) -> None:
        self._left = self._made(case)

    def get_next(self) -> dict[str, Array] | None:
        """The next of them, or None."""
        return next(self._left, None)

    def _made(self, case: Case) -> Iterator[dict[str, Array]]:
        yield case.arrays()
        for seed in range(2, SAMPLES + 1):
            rng = np.random.default_rng(seed)
            yield {
                name: rng.standard_normal(dims, np.float32) for name, dims in case.inputs.items()
            }


@contextmanager
def _silence() -> Iterator[None]:
    """Keep the tool's advice to itself: it goes to the root logger."""
    import logging

    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
