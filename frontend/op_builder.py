"""Appends the ops for one node of a model file, named after it, and checks the sizes of computed tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..base.dims import MOST, Dim, Limit, Size, Symbol, bounds, size
from ..base.dtypes import S64, DType
from ..base.errors import UnsupportedError, UserError
from ..base.symbols import Limits, fresh_symbol_name, symbol_name
from ..graph_ir.ir.graph import Array, Graph, GraphTensor, sizes_in
from .refusals import WITHOUT
from .shape_spec import check_size

_MAX_ELEMENTS = 1 << 27
"""Limit for arrays computed at import: 1 GiB of the widest type."""

_MAX_AXES = 32


class OpBuilder:
    """Builds into `graph`; `type` and `name` are those of the node, for messages and op names."""

    def __init__(self, graph: Graph, type_name: str, name: str) -> None:
        self.graph = graph
        self.type = type_name
        self.name = name
        # The names of dynamic sizes that are taken besides those in `graph`.
        self.size_names: set[str] = set()
        # What ops need of sizes, by name.
        self.limits: Limits = {}

    def make(self, op_name: str, *inputs: GraphTensor, **attrs: Any) -> GraphTensor:
        """Append the node's main op, which takes its name; its first output."""
        return self.outputs(op_name, *inputs, **attrs)[0]

    def outputs(self, op_name: str, *inputs: GraphTensor, **attrs: Any) -> list[GraphTensor]:
        """Append the node's main op; all its outputs."""
        return self._append(op_name, inputs, attrs, self.name)

    def helper(self, op_name: str, *inputs: GraphTensor, **attrs: Any) -> GraphTensor:
        """Append an op that the main one needs, named after both."""
        return self._append(op_name, inputs, attrs, f"{self.name}.{op_name}")[0]

    def _append(
        self, op_name: str, inputs: Sequence[GraphTensor], attrs: dict[str, Any], name: str
    ) -> list[GraphTensor]:
        op = self.graph.make(op_name, inputs, attrs, name)
        for result in op.outputs:
            details = result.details
            check_size(f"{self.type} '{self.name}'", details.dtype, details.plain_dims)
            if details.rank > _MAX_AXES:
                raise self.rule(f"a tensor must have at most {_MAX_AXES} axes", str(details.rank))
        return op.outputs

    def constant(self, value: Any, dtype: DType) -> GraphTensor:
        """A constant that is not an input of the node, converted to `dtype`."""
        with np.errstate(all="ignore"):
            array = np.asarray(value).astype(dtype.numpy)
        return self.graph.make_constant(array, f"{self.name}.constant")

    def converted(self, x: GraphTensor, dtype: DType) -> GraphTensor:
        """X in another dtype; x itself where that is its dtype."""
        return x if x.details.dtype == dtype else self.helper("cast", x, dtype=dtype.name)

    def reshaped(self, x: GraphTensor, dims: Sequence[Size]) -> GraphTensor:
        """X in another shape; x itself where that is its shape."""
        same = x.details.plain_dims == tuple(dims)
        return x if same else self.helper("reshape", x, shape=tuple(dims))

    def transposed(self, x: GraphTensor, perm: Sequence[int]) -> GraphTensor:
        """X with axis perm[i] as axis i; x itself where nothing moves."""
        same = list(perm) == list(range(len(perm)))
        return x if same else self.helper("transpose", x, perm=tuple(perm))

    def sliced(
        self, x: GraphTensor, axis: int, start: Size, size: Size, step: int = 1
    ) -> GraphTensor:
        """`size` elements of one axis from `start` on; x itself if that is all of it."""
        dims = x.details.plain_dims
        if (start, size, step) == (0, dims[axis], 1):
            return x
        here = range(len(dims))
        return self.helper(
            "slice",
            x,
            starts=tuple(start if i == axis and size != 0 else 0 for i in here),
            steps=tuple(step if i == axis else 1 for i in here),
            sizes=tuple(size if i == axis else dims[i] for i in here),
        )

    def counted(
        self,
        number: GraphTensor,
        most: Size | None,
        name: str = "",
        within: Limit | None = None,
        room: Size | None = None,
    ) -> Size:
        """A number that a run computes (one s64) as a size from 0 to `most` and `within` a limit, called like `name`.

        Without `most`, callers choose how much `room` there is. Where an op needs another range, a run checks it.
        """
        name, top = self.size_name(name), MOST if most is None else min(bounds(most)[1], MOST)
        limit = self.limits.get(name, Limit()).within(within or Limit())
        if limit.least == limit.most <= top:
            fixed = self.constant(limit.most, number.details.dtype)
            fits = self.helper("eq", self.reshaped(number, ()), fixed)
            self.require(fits, f"'{name}', which the data decide, must be {limit.most}")
            return limit.most
        least = min(limit.least, max(top - 1, 0))
        found = size(Symbol(name, least, top if limit.most <= least else min(top, limit.most)))
        if isinstance(found, Dim):
            given = self.reshaped(self.converted(number, S64), (1,))
            attrs = {"most": (self.room(name) if room is None else room,), "unlimited": True}
            attrs = attrs if most is None else {"most": (most,)}
            self.helper("count", given, size=(found,), **attrs)
        return found

    def room(self, name: str = "") -> Size:
        """The size that callers choose as the room for a count that nothing limits."""
        return size(Symbol(self.size_name(f"max_{name or self.name}")))

    def size_name(self, like: str = "") -> str:
        """A name for a dynamic size that resembles `like`, which is then taken."""
        taken = {str(one) for op in self.graph.ops for one in sizes_in(op)} | self.size_names
        name = fresh_symbol_name(symbol_name(like or f"{self.name}_count"), taken)
        self.size_names.add(name)
        return name

    def require(self, holds: GraphTensor, message: str) -> None:
        """Have each run check a condition. Programs that check it themselves need no other check."""

    def axis(self, axis: int, rank: int, inclusive: bool = False) -> int:
        """`axis` counted from the front. UserError outside [-rank, rank), or [-rank, rank] if `inclusive`."""
        last = rank + 1 if inclusive else rank
        if not -rank <= axis < last:
            raise self.rule(f"axis must be in [{-rank}, {last})", str(axis))
        return axis + rank if axis < 0 else axis

    def check_array(self, dims: Sequence[int]) -> None:
        """Raise UnsupportedError if an array of these sizes is too large to be computed while reading a model."""
        if math.prod(dims) > _MAX_ELEMENTS:
            raise self.unsupported(
                f"a computed constant of more than {_MAX_ELEMENTS} elements ({list(dims)})"
            )

    def rule(self, rule: str, values: str, remedy: str = "") -> UserError:
        """An error in the standard form: who, rule, values, remedy."""
        text = f"{self.type} '{self.name}': {rule}, got {values}"
        return UserError(text + (f"; {remedy}" if remedy else ""))

    def unsupported(self, what: str, remedy: str = WITHOUT) -> UnsupportedError:
        """The error for something valid that graphc does not handle, and what to do about it."""
        return UnsupportedError(f"{self.type} '{self.name}': {what} is not supported", remedy)


Value = GraphTensor | Array
"""A tensor of the graph, or an array known at import that no op has needed yet."""


def like(node: OpBuilder, value: Any, x: GraphTensor) -> GraphTensor:
    """A constant of the type of x."""
    return node.constant(value, x.details.dtype)
