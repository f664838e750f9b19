"""Networks of images whose number, height and width may be open."""

from __future__ import annotations

import numpy as np

import graphc
from graphc import Graph
from graphc.base.dims import Size, Symbol, size
from graphc.base.dtypes import F32, DType
from graphc.graph_ir.inspect.compare import difference
from graphc.graph_ir.ir.graph import GraphTensor
from graphc.graph_ir.ir.logical_tensor import LogicalTensor

N, H, W = size(Symbol("N", 1, 8)), size(Symbol("H")), size(Symbol("W"))
SIZES = ((1, 1, 1), (2, 7, 8), (1, 15, 18), (3, 17, 33), (1, 40, 4))


class Layers:
    """A graph made layer by layer, of images [n, channels, h, w]."""

    def __init__(self, channels: int, n: Size, h: Size, w: Size, dtype: DType = F32) -> None:
        self.graph = Graph("images")
        self.x = self.graph.make_input(LogicalTensor(dtype, (n, channels, h, w)), "x")

    def add(self, op_name: str, *others: GraphTensor, **attrs: object) -> GraphTensor:
        self.x = self.graph.make(op_name, [self.x, *others], attrs).outputs[0]
        return self.x

    def convolve(
        self, outputs: int, kernel: int, groups: int = 1, pad: int | None = None, **attrs: object
    ) -> GraphTensor:
        channels = self.x.details.plain_dims[1]
        shape = (outputs, channels // groups, kernel, kernel)
        value = np.random.default_rng(shape).standard_normal(shape) / np.sqrt(np.prod(shape[1:]))
        weights = self.graph.make_constant(value.astype(np.float32), "w")
        pads = (kernel // 2 if pad is None else pad,) * 2
        return self.add("convolution", weights, groups=groups, before=pads, after=pads, **attrs)


def image(*shape: int) -> np.ndarray:
    return np.random.default_rng(shape).standard_normal(shape).astype(np.float32)


def agree(model: graphc.CompiledModel, graph: Graph, x: np.ndarray) -> None:
    results = model(x)
    results = [results] if isinstance(results, np.ndarray) else results
    for got, wanted in zip(results, graph.evaluate([x]), strict=True):
        assert got.shape == wanted.shape
        assert difference(got, wanted).ok, (x.shape, difference(got, wanted))
