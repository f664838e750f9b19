"""Cases of the suite `quantized` whose activations are floats: operands rounded to bf16, weights packed in 4 bits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ..base.options import CompileOptions
from ..codegen.host import target_for
from ..frontend import load
from ..graph_ir.inspect.compare import relative_rms
from ..graph_ir.inspect.lowered_model import lowered_model
from ..graph_ir.schedule.context import LowerContext
from .cases import MIN_NOISE, Case
from .networks.net import Net

BLOCK = 32
"""Weights that share a scale."""

ROUNDED_NOISE = 0.01
"""Error tolerance for activations rounded to 8 bits in blocks: those of normal numbers have 0.6 %."""

MAX_OF_REFERENCE = 2.0
"""Maximum ratio of a bf16 result's distance from f32 to that of the reference."""


def in_bf16(label: str, made: Callable[[], Net]) -> Case:
    """Build an f32 network whose matmul operands are bf16; a result may be as far from f32 as f32
    accumulation allows."""
    case = replace(made().case(), name=label)
    source = load(case.model)
    arrays = case.arrays()
    inputs = [arrays[op.name] for op in source.inputs]
    options = CompileOptions(precision="bf16", disabled=frozenset({"keep-f32"}))
    ctx = LowerContext(target_for("native"), options)
    rounded = lowered_model(source, ctx)[0].evaluate(inputs)
    noise = MAX_OF_REFERENCE * relative_rms(rounded, source.evaluate(inputs))
    return replace(case, origin=case.onnx(), precision="bf16", noise=max(noise, MIN_NOISE))


def in_four_bits(label: str, m: int, n: int, k: int, rounds: bool) -> Case:
    """A MatMulNBits, whose activations may be rounded to 8 bits if `rounds`, else are f32; and its f32 model."""
    rng = np.random.default_rng(0)
    numbers = rng.integers(0, 16, (n, k // BLOCK, BLOCK), dtype=np.uint8)
    scales = (rng.random((n, k // BLOCK, 1), np.float32) + 0.5) / np.float32(4 * k**0.5)
    packed, origin = (Net.of_rows(label, m, k) for _ in range(2))
    real = ((numbers.astype(np.float32) - 8) * scales).reshape(n, k).T
    origin.result = origin.matmul("x", origin.constant(np.ascontiguousarray(real)), n)
    weights = [numbers[..., ::2] | numbers[..., 1::2] << 4, scales.reshape(n, -1)]
    packed.result = packed.node(
        "MatMulNBits", ["x", *map(packed.constant, weights)], (m, n), domain="com.microsoft",
        K=k, N=n, bits=4, block_size=BLOCK, accuracy_level=4 if rounds else 1,
    )  # fmt: skip
    noise = ROUNDED_NOISE if rounds else MIN_NOISE
    return replace(packed.case(), origin=origin.case().onnx(), noise=noise)
