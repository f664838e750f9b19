"""share_rounded: tensors that matmuls of a lower precision read rounded are stored in 16 bits."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.base.dtypes import F32, by_name
from graphc.base.options import CompileOptions
from graphc.driver.compiler import compile as compile_model
from graphc.driver.compiler import compile_stages
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.passes.round_operands import round_operands
from graphc.graph_ir.passes.share_rounded import share_rounded
from graphc.graph_ir.schedule.context import LowerContext
from graphc.targets.isa import Target

RANDOM = np.random.default_rng(0)
KEPT = frozenset({"keep-f32"})


def residual(ends: str = "add") -> Graph:
    """relu(x w) + relu(x w) v, or another reader of relu(x w)."""
    graph = Graph("residual")
    x = graph.make_input(LogicalTensor(F32, (32, 64)), "x")
    w, v = (graph.make_constant(RANDOM.integers(-3, 4, (64, 64)).astype(np.float32)) for _ in "wv")
    h = graph.make("relu", [graph.make("matmul_core", [x, w], {}, "one").outputs[0]], {}, "h")
    y = graph.make("matmul_core", [h.outputs[0], v], {}, "two").outputs[0]
    if ends == "add":
        y = graph.make("add", [y, h.outputs[0]], {}, "sum").outputs[0]
    elif ends == "output":
        graph.make_output(h.outputs[0], "h")
    elif ends == "softmax":
        graph.make_output(graph.make("softmax", [h.outputs[0]], {"axis": 1}).outputs[0], "s")
    graph.make_output(y, "y")
    return graph


def shared(graph: Graph, dtype: str) -> bool:
    ctx = LowerContext(Target("avx512"), CompileOptions(precision=dtype, disabled=KEPT))
    assert round_operands(graph, ctx)
    return share_rounded(graph, ctx)


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_a_residual_is_read_rounded(dtype: str) -> None:
    plain = residual()
    graph = plain.copy()
    assert shared(graph, dtype)
    x = RANDOM.integers(-9, 10, (32, 64)).astype(np.float32)
    w, v = (op.attr("value") for op in plain.ops if op.op_name == "constant")
    h = np.maximum(x @ w, 0).astype(by_name(dtype).numpy).astype(np.float32)
    np.testing.assert_array_equal(graph.evaluate([x])[0], h + h @ v)


@pytest.mark.parametrize("ends", ["matmul", "output", "softmax"])
def test_other_readers_read_it_as_it_is(ends: str) -> None:
    """It would be stored in f32 beside."""
    assert not shared(residual(ends), "bf16")


def test_only_16_bits_are_stored() -> None:
    graph = residual()
    for disabled, stored in ((KEPT, "bf16"), (KEPT | {"shared-rounding"}, "f32")):
        options = CompileOptions(precision="bf16", disabled=disabled)
        done = compile_stages(graph, Target("avx512"), options)
        (call,) = (x for x in done.lowered.calls if "-> sum" in x.note)
        function = done.lowered.module.function(call.kernel)
        assert {str(p.dtype) for p in function.params if p.name.startswith("in")} >= {stored}
        assert ("f32" in {str(p.dtype) for p in function.params[:-1]}) == (stored == "f32")


def test_a_maximum_is_taken_of_rounded_numbers() -> None:
    """With the same bits."""
    graph = Graph("pool")
    x = graph.make_input(LogicalTensor(F32, (1, 32, 12, 12)), "x")
    attrs = {"kernel": (3, 3), "strides": (2, 2), "before": (1, 1), "after": (1, 1)}
    y = graph.make("max_pool", [x], attrs, "pool").outputs[0]
    for name in "kl":
        w = graph.make_constant(RANDOM.standard_normal((16, 32, 1, 1)).astype(np.float32), name)
        graph.make_output(graph.make("convolution", [y, w], {}, f"conv{name}").outputs[0], name)
    rounded = graph.copy()
    assert shared(rounded, "bf16")
    (pool,) = (op for op in rounded.ops if op.op_name == "max_pool")
    assert pool.outputs[0].details.dtype == by_name("bf16")
    given = RANDOM.standard_normal((1, 32, 12, 12)).astype(np.float32)
    found = [
        compile_model(graph, precision="bf16", threads=1, disabled=KEPT.union(off))(given)
        for off in ((), ("shared-rounding",))
    ]
    for on, off in zip(*found, strict=True):
        np.testing.assert_array_equal(on, off)
