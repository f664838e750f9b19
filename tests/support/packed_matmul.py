"""A matmul with packed weights whose sums are exact in any order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from graphc.base.dims import Size
from graphc.base.dtypes import F32, S8, S64
from graphc.base.packed_words import packed_words
from graphc.graph_ir.ir.graph import Array, Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.runtime.executor import CompiledModel
from graphc.tools.fuzz.guarded import guarded, guarded_copy


def packed_matmul(
    m: int,
    n: int,
    k: int,
    bits: int,
    group: int,
    of_bytes: bool,
    one_zero: bool = True,
    *,
    rows: Size | None = None,
    experts: int = 0,
) -> tuple[Graph, list[Array]]:
    """Small integers and scales that are powers of two: every sum is exact, in any order.

    `rows`: their number in the graph, if it is dynamic; `m`: that of the arrays. `experts`: matrices of weights, where
    each row has one of them or none.
    """
    random, graph, groups = np.random.default_rng(m * n * k), Graph("packed"), k // group
    height = m if rows is None else rows
    x = random.integers(-8, 9, (m, k)).astype(np.int8 if of_bytes else np.float32)
    arrays = [x]
    operands = [graph.make_input(LogicalTensor(S8 if of_bytes else F32, (height, k)), "x")]
    lead = (experts, n) if experts else (n,)
    words = packed_words(random.integers(0, 1 << bits, (max(experts, 1) * n, k)), bits)
    scale = 2.0 ** random.integers(-2, 3, (*lead, groups))
    zero = random.integers(0, 1 << bits, (1, 1) if one_zero else (*lead, groups))
    operands += [
        graph.make_constant(words.reshape(*lead, -1), "w"),
        graph.make_constant(scale.astype(np.float32), "scale"),
        graph.make_constant(zero.astype(np.float32), "zero"),
    ]
    parts = []
    if experts:
        parts.append("expert")
        operands.append(graph.make_input(LogicalTensor(S64, (height,)), "expert"))
        arrays.append(_runs(random, m, experts))
    if of_bytes:
        parts.append("x_scale")
        operands.append(graph.make_input(LogicalTensor(F32, (height, groups)), "x_scale"))
        arrays.append((2.0 ** random.integers(-2, 3, (m, groups))).astype(np.float32))
    attrs = {"bits": bits, "group": group, "parts": ",".join(parts)}
    y = graph.make("matmul_nbits", operands, attrs, "y").outputs[0]
    bias = graph.make_constant(np.arange(n, dtype=np.float32), "bias")
    graph.make_output(graph.make("relu", graph.make("add", [y, bias]).outputs).outputs[0])
    return graph, arrays


def check_between_guard_pages(model: CompiledModel, arrays: Sequence[Array], wanted: Array) -> None:
    """Run a model between pages that must not be touched; its result has the bits of `wanted`."""
    held = {x.name: guarded_copy(a) for x, a in zip(model.inputs, arrays, strict=True)}
    out = guarded(wanted.shape, wanted.dtype)
    model.bind(held, [out])()
    np.testing.assert_array_equal(out, wanted)


def _runs(random: np.random.Generator, m: int, experts: int) -> Array:
    """Runs of rows of one expert, in no order; the first and last number are those of no expert."""
    numbers = random.integers(-1, experts + 1, m)
    return np.repeat(numbers, random.integers(1, 7, m))[:m].astype(np.int64)
