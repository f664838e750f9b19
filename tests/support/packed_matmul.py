"""A matmul with packed weights whose sums are exact in any order."""

from __future__ import annotations

import numpy as np

from graphc.base.dims import Size
from graphc.base.dtypes import F32, S8
from graphc.base.packed_words import packed_words
from graphc.graph_ir.ir.graph import Array, Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor


def packed_matmul(
    m: int,
    n: int,
    k: int,
    bits: int,
    group: int,
    of_bytes: bool,
    one_zero: bool = True,
    rows: Size | None = None,
) -> tuple[Graph, list[Array]]:
    """Small integers and scales that are powers of two: every sum is exact, in any order.

    `rows`: their number in the graph, if it is dynamic; `m`: that of the arrays.
    """
    random, graph, groups = np.random.default_rng(m * n * k), Graph("packed"), k // group
    height = m if rows is None else rows
    x = random.integers(-8, 9, (m, k)).astype(np.int8 if of_bytes else np.float32)
    arrays = [x]
    operands = [graph.make_input(LogicalTensor(S8 if of_bytes else F32, (height, k)), "x")]
    numbers = random.integers(0, 1 << bits, (n, k))
    scale = 2.0 ** random.integers(-2, 3, (n, groups))
    zero = random.integers(0, 1 << bits, (1, 1) if one_zero else (n, groups))
    operands += [
        graph.make_constant(packed_words(numbers, bits), "w"),
        graph.make_constant(scale.astype(np.float32), "scale"),
        graph.make_constant(zero.astype(np.float32), "zero"),
    ]
    if of_bytes:
        operands.append(graph.make_input(LogicalTensor(F32, (height, groups)), "x_scale"))
        arrays.append((2.0 ** random.integers(-2, 3, (m, groups))).astype(np.float32))
    y = graph.make(
        "matmul_nbits", operands, {"bits": bits, "group": group, "parts": "x_scale" * of_bytes}, "y"
    ).outputs[0]
    bias = graph.make_constant(np.arange(n, dtype=np.float32), "bias")
    graph.make_output(graph.make("relu", graph.make("add", [y, bias]).outputs).outputs[0])
    return graph, arrays
