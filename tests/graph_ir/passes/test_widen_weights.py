"""Constant bytes in 16 bits: where they are stored so, and that it changes no bit."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.base.dtypes import S8, S16, S32, U8, DType
from graphc.base.options import CompileOptions
from graphc.driver.compiler import compile_stages
from graphc.graph_ir.ir.graph import Array, Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.passes.widen_weights import widen_weights
from graphc.graph_ir.schedule.context import LowerContext
from graphc.runtime.executor import CompiledModel
from graphc.targets.isa import Target

PAIRS = Target("avx2")
VNNI = Target("avx512", features="+avx512f,+avx512bw,+avx512vl,+avx512vnni")


def random_bytes(dtype: DType, shape: tuple[int, ...], seed: int = 0) -> Array:
    limits = np.iinfo(dtype.numpy)
    return np.random.default_rng(seed).integers(limits.min, limits.max + 1, shape, dtype.numpy)


def matmul(m: int = 32, is_known: bool = True, a: DType = U8, b: DType = S8) -> Graph:
    """[m, 37] by [37, 21]."""
    graph = Graph("matmul")
    x = graph.make_input(LogicalTensor(a, (m, 37)), "x")
    if is_known:
        w = graph.make_constant(random_bytes(b, (37, 21), 1), "w")
    else:
        w = graph.make_input(LogicalTensor(b, (37, 21)), "w")
    graph.make_output(graph.make("matmul_core", [x, w], {"dtype": S32}, "fc").outputs[0], "y")
    return graph


def convolution(pixels: int = 6, groups: int = 1) -> Graph:
    """A direct 3 x 3 convolution of 12 channels, whose weights are reshaped where there are groups."""
    graph = Graph("convolution")
    x = graph.make_input(LogicalTensor(U8, (1, 12, pixels, pixels)), "x")
    w = graph.make_constant(random_bytes(S8, (20, 12 // groups, 3, 3), 1), "w")
    if groups > 1:
        shape = (groups, 20 // groups, 12 // groups, 3, 3)
        w = graph.make("reshape", [w], {"shape": shape}).outputs[0]
    attrs = {"before": (1, 1), "after": (1, 1), "groups": groups, "dtype": S32}
    graph.make_output(graph.make("direct_convolution", [x, w], attrs, "conv").outputs[0], "y")
    return graph


@pytest.mark.parametrize(
    ("graph", "target", "wide"),
    [
        (matmul(), PAIRS, True),
        (matmul(a=S8), Target("avx512"), True),
        (convolution(), PAIRS, True),
        (convolution(groups=2), Target("generic"), True),
        (matmul(), VNNI, False),
        (matmul(31), PAIRS, False),
        (matmul(is_known=False), PAIRS, False),
        (matmul(b=U8), PAIRS, False),
        (convolution(5), PAIRS, False),
    ],
    ids=["matmul", "signed", "window", "groups", "vnni", "rows", "input", "unsigned", "pixels"],
)
def test_where(graph: Graph, target: Target, wide: bool) -> None:
    assert widen_weights(graph, LowerContext(target)) is wide
    op = graph.outputs[0].inputs[0].producer_owner
    assert (op.inputs[1].details.dtype == S16) is wide
    assert not widen_weights(graph, LowerContext(target))


@pytest.mark.parametrize("target", ["avx2", "native"])
def test_weights_given_in_16_bits(target: str) -> None:
    """Any of them: not only bytes that were widened."""
    for graph in (matmul(a=S8, b=S16), matmul(3, is_known=False, b=S16)):
        arrays = [
            random_bytes(x.details.dtype, x.details.plain_dims, seed)
            for seed, x in enumerate(op.outputs[0] for op in graph.inputs)
        ]
        (expected,) = graph.evaluate(arrays)
        made = compile_stages(graph, target, CompileOptions())
        assert made.lowered.calls[0].note.partition("tensorize ")[2].split()[1] == "dot2"
        np.testing.assert_array_equal(CompiledModel(made.artifact)(*arrays), expected)


@pytest.mark.exhaustive
@pytest.mark.parametrize("graph", [matmul(33), convolution(7, 2)], ids=["matmul", "window"])
@pytest.mark.parametrize("target", ["avx2", "native"])
def test_the_switch_changes_no_bit(graph: Graph, target: str) -> None:
    details = graph.inputs[0].outputs[0].details
    x, found = random_bytes(U8, details.plain_dims), []
    for disabled in (frozenset[str](), frozenset({"wide-weights"})):
        made = compile_stages(graph, target, CompileOptions(disabled=disabled))
        found.append(np.asarray(CompiledModel(made.artifact)(x)))
    np.testing.assert_array_equal(*found)
    np.testing.assert_array_equal(found[0], graph.evaluate([x])[0])
