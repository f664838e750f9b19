"""Graphs of attention to a cache, of dynamic numbers of tokens, and their operands."""

from __future__ import annotations

import numpy as np

from graphc.base.dims import Symbol, size
from graphc.base.dtypes import F32, S8, S64, DType
from graphc.graph_ir.ir.graph import Array, Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor


def model(
    batch: int, heads: tuple[int, int], sizes: tuple[int, int], dtype: DType, **attrs: float
) -> Graph:
    """One op of dynamic numbers of tokens and rows."""
    graph, tokens, room = Graph("a"), size(Symbol("T", 1, 512)), size(Symbol("R", 1, 4096))
    shapes = [
        (F32, (batch, tokens, heads[0], sizes[0]), "q"),
        *((dtype, (batch, heads[1], room, n), name) for n, name in zip(sizes, "kv", strict=True)),
        (S64, (batch,), "n"),
    ]
    if dtype == S8:
        shapes += [
            (F32, (batch, heads[1], room, n // 8), f"{name}s")
            for n, name in zip(sizes, "kv", strict=True)
        ]
    inputs = [graph.make_input(LogicalTensor(one, dims), name) for one, dims, name in shapes]
    graph.make_output(graph.make("cached_attention", inputs, attrs).outputs[0], "y")
    return graph


def arrays_of(graph: Graph, tokens: int, total: int) -> list[Array]:
    """Random operands, with room behind the last key; later sequences are shorter."""
    rng, found = np.random.default_rng(tokens), list[Array]()
    for op in graph.inputs:
        details = op.outputs[0].details
        names = {"T": tokens, "R": total + 7}
        dims = [n if isinstance(n, int) else names[str(n)] for n in details.plain_dims]
        if details.dtype == S64:
            found.append(np.maximum(total - 13 * np.arange(dims[0]), tokens))
        elif details.dtype == S8:
            found.append(rng.integers(-127, 128, dims).astype(np.int8))
        else:
            x = rng.standard_normal(dims)
            found.append((abs(x) / 100 if len(op.name) > 1 else x).astype(details.dtype.numpy))
    return found
