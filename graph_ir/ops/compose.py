"""Shared by composite ops: appends named ops to a graph, with f32 intermediates for 16-bit floats."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base.dims import Dim, Size
from ...base.dtypes import S64, DType
from ..ir.graph import Array, Graph, GraphTensor, Op


class Composer:
    """Appends the parts of a composite op to `graph`, named after it."""

    def __init__(self, graph: Graph, owner: Op) -> None:
        self.graph = graph
        self.owner = owner

    def __call__(self, op_name: str, *inputs: GraphTensor, **attrs: Any) -> GraphTensor:
        """The output of a new op."""
        name = f"{self.owner.name}.{op_name}"
        return self.graph.make(op_name, inputs, attrs, name).outputs[0]

    def folded(self, op_name: str, *inputs: GraphTensor, **attrs: Any) -> GraphTensor:
        """The output of a new op; a constant where all inputs are, of which those without other uses go."""
        values = [x.producer_owner.attr("value") for x in inputs if x.is_constant]
        if len(values) < len(inputs):
            return self(op_name, *inputs, **attrs)
        alone = Graph(op_name)
        op = alone.make(op_name, [alone.make_input(x.details) for x in inputs], attrs)
        with np.errstate(all="ignore"):
            (value,) = op.reference(values)
        spent = [x.producer_owner for x in inputs if not x.uses]
        if spent:
            self.graph.remove(spent)
        return self.constant(value)

    def size(self, value: Size, dtype: DType = S64) -> GraphTensor:
        """A size as one number: a scalar, or a list of one where it is dynamic."""
        if not isinstance(value, Dim):
            return self.scalar(value, dtype)
        return self.to(self("dynamic_sizes", values=(value,)), dtype)

    def scalar(self, value: float, dtype: DType) -> GraphTensor:
        """A constant of rank 0."""
        return self.constant(np.asarray(value).astype(dtype.numpy))

    def constant(self, array: Array) -> GraphTensor:
        """A constant of an array."""
        return self.graph.make_constant(array, f"{self.owner.name}.constant")

    def swapped(self, tensor: GraphTensor) -> GraphTensor:
        """The tensor with its last two axes exchanged."""
        rank = tensor.details.rank
        return self("transpose", tensor, perm=(*range(rank - 2), rank - 1, rank - 2))

    def widened(self, tensor: GraphTensor) -> GraphTensor:
        """The tensor in the type it is computed with, so that the parts do not each round to 16 bits."""
        return self.to(tensor, tensor.details.dtype.accumulator)

    def to(self, tensor: GraphTensor, dtype: DType) -> GraphTensor:
        """The tensor cast to `dtype`, itself if it has that type."""
        return tensor if tensor.details.dtype == dtype else self("cast", tensor, dtype=dtype.name)
