"""Attention in f64, f16 and bf16: one kernel, with pairs of keys where the target multiplies them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from graphc.base.dtypes import BF16, F16, F32, F64, DType
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.schedule import parse_schedule
from graphc.graph_ir.schedule.context import LowerContext
from graphc.targets.isa import Target
from graphc.tensor_ir.nodes import Brgemm
from graphc.tensor_ir.visitor import walk
from support.compiled import run_native
from support.lowered import build, check_interpreted, context, lower

FLOATS = (F64, F16, BF16)
DOTS = LowerContext(Target("avx512", features="+avx512bf16"), context().options)
CONTEXTS = {"dots": DOTS, "avx512": context("avx512"), "avx2": context("avx2")}
Sizes = tuple[int, int, int, int]


def attention(
    dtype: DType, sizes: Sizes, mask: bool = True, keys: bool = True, scale: float = 0.25
) -> Graph:
    """softmax(q k * scale + mask) v of (heads, rows, columns, depth); `keys`: k is [columns, depth]."""
    h, rows, columns, depth = sizes
    k = (1, h, columns, depth) if keys else (1, h, depth, columns)
    shapes = {
        "q": (1, h, rows, depth),
        "k": k,
        "v": (1, h, columns, depth),
        "m": (1, 1, 1, columns),
    }

    def body(make, x):  # type: ignore[no-untyped-def]
        scores = make("matmul_core", x["q"], x["k"], transpose_b=keys)
        scores = make("add", scores, x["m"]) if mask else scores
        result = make("matmul_core", make("softmax", scores, axis=-1), x["v"])
        return make("transpose", result, perm=(0, 2, 1, 3))

    return build(shapes, body, dtype)


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", CONTEXTS)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("keys", [True, False])
@pytest.mark.parametrize("sizes", [(1, 2, 1, 1), (3, 7, 6, 5), (1, 26, 49, 16), (2, 9, 8, 17)])
def test_one_kernel(kind: str, dtype: DType, keys: bool, sizes: Sizes) -> None:
    lowered = check_interpreted(attention(dtype, sizes, keys=keys), CONTEXTS[kind], exact=False)
    assert len(lowered.calls) == 1
    assert lowered.calls[0].kernel.startswith(f"{dtype}_attention")


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", CONTEXTS)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("columns", [1, 8, 17])
def test_blocks_of_columns(kind: str, dtype: DType, columns: int) -> None:
    graph = attention(dtype, (2, 19, 49, 17), mask=columns == 8)
    name = [op.name for op in graph.ops if op.op_name == "matmul_core"][-1]
    requested = {name: parse_schedule(f"softmax=online columns={columns} rows=7 prefetch=none")}
    lowered = check_interpreted(graph, replace(CONTEXTS[kind], requested=requested), exact=False)
    assert lowered.calls[0].kernel.startswith(f"{dtype}_online_attention")


def test_pairs_are_used_where_the_target_has_them() -> None:
    def groups(dtype: DType, ctx: LowerContext) -> set[int]:
        module = lower(attention(dtype, (1, 9, 20, 8)), ctx).module
        return {node.k_group for node in walk(module) if isinstance(node, Brgemm)}

    assert groups(BF16, DOTS) == {2}
    assert groups(BF16, context("avx512")) == groups(F16, DOTS) == groups(F64, DOTS) == {1}


@pytest.mark.exhaustive
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("sizes", [(2, 33, 65, 24), (1, 5, 3, 7)])
def test_native_code(dtype: DType, sizes: Sizes, rng: np.random.Generator) -> None:
    """Within the rounding of the weights to the type, of the softmax in f64."""
    graph = attention(dtype, sizes)
    shapes = [op.outputs[0].details.plain_dims for op in graph.inputs]
    q, k, v, m = arrays = [rng.standard_normal(s).astype(dtype.numpy) for s in shapes]
    (result,) = run_native(graph, arrays)
    wide = [x.astype(np.float64) for x in (q, k, v, m)]
    scores = wide[0] @ wide[1].swapaxes(-1, -2) + wide[3]
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    weights = powers / powers.sum(-1, keepdims=True)
    exact = (weights @ wide[2]).transpose(0, 2, 1, 3)
    sizes_ = (weights @ np.abs(wide[2])).transpose(0, 2, 1, 3)
    unit = {F64: 2.0**-46, F16: 2.0**-8, BF16: 2.0**-5}[dtype]
    assert np.all(np.abs(result.astype(np.float64) - exact) <= unit * (sizes_ + 1e-3))


def test_rows_that_are_masked_whole_natively() -> None:
    """All scores -inf: no number, as in NumPy; a row of zeros elsewhere does not leak into it."""
    graph = attention(BF16, (1, 4, 6, 8))
    q, k, v = (np.ones((1, 1, n, 8), BF16.numpy) for n in (4, 6, 6))
    m = np.full((1, 1, 1, 6), -np.inf).astype(BF16.numpy)
    m[..., 2] = 0
    (result,) = run_native(graph, [q, k, v, m])
    np.testing.assert_array_equal(result.astype(F32.numpy), np.ones((1, 4, 1, 8)))
