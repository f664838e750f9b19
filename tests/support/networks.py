"""Small whole networks as graphs of ops that every format has: a perceptron, an attention block, a chain."""

from __future__ import annotations

import numpy as np

from graphc.base.dtypes import F32
from graphc.graph_ir.ir.graph import Array, Graph, GraphTensor
from graphc.graph_ir.ir.logical_tensor import LogicalTensor


def _weight(graph: Graph, rng: np.random.Generator, name: str, *dims: int) -> GraphTensor:
    return graph.make_constant(rng.standard_normal(dims).astype(np.float32) / dims[-1], name)


def perceptron() -> Graph:
    """Two fully connected layers, weights [out, in], a sigmoid on the result."""
    rng, graph = np.random.default_rng(0), Graph("perceptron")
    y = graph.make_input(LogicalTensor(F32, (4, 13)), "x")
    for layer, (fan_in, fan_out) in enumerate(((13, 32), (32, 16))):
        weight = _weight(graph, rng, f"w{layer}", fan_out, fan_in)
        y = graph.make("matmul_core", [y, weight], {"transpose_b": True}, f"fc{layer}").outputs[0]
        y = graph.make("add", [y, _weight(graph, rng, f"b{layer}", fan_out)]).outputs[0]
        y = graph.make("sigmoid" if layer else "relu", [y], name=f"act{layer}").outputs[0]
    graph.make_output(y, "y")
    graph.sort()
    return graph


def attention() -> Graph:
    """Two heads of 8 over 6 tokens, softmax over scaled scores, a projection, what came in added."""
    rng, graph = np.random.default_rng(1), Graph("attention")
    x = graph.make_input(LogicalTensor(F32, (6, 16)), "x")
    heads = []
    for name in ("q", "k", "v"):
        rows = graph.make("matmul_core", [x, _weight(graph, rng, f"w{name}", 16, 16)], {}, name)
        split = graph.make("reshape", rows.outputs, {"shape": (6, 2, 8)}).outputs
        heads.append(
            graph.make("transpose", split, {"perm": (1, 0, 2)}, f"{name}.heads").outputs[0]
        )
    transposed = graph.make("transpose", [heads[1]], {"perm": (0, 2, 1)}).outputs[0]
    scores = graph.make("matmul_core", [heads[0], transposed], {}, "scores").outputs[0]
    scale = graph.make_constant(np.float32(0.375), "scale")
    scaled = graph.make("mul", [scores, scale], {}, "scaled").outputs[0]
    shares = graph.make("softmax", [scaled], {"axis": 2}, "shares").outputs[0]
    mixed = graph.make("matmul_core", [shares, heads[2]], {}, "mixed").outputs
    joined = graph.make("transpose", mixed, {"perm": (1, 0, 2)}, "joined").outputs
    flat = graph.make("reshape", joined, {"shape": (6, 16)}, "flat").outputs[0]
    y = graph.make("matmul_core", [flat, _weight(graph, rng, "wo", 16, 16)], {}, "out").outputs[0]
    graph.make_output(graph.make("add", [y, x], {}, "residual").outputs[0], "y")
    graph.sort()
    return graph


def chain() -> Graph:
    """Elementwise ops of two inputs, a reduction, a comparison that picks."""
    graph = Graph("chain")
    a = graph.make_input(LogicalTensor(F32, (5, 7)), "a")
    b = graph.make_input(LogicalTensor(F32, (5, 1)), "b")
    bent = graph.make("tanh", [graph.make("mul", [a, b]).outputs[0]]).outputs[0]
    total = graph.make("reduce_sum", [bent], {"axes": (1,), "keep_dims": True}).outputs[0]
    larger = graph.make("gt", [a, total]).outputs[0]
    picked = graph.make("select", [larger, graph.make("exp", [bent]).outputs[0], a]).outputs[0]
    for tensor, name in ((picked, "picked"), (total, "total")):
        graph.make_output(tensor, name)
    return graph


NETWORKS = {"perceptron": perceptron, "attention": attention, "chain": chain}


def arrays_of(graph: Graph) -> list[Array]:
    """Standard normal f32 inputs."""
    rng = np.random.default_rng(2)
    dims = [op.outputs[0].details.plain_dims for op in graph.inputs]
    return [rng.standard_normal(d).astype(np.float32) for d in dims]
