"""pack_weights: which constants stay packed, how, and what is done to the rows they meet."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphc.base.dtypes import F32
from graphc.base.options import CompileOptions
from graphc.driver.compiler import compile_stages
from graphc.graph_ir.ir.graph import Array, Graph, Op
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.ir.verifier import verify
from graphc.graph_ir.passes.pack_weights import pack_weights
from graphc.graph_ir.rewriting.decisions import log_of
from graphc.runtime.executor import CompiledModel
from support.compiled import run_native
from support.graphs import run_pass
from support.lowered import context

RANDOM = np.random.default_rng(0)


def weights_of(
    numbers: Array,
    scale: Array,
    zero: Array | None = None,
    rows: tuple[int, ...] = (2,),
    **attrs: Any,
) -> Graph:
    """X times dequantized [n, k] (in blocks if `numbers` has rank 3), transposed."""
    graph = Graph("packed")
    given = [numbers, scale.astype(np.float32), *([] if zero is None else [zero])]
    w = graph.make("dequantize", [graph.make_constant(x) for x in given], name="w").outputs[0]
    n = numbers.shape[0]
    if numbers.ndim == 3:
        w = graph.make("reshape", [w], {"shape": (n, numbers.size // n)}).outputs[0]
    x = graph.make_input(LogicalTensor(F32, (*rows, numbers.size // n)), "x")
    y = graph.make("matmul_core", [x, w], {"transpose_b": True} | attrs, "fc").outputs[0]
    graph.make_output(y)
    return graph


def packed(graph: Graph, tolerance: float = 1e-5) -> Op | None:
    """The matmul with packed weights that the pass makes, if any; results stay near."""
    x = RANDOM.standard_normal(graph.inputs[0].outputs[0].details.plain_dims).astype(np.float32)
    (wanted,) = graph.evaluate([x])
    pack_weights(graph, context())
    verify(graph)
    largest = np.abs(wanted).max()
    np.testing.assert_allclose(graph.evaluate([x])[0], wanted, rtol=0, atol=tolerance * largest)
    np.testing.assert_allclose(run_native(graph, [x])[0], wanted, rtol=0, atol=tolerance * largest)
    return next((op for op in graph.ops if op.op_name == "matmul_nbits"), None)


@pytest.mark.parametrize(
    "zero", [None, np.uint8(8), RANDOM.integers(0, 16, (24, 2, 1)).astype(np.uint8)]
)
def test_blocks_of_four_bits(zero: Any) -> None:
    numbers = RANDOM.integers(0, 16, (24, 2, 32)).astype(np.uint8)
    zero = None if zero is None else np.asarray(zero)
    op = packed(weights_of(numbers, RANDOM.random((24, 2, 1)), zero))
    assert op is not None and (op.attr("bits"), op.attr("group")) == (4, 32)
    assert op.inputs[1].details.plain_dims == (24, 32)


def test_signed_numbers_per_column_and_ragged_k() -> None:
    numbers = RANDOM.integers(-7, 8, (20, 45)).astype(np.int8)
    op = packed(weights_of(numbers, RANDOM.random((20, 1)), rows=(2, 3)))
    assert op is not None and (op.attr("bits"), op.attr("group")) == (4, 48)
    numbers = RANDOM.integers(-128, 128, (20, 64)).astype(np.int8)
    op = packed(
        weights_of(numbers, np.repeat(RANDOM.random((20, 4)), 16, 1), np.array([3], np.int8))
    )
    assert op is not None and (op.attr("bits"), op.attr("group")) == (8, 16)


@pytest.mark.parametrize("zero", [-5, 0, 7, 100])
def test_rounded_rows_whatever_levels_lie_around_the_zero_point(zero: int) -> None:
    numbers = RANDOM.integers(3, 12, (24, 64)).astype(np.int8)
    graph = weights_of(numbers, np.float32([[0.5]]), np.int8(zero), activation_bits=8)
    op = packed(graph, 0.02)
    assert op is not None and op.attr("zero") == (zero - 3 if zero > 3 else -1)


def test_rows_are_rounded_only_where_the_model_allows_it() -> None:
    numbers = RANDOM.integers(0, 16, (24, 2, 32)).astype(np.uint8)
    graph = weights_of(numbers, RANDOM.random((24, 2, 1)), np.array(8, np.uint8), activation_bits=8)
    op = packed(graph, 0.01)
    assert op is not None and str(op.inputs[0].details.dtype) == "s8" and len(op.inputs) == 5
    graph = weights_of(numbers, RANDOM.random((24, 2, 1)), np.array(8, np.uint8))
    op = packed(graph)
    assert op is not None and len(op.inputs) == 4


@pytest.mark.parametrize(
    "wrong", ["few columns", "scale of each number", "infinite scale", "computed"]
)
def test_other_weights_are_unchanged(wrong: str) -> None:
    rows = 8 if wrong == "few columns" else 24
    numbers = RANDOM.integers(0, 16, (rows, 64)).astype(np.uint8)
    scale = RANDOM.random((rows, 64 if wrong == "scale of each number" else 1)).astype(np.float32)
    if wrong == "infinite scale":
        scale[0, 0] = np.inf
    graph = weights_of(numbers, scale)
    if wrong == "computed":
        moved = graph.make_input(LogicalTensor(F32, scale.shape), "scale")
        next(op for op in graph.ops if op.name == "w").set_input(1, moved)
        graph.sort()
    assert not run_pass(pack_weights, graph)


def test_explained_and_off() -> None:
    numbers = RANDOM.integers(0, 16, (24, 2, 32)).astype(np.uint8)
    graph = weights_of(numbers, RANDOM.random((24, 2, 1)))
    done = compile_stages(graph)
    assert "weights stay packed in 4 bits, 32 per scale" in "\n".join(
        map(str, log_of(done.graph).decisions)
    )
    assert any("_u4g32_gemm" in call.kernel for call in done.lowered.calls)
    off = compile_stages(graph, options=CompileOptions(disabled=frozenset({"packed-weights"})))
    assert not any("_u4g32_gemm" in call.kernel for call in off.lowered.calls)
    x = RANDOM.standard_normal((2, 64)).astype(np.float32)
    packed_result, plain = (CompiledModel(made.artifact, 1)(x) for made in (done, off))
    np.testing.assert_allclose(packed_result, plain, rtol=0, atol=1e-5 * np.abs(plain).max())
