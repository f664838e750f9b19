"""decompose_transposed: transposed convolutions of an f32 model in a lower precision, and what their error is."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.base.dtypes import F32
from graphc.base.options import CompileOptions
from graphc.codegen.host import target_for
from graphc.driver.compiler import compile as compile_model
from graphc.graph_ir.inspect.compare import relative_rms
from graphc.graph_ir.inspect.lowered_model import lowered_model
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.passes.decompose_transposed import decompose_transposed
from graphc.graph_ir.rewriting.decisions import log_of
from graphc.graph_ir.schedule.context import LowerContext
from graphc.targets.isa import Target
from graphc.tools.precision_error import precision_error

RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((1, 128, 16, 16), np.float32)
W = RANDOM.standard_normal((128, 64, 2, 2), np.float32)


def upsampled() -> Graph:
    """A transposed convolution, without overlap and then with phases of several sizes."""
    graph = Graph("upsampled")
    x = graph.make_input(LogicalTensor(F32, X.shape), "x")
    y = graph.make(
        "convolution_transpose", [x, graph.make_constant(W, "w")], {"strides": (2, 2)}, "up"
    )
    attrs = {"strides": (2, 2), "before": (1, 1), "after": (1, 1), "output_padding": (1, 1)}
    v = graph.make_constant(RANDOM.standard_normal((64, 8, 3, 3), np.float32), "v")
    y = graph.make("convolution_transpose", [*y.outputs, v], attrs, "more")
    graph.make_output(y.outputs[0], "y")
    return graph


@pytest.mark.exhaustive
@pytest.mark.parametrize("target", ["native", "avx2"])
@pytest.mark.parametrize(
    ("precision", "least", "most"),
    [("bf16", 1e-3, 4e-3), ("f16", 1e-4, 5e-4), ("int8", 4e-3, 3e-2)],
)
def test_phases_are_taken_and_their_errors_are_stated(
    precision: str, least: float, most: float, target: str
) -> None:
    options = CompileOptions(precision=precision, disabled=frozenset({"keep-f32"}))
    ctx = LowerContext(target_for(target), options)
    source = upsampled()
    lowered, _ = lowered_model(source, ctx)
    found = precision_error(source, lowered, {"x": X})
    assert len(found.ops) + len(found.kept) == 5 and found.ops
    assert all(least < error < most for error in found.ops.values())
    assert least < found.outputs["y"] < most
    native = compile_model(
        source, precision=precision, target=target, threads=1, disabled={"keep-f32"}
    )(X)
    assert relative_rms([native], lowered.evaluate([X])) < least / 10


def test_where_no_precision_takes_convolutions_it_stays_and_says_why() -> None:
    for precision in ("f32", "int4"):
        ctx = LowerContext(Target("generic"), CompileOptions(precision=precision))
        assert not decompose_transposed(upsampled(), ctx)
    texts = [d.text for d in log_of(lowered_model(upsampled(), ctx)[0]).decisions]
    assert texts == ["stays f32: convolutions have no 4-bit form"] * 2
