"""A model in a lower precision as f32 ops: another graph, near the f32 model, subgraphs included."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.base.options import CompileOptions
from graphc.frontend import load
from graphc.graph_ir.inspect.lowered_model import lowered_model
from graphc.graph_ir.schedule.context import LowerContext
from graphc.graph_ir.text.printer import print_graph
from graphc.targets.isa import Target
from support.process import ROOT

ERRORS = {"bf16": 0.01, "f16": 0.001, "int8": 0.03, "int4": 0.2}


@pytest.mark.parametrize(("precision", "error"), ERRORS.items())
def test_a_copy_near_the_model(precision: str, error: float, rng: np.random.Generator) -> None:
    source = load(ROOT / "examples" / "mlp.onnx")
    text = print_graph(source)
    options = CompileOptions(precision=precision, disabled=frozenset({"keep-f32"}))
    lowered, ctx = lowered_model(source, LowerContext(Target("generic"), options))
    assert ctx.options.precision == "f32"
    assert print_graph(source) == text != print_graph(lowered)
    x = rng.standard_normal((32, 13)).astype(np.float32)
    exact, found = source.evaluate([x])[0], lowered.evaluate([x])[0]
    distance = np.sqrt(np.mean((found - exact) ** 2) / np.mean(exact**2))
    assert 0 < distance < error
