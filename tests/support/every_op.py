"""An example of every op in the registry, for tests that go through all of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphc.base.dims import Symbol, size
from graphc.base.dtypes import BOOL, F32, S8, S32, S64, U8, DType
from graphc.graph_ir.ir.format import parse_format
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.ir.registry import lookup, names
from graphc.graph_ir.ops.elementwise import Elementwise
from graphc.graph_ir.ops.reduce import Reduce

SHAPE = (2, 4, 6)
CHANNELS: list[tuple[DType, tuple[int, ...]]] = [(F32, (4,))]
X: list[tuple[DType, tuple[int, ...]]] = [(F32, SHAPE)]
POOL = (X, {"kernel": (2,), "strides": (2,), "before": (1,), "after": (0,), "ceil_mode": True})


def part() -> Graph:
    """A subgraph of one input and two results."""
    graph = Graph("part")
    x = graph.make_input(LogicalTensor(F32, SHAPE), "x")
    graph.make_output(graph.make("relu", [x]).outputs[0])
    graph.make_output(x)
    return graph


def relu() -> Graph:
    """A subgraph of one op."""
    graph = Graph("relu")
    x = graph.make_input(LogicalTensor(F32, SHAPE), "x")
    graph.make_output(graph.make("relu", [x]).outputs[0])
    return graph


def same() -> Graph:
    """A subgraph that gives its flag back."""
    graph = Graph("same")
    graph.make_output(graph.make_input(LogicalTensor(BOOL, ()), "x"))
    return graph


# Inputs and attributes of each op that is neither elementwise nor a reduction.
EXAMPLES: dict[str, tuple[list[tuple[DType, tuple[int, ...]]], dict[str, Any]]] = {
    "arg_max": (X, {"axis": 1, "keep_dims": True}),
    "arg_min": (X, {"axis": -1, "last": True}),
    "avg_pool": (X, {"kernel": (2,), "count_include_pad": True}),
    "batch_norm": (X + CHANNELS * 4, {"epsilon": 1e-3}),
    "bitcast": (X, {"dtype": "u32"}),
    "broadcast": (X, {"shape": (3, *SHAPE)}),
    "byte_table": ([(S8, SHAPE), (U8, (256,))], {}),
    "case": ([(S64, ()), *X], {"branches": (part(), part())}),
    "cast": (X, {"dtype": "bf16"}),
    "concat": (X * 3, {"axis": -1}),
    "convolution": ([*X, (F32, (6, 2, 3))], {"groups": 2, "before": (1,), "dilations": (2,)}),
    "convolution_transpose": ([*X, (F32, (4, 3, 2))], {"strides": (2,), "output_padding": (1,)}),
    "copy": (X, {}),
    "count": ([(S64, (1,))], {"size": (size(Symbol("K", 0, 5)),), "most": (5,)}),
    "counted_rows": (X, {"size": (1,)}),
    "room_for": (X, {"shape": tuple(one + 2 for one in SHAPE)}),
    "true_indices": ([(BOOL, (4,))], {}),
    "count_up": ([], {"size": (5,), "start": 3, "step": -2}),
    "dynamic_sizes": ([], {"values": (5, 7)}),
    "dequantize": ([(U8, SHAPE), (F32, (4, 1)), (U8, (4, 1))], {}),
    "quantize": ([*X, (F32, ()), (S8, ())], {"dtype": "s8"}),
    "depthwise_convolution": ([*X, (F32, (4, 1, 3))], {"groups": 4, "before": (1,)}),
    "direct_convolution": ([*X, (F32, (8, 4, 3))], {"before": (1,), "after": (1,)}),
    "fused": (X, {"graph": part()}),
    "kernel_call": (X, {"graph": relu(), "kernel": "quick"}),
    "gather": ([*X, (S64, (5, 1))], {"axis": 1}),
    "group_norm": (X + CHANNELS * 2, {"groups": 2}),
    "instance_norm": (X + CHANNELS * 2, {}),
    "layer_norm": ([*X, (F32, (6,))], {"axis": -1, "epsilon": 1e-6}),
    "log_softmax": (X, {"axis": 0}),
    "lp_pool": (X, {"kernel": (3,), "p": 3}),
    "lrn": (X, {"size": 3, "alpha": 0.5}),
    "matmul_core": ([*X, (F32, (6, 5))], {"transpose_b": False}),
    "matmul_nbits": (
        [(F32, (2, 32)), (U8, (3, 16)), (F32, (3, 2)), (F32, (3, 2))],
        {"bits": 4, "group": 16},
    ),
    "max_pool": POOL,
    "max_pool_indices": POOL,
    "min_pool": POOL,
    "pad": (X, {"before": (0, 1, 0), "after": (0, -2, 3), "mode": "constant", "value": -np.inf}),
    "im2col": (X, {"kernel": (3,)}),
    "prod_pool": POOL,
    "reduce_log_sum_exp": (X, {"axes": None}),
    "reorder": (X, {"format": parse_format("ABD4b", "ABD")}),
    "repeat": (X, {"counts": (1, 2, 3)}),
    "reshape": (X, {"shape": (48,)}),
    "resize": (X, {"shape": (2, 4, 9), "mode": "cubic", "scales": (1.0, 1.0, 1.6)}),
    "rms_norm": (X, {}),
    "scaled_sum": ([*X, *X], {"a": 0.5, "b": 1.25}),
    "round_saturate": (X, {"dtype": "s8", "zero": 3, "low": -128, "high": 127}),
    "slice": (X, {"starts": (1, 3, 0), "steps": (1, -1, 2), "sizes": (1, 4, 3)}),
    "softmax": (X, {}),
    "sort_rows": (X, {"k": 2, "largest": False}),
    "suppress_boxes": (
        [(F32, (2, 5, 4)), (F32, (2, 3, 5)), (S64, ()), (F32, ()), (F32, ())],
        {"room": (4,)},
    ),
    "align_regions": (
        [(F32, (2, 7, 5, 3)), (F32, (4, 4)), (S64, (4,))],
        {"cells": (2, 3), "scale": 0.5, "half_pixel": True},
    ),
    "sum_pool": POOL,
    **dict.fromkeys(("cum_log_sum_exp", "cum_max", "cum_min"), (X, {"axis": 1})),
    "cum_prod": (X, {"axis": 1, "reverse": True}),
    "cum_sum": (X, {"axis": -1, "exclusive": True}),
    "gather_elements": ([*X, (S64, (2, 3, 6))], {"axis": 1}),
    "cached_attention": (
        [(F32, (1, 2, 4, 8)), (F32, (1, 2, 5, 8)), (F32, (1, 2, 5, 6)), (S64, (1,))],
        {"scale": 0.25, "cap": 5.0, "window": 2},
    ),
    "grouped_matmul": ([(F32, (5, 6)), (F32, (3, 2, 6, 4)), (S64, (5,))], {}),
    "scatter": ([(S64, (4, 2)), *X, (F32, (4, 6))], {"run": 3, "reduction": "max"}),
    "scatter_elements": ([*X, (S64, (2, 3, 6)), (F32, (2, 3, 6))], {"axis": 1, "reduction": "add"}),
    "top_k": (X, {"k": 2, "axis": 1, "largest": False}),
    "transpose": (X, {"perm": (2, 0, 1)}),
    "cholesky": ([(F32, (2, 5, 5))], {}),
    "lu": ([(F32, (2, 5, 4))], {}),
    "householder": ([(F32, (2, 5, 4))], {}),
    "householder_product": ([(F32, (2, 5, 4)), (F32, (2, 3))], {}),
    "svd": ([(F32, (2, 3, 5))], {}),
    "eigh": ([(F32, (2, 4, 4))], {}),
    "triangular_solve": ([(F32, (2, 5, 5)), (F32, (2, 5, 3))], {"lower": True}),
    "tree_ensemble": (
        [(F32, (5, 3)), (S32, (40,)), (F32, (40,)), (F32, (40,)), (S32, (32,))],
        {"depths": (3, 1), "targets": (0, 1), "feature_bits": 2, "count": 2, "reduction": "add"},
    ),
    "masked_trees": (
        [
            *[(F32, (5, 3)), (S32, (40,)), (F32, (40,)), (F32, (40,)), (S32, (32,))],
            *[(S32, (7,)), (F32, (7,)), (S32, (7,)), (S32, (4,)), (F32, (3, 32))],
        ],
        {
            "depths": (3, 1),
            "targets": (0, 1),
            "feature_bits": 2,
            "count": 2,
            "reduction": "add",
            "pieces": (1, 2),
        },
    ),
    "update_in_place": ([*X, (F32, (2, 2, 6)), (S64, ())], {"axes": (1,)}),
    "update_slice": ([*X, (F32, (2, 2, 6)), (S64, ())], {"axes": (1,)}),
    "while": ([(BOOL, ())], {"condition": same(), "body": same()}),
    "winograd_convolution": (
        [(F32, (1, 2, 5, 6)), (F32, (16, 2, 3))],
        {"results": 2, "before": (1, 1), "after": (0, 1)},
    ),
    "winograd_weights": ([(F32, (3, 2, 3, 3))], {"results": 4}),
}

OURS = [
    n for n in names() if not n.startswith("test_") and n not in ("input", "constant", "output")
]
"""Every op but the sources and sinks of a graph."""


def make(graph: Graph, name: str) -> None:
    """The op of that name between inputs and outputs of the graph."""
    cls = lookup(name)
    inputs: list[tuple[DType, tuple[int, ...]]]
    if issubclass(cls, Elementwise):
        row = cls.row
        dtype = next(d for d in (F32, S32, BOOL) if d.kind in row.accepts)
        inputs = [(BOOL if i < row.conditions else dtype, SHAPE) for i in range(len(row.inputs))]
        attrs: dict[str, Any] = {k: 0.2 for k, v in row.attrs.items() if v.is_required}
    elif issubclass(cls, Reduce):
        dtype = F32 if "float" in cls.row.accepts else BOOL
        inputs = [(dtype, SHAPE)]
        attrs = {"axes": (0, -1), "keep_dims": True}
    else:
        assert name in EXAMPLES, f"give an example of {name} in EXAMPLES of support/every_op.py"
        inputs, attrs = EXAMPLES[name]
    tensors = [
        graph.make_input(LogicalTensor(d, shape), f"in{i}") for i, (d, shape) in enumerate(inputs)
    ]
    op = graph.make(name, tensors, attrs, "op")
    for tensor in op.outputs:
        graph.make_output(tensor)
