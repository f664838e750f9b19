"""Appends graph ops for one call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...base.dims import Dim
from ...base.dtypes import BOOL, F8E8M0FNU, F32, DType
from ...graph_ir.ir.graph import Array, Graph, GraphTensor
from ..correspondence.compositions.indexing import dynamic_size
from ..correspondence.reading import NodeReader
from .promotion import Operand, number_dtype, result_dtype


class Builder(NodeReader):
    """Appends ops to `graph`; the operator's main op takes its `name`, others are named after both.

    Operands may be Python numbers.
    """

    def __init__(self, graph: Graph, type_name: str, name: str, is_main: bool = True) -> None:
        super().__init__(graph, type_name, name)
        self.is_main = is_main

    def part(self) -> Builder:
        """A builder of ops that the main one needs."""
        return Builder(self.graph, self.type, self.name, False)

    def outputs(self, op_name: str, *inputs: GraphTensor, **attrs: Any) -> list[GraphTensor]:
        """Append the operator's main op; all its outputs."""
        if self.is_main:
            return super().outputs(op_name, *inputs, **attrs)
        return self._append(op_name, inputs, attrs, f"{self.name}.{op_name}")

    def stored(self, array: Array, key: str) -> GraphTensor:
        """A constant with the array unchanged."""
        return self.graph.make_constant(array, f"{self.name}.{key}")

    def converted(self, x: GraphTensor, dtype: DType) -> GraphTensor:
        """X in another dtype. PyTorch's powers of two have no sign, and 0 is the smallest."""
        if dtype == F8E8M0FNU and x.details.dtype != dtype:
            size = self.helper("abs", super().converted(x, F32))
            x = self.helper("max", size, self.constant(2.0**-127, F32))
        return super().converted(x, dtype)

    def tensor(self, x: Operand, dtype: DType | None = None) -> GraphTensor:
        """An operand as a tensor of `dtype` (default: its own type)."""
        if isinstance(x, GraphTensor):
            return x if dtype is None else self.converted(x, dtype)
        if isinstance(x, Dim):
            return self.tensor(dynamic_size(self, x), dtype)
        return self.constant(x, dtype or number_dtype(x))

    def unified(
        self, args: Sequence[Operand], common: str, conditions: int = 0
    ) -> list[GraphTensor]:
        """Operands in the type PyTorch computes them in, if they have a `common` one (see `Row`); conditions are bools.

        Functions of floats take integers and bools as f32.
        """
        dtype = result_dtype(args[conditions:]) if common else None
        if common == "float" and dtype is not None and not dtype.is_float:
            dtype = F32
        return [self.tensor(x, BOOL if i < conditions else dtype) for i, x in enumerate(args)]

    def broadcast(self, x: GraphTensor, dims: Sequence[int]) -> GraphTensor:
        """X repeated to a shape; x itself where that is its shape."""
        return (
            x
            if x.details.plain_dims == tuple(dims)
            else self.helper("broadcast", x, shape=tuple(dims))
        )

    def axis(self, axis: int, rank: int, inclusive: bool = False) -> int:
        """`axis` counted from the front; a scalar counts as having one axis. UserError outside."""
        most = max(rank, 1) + inclusive
        if not -most <= axis < most:
            raise self.rule(f"dim must be in [{-most}, {most})", str(axis))
        return axis % most
