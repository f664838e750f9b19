"""A random graph while it grows: its tensors with their values, and random choices that all come from one seed.

Every op that is added is evaluated by its reference at once. So recipes see values, a graph that takes too long or
grows too large is never made, and what the result must be is known when the graph is.
"""

from __future__ import annotations

import copy
import math
import random
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from ...base.dtypes import BOOL, DType, from_numpy
from ...base.errors import UserError
from ...graph_ir.ir.graph import Array, Graph, GraphTensor
from ...graph_ir.ir.logical_tensor import LogicalTensor
from .plan import Plan
from .values import random_array

T = TypeVar("T")
Dims = tuple[int, ...]
NUMBER = ("float", "int", "uint")
ANY = (*NUMBER, "bool")


class Scope:
    """The graph, its values, and what may be added to it.

    `tensors` are those recipes read from, `arrays` the values of graph inputs in their order. A `closed` scope is a
    subgraph, whose inputs are given: what recipes want besides is a constant. `conditions`: what must hold of a run,
    with the message otherwise.
    """

    def __init__(self, plan: Plan, seed: str) -> None:
        self.plan = plan
        self.random = random.Random(seed)
        self.rng = np.random.default_rng(self.random.getrandbits(64))
        self.graph = Graph("random")
        self.tensors: list[GraphTensor] = []
        self.values: dict[GraphTensor, Array] = {}
        self.arrays: list[Array] = []
        self.fill = self.weighted(plan.fills)
        self.closed = False
        self.conditions: list[tuple[GraphTensor, str]] = []

    def subgraph(self, inputs: Sequence[GraphTensor], name: str) -> Scope:
        """A closed scope whose graph takes these tensors."""
        inner = copy.copy(self)
        inner.graph, inner.closed, inner.arrays = Graph(name), True, []
        inner.tensors = [inner.graph.make_input(x.details, f"v{i}") for i, x in enumerate(inputs)]
        values = (self.values[x] for x in inputs)
        inner.values = dict(zip(inner.tensors, values, strict=True))
        return inner

    # --- choices ---------------------------------------------------------------------------------------------------

    def weighted(self, choices: Sequence[tuple[T, int]]) -> T:
        """One of (what, how often)."""
        names, weights = zip(*choices, strict=True)
        return self.random.choices(names, weights)[0]

    def chance(self, share: float) -> bool:
        """True in this share of the cases."""
        return self.random.random() < share

    def size(self) -> int:
        """The size of an axis."""
        return self.weighted(self.plan.sizes)

    def dtype(self, kinds: Sequence[str] = ANY) -> DType:
        """An element type of one of the kinds."""
        return self.weighted([(d, n) for d, n in self.plan.dtypes if d.kind in kinds])

    def dims(self, least: int = 0, most: int | None = None) -> Dims:
        """A shape of `least` to `most` axes within the plan's number of elements."""
        top = self.plan.max_rank if most is None else min(most, self.plan.max_rank)
        rank = self.random.choices(range(least, top + 1), [1, 5, 8, 6, 4, 1][least : top + 1])[0]
        return self.fitting([self.size() for _ in range(rank)])

    def fitting(self, dims: Sequence[int]) -> Dims:
        """The shape with its largest axes cut down until it fits the plan."""
        cut = list(dims)
        while math.prod(cut) > self.plan.max_elements:
            at = cut.index(max(cut))
            cut[at] = max(cut[at] // 2, 1)
        return tuple(cut)

    # --- tensors ---------------------------------------------------------------------------------------------------

    def value(self, tensor: GraphTensor) -> Array:
        """Return the reference value of a tensor of the graph."""
        return self.values[tensor]

    def input(self, dtype: DType, dims: Dims, fill: str = "") -> GraphTensor:
        """A new input of the graph."""
        if self.closed:
            tensor = self.constant(random_array(self.rng, dtype, dims, fill or self.fill))
            self.tensors.append(tensor)
            return tensor
        return self.given(random_array(self.rng, dtype, dims, fill or self.fill))

    def given(self, array: Array) -> GraphTensor:
        """A new input of the graph, with this value; only of a scope that is not closed."""
        details = LogicalTensor(from_numpy(array.dtype), array.shape)
        tensor = self.graph.make_input(details, f"x{len(self.arrays)}")
        self.arrays.append(array)
        self.values[tensor] = array
        self.tensors.append(tensor)
        return tensor

    def constant(self, array: Array, name: str = "c") -> GraphTensor:
        """A constant of the graph, which recipes do not choose by chance."""
        tensor = self.graph.make_constant(array, name)
        self.values[tensor] = array
        return tensor

    def fresh(self, dtype: DType, dims: Dims, fill: str = "") -> GraphTensor:
        """An input, or now and then a constant."""
        if self.chance(0.7):
            return self.input(dtype, dims, fill)
        return self.constant(random_array(self.rng, dtype, dims, fill or self.fill))

    def weight(self, dtype: DType, dims: Dims) -> GraphTensor:
        """Add weights as models have them: mostly a constant."""
        if self.chance(0.3):
            return self.input(dtype, dims)
        return self.constant(random_array(self.rng, dtype, dims, self.fill), "w")

    def find(self, fits: Callable[[LogicalTensor], bool]) -> GraphTensor | None:
        """One of the last tensors that fit, None where none does."""
        found = [t for t in self.tensors if fits(t.details)]
        return self.random.choice(found[-4:]) if found else None

    def any(self, kinds: Sequence[str] = ANY, least: int = 0, most: int = 9) -> GraphTensor:
        """A tensor of one of the kinds with `least` to `most` axes; a new input where there is none."""
        found = self.find(lambda d: d.dtype.kind in kinds and least <= d.rank <= most)
        if found is not None and self.chance(0.9):
            return found
        return self.input(self.dtype(kinds), self.dims(least, most))

    def like(self, dtype: DType, dims: Dims) -> GraphTensor:
        """A tensor of exactly this type: one that is there, or a new one."""
        found = self.find(lambda d: d.dtype == dtype and d.plain_dims == dims)
        return found if found is not None and self.chance(0.8) else self.fresh(dtype, dims)

    def broadcasting(self, dtype: DType, dims: Dims) -> GraphTensor:
        """A tensor that broadcasts with `dims` and mostly to it: of its shape, of a part of it, or a scalar."""
        kept = list(dims)
        for axis in range(len(kept)):
            if self.chance(0.2):
                kept[axis] = 1
        if self.chance(0.25):
            kept = kept[self.random.randint(0, len(kept)) :]
        return self.like(dtype, dims if self.chance(0.5) else tuple(kept))

    def small_integers(self, dtype: DType, dims: Dims, low: int, high: int) -> GraphTensor:
        """An input or a constant of integers in [low, high], or of nothing."""
        low = max(low, 0) if not dtype.is_signed else low
        array = self.rng.integers(low, max(high, low) + 1, dims).astype(dtype.numpy)
        if self.closed or self.chance(0.4):
            return self.constant(array, "indices")
        return self.given(array)

    def indices(self, dtype: DType, dims: Dims, low: int, high: int) -> GraphTensor:
        """Integers in [low, high], and those next to them where the plan has strays."""
        return self.small_integers(dtype, dims, low - self.plan.strays, high + self.plan.strays)

    # --- ops -------------------------------------------------------------------------------------------------------

    def make(
        self, op_name: str, inputs: Sequence[GraphTensor], **attrs: Any
    ) -> tuple[GraphTensor, ...]:
        """Append an op and evaluate it. Raise UserError if it does not take this, or makes too much."""
        op = self.graph.make(op_name, inputs, attrs)
        try:
            if any(y.details.elements > 2 * self.plan.max_elements for y in op.outputs):
                raise UserError(f"{op_name} makes more than the plan allows")
            with np.errstate(all="ignore"):
                results = op.reference([self.values[x] for x in inputs])
        except UserError:
            self.graph.remove([op])
            raise
        self.values.update(zip(op.outputs, results, strict=True))
        self.tensors.extend(op.outputs)
        return tuple(op.outputs)

    def one(self, op_name: str, *inputs: GraphTensor, **attrs: Any) -> GraphTensor:
        """`make` of an op with one result."""
        return self.make(op_name, inputs, **attrs)[0]

    def number(self, x: GraphTensor, value: float) -> GraphTensor:
        """A scalar constant of the dtype of x."""
        with np.errstate(all="ignore"):
            return self.constant(np.asarray(value).astype(x.details.dtype.numpy), "number")

    def flag(self) -> GraphTensor:
        """A bool[] input."""
        return self.input(BOOL, ())
