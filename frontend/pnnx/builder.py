"""Appending graph ops in the name of one operator of the file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...base.dtypes import DType
from ...base.errors import UnsupportedError, UserError
from ...graph_ir.ir.graph import Array, Graph, GraphTensor
from ..shape_spec import check_size
from .promotion import Operand, number_dtype
from .reader import MAX_RANK


class Builder:
    """Appends ops to `graph`; the operator's main op takes its `name`, others are named after both."""

    def __init__(self, graph: Graph, type_name: str, name: str, is_main: bool = True) -> None:
        self.graph = graph
        self.type = type_name
        self.name = name
        self.is_main = is_main

    def part(self) -> Builder:
        """A builder of ops that the main one needs."""
        return Builder(self.graph, self.type, self.name, False)

    def make(self, op_name: str, *inputs: GraphTensor, **attrs: Any) -> GraphTensor:
        """Append the operator's main op; its only output."""
        (result,) = self.outputs(op_name, *inputs, **attrs)
        return result

    def outputs(self, op_name: str, *inputs: GraphTensor, **attrs: Any) -> list[GraphTensor]:
        """Append the operator's main op; all its outputs."""
        return self._append(op_name, inputs, attrs, self.name if self.is_main else "")

    def helper(self, op_name: str, *inputs: GraphTensor, **attrs: Any) -> GraphTensor:
        """Append an op that the main one needs."""
        (result,) = self._append(op_name, inputs, attrs, "")
        return result

    def _append(
        self, op_name: str, inputs: Sequence[GraphTensor], attrs: dict[str, Any], name: str
    ) -> list[GraphTensor]:
        op = self.graph.make(op_name, inputs, attrs, name or f"{self.name}.{op_name}")
        for result in op.outputs:
            details = result.details
            check_size(f"{self.type} '{self.name}'", details.dtype, details.plain_dims)
            if details.rank > MAX_RANK:
                raise self.rule(f"a tensor must have at most {MAX_RANK} axes", str(details.rank))
        return op.outputs

    def constant(self, value: Any, dtype: DType) -> GraphTensor:
        """A constant converted to `dtype`; an integer too large for it wraps, as in PyTorch."""
        with np.errstate(all="ignore"):
            array = np.asarray(value).astype(dtype.numpy)
        return self.stored(array, "constant")

    def stored(self, array: Array, key: str) -> GraphTensor:
        """A constant of an array as it is."""
        return self.graph.make_constant(array, f"{self.name}.{key}")

    def tensor(self, x: Operand, dtype: DType | None = None) -> GraphTensor:
        """An operand as a tensor of `dtype`; of its own type where none is given."""
        if isinstance(x, GraphTensor):
            return x if dtype is None else self.cast(x, dtype)
        return self.constant(x, dtype or number_dtype(x))

    def cast(self, x: GraphTensor, dtype: DType) -> GraphTensor:
        """X in another dtype; x itself where that is its dtype."""
        return x if x.details.dtype == dtype else self.helper("cast", x, dtype=dtype.name)

    def reshape(self, x: GraphTensor, dims: Sequence[int]) -> GraphTensor:
        """X in another shape; x itself where that is its shape."""
        return (
            x
            if x.details.plain_dims == tuple(dims)
            else self.helper("reshape", x, shape=tuple(dims))
        )

    def transpose(self, x: GraphTensor, perm: Sequence[int]) -> GraphTensor:
        """X with axis perm[i] as axis i; x itself where nothing moves."""
        in_place = list(perm) == list(range(len(perm)))
        return x if in_place else self.helper("transpose", x, perm=tuple(perm))

    def broadcast(self, x: GraphTensor, dims: Sequence[int]) -> GraphTensor:
        """X repeated to a shape; x itself where that is its shape."""
        return (
            x
            if x.details.plain_dims == tuple(dims)
            else self.helper("broadcast", x, shape=tuple(dims))
        )

    def part_of(
        self, x: GraphTensor, axis: int, start: int, size: int, step: int = 1
    ) -> GraphTensor:
        """`size` elements of an axis, from `start` on."""
        dims = x.details.plain_dims
        here = range(len(dims))
        return self.make(
            "slice",
            x,
            starts=tuple(start if size and i == axis else 0 for i in here),
            steps=tuple(step if size and i == axis else 1 for i in here),
            sizes=tuple(size if i == axis else dims[i] for i in here),
        )

    def axis(self, axis: int, rank: int) -> int:
        """`axis` counted from the front; a scalar counts as having one axis. UserError outside."""
        most = max(rank, 1)
        if not -most <= axis < most:
            raise self.rule(f"dim must be in [{-most}, {most})", str(axis))
        return axis % most

    def rule(self, rule: str, values: str, remedy: str = "") -> UserError:
        """An error in the house form: who, rule, values, remedy."""
        text = f"{self.type} '{self.name}': {rule}, got {values}"
        return UserError(text + (f"; {remedy}" if remedy else ""))

    def unsupported(self, what: str) -> UnsupportedError:
        """The error for something valid that graphc does not handle."""
        return UnsupportedError(f"{self.type} '{self.name}': {what} is not supported")
