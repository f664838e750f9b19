"""The context of an instruction's importer: its operands, the graph, and computations to inline."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np

from ...base.dtypes import S64, DType
from ...base.errors import GraphcError, UnsupportedError
from ...graph_ir.ir.graph import Array, Graph, GraphTensor, Op
from .literals import MOST_ELEMENTS
from .shapes import DTYPES, Shape
from .syntax import Called, Computation, Instruction, Module

Value = "GraphTensor | tuple[Value, ...]"
"""A tensor, or a tuple of values; a token is the empty tuple."""

Handler = Callable[["Step"], Any]
"""Imports one kind of instruction: its value."""

_MOST_KNOWN = 1 << 20  # elements of a value that is computed at import
_MOST_WALKED = 4096  # ops visited to determine whether a value is known
_OWN_SHAPES = frozenset(("matmul_core", "convolution", "gather", "gather_elements", "concat"))
_Kind = TypeVar("_Kind")


class Inliner(Protocol):
    """The interface to the importer."""

    module: Module
    graph: Graph
    known: Known
    is_inside: bool
    """Whether a branch or the body of a loop is being imported."""

    def make_constant(self, array: Array, name: str) -> GraphTensor:
        """A constant of the graph; scalars of one value are one."""

    def inline(self, computation: Computation, arguments: Sequence[Any]) -> Any:
        """The value of a computation for these arguments."""

    def scalar_graph(self, computation: Computation) -> Graph:
        """A scalar computation as a separate graph."""

    def subgraph(
        self, computation: Computation, arguments: Sequence[Any], number: int = 0
    ) -> Graph:
        """A computation as a graph whose inputs are like all arguments, of which it takes one."""

    def inline_mapped(self, computation: Computation, arguments: Sequence[Any]) -> Any:
        """The value of a scalar computation applied to every element of its arguments."""


class Known:
    """Values that do not depend on the model's inputs, computed with the references of their ops on demand."""

    def __init__(self) -> None:
        self._values: dict[GraphTensor, Array | None] = {}

    def __call__(self, tensor: GraphTensor) -> Array | None:
        """The value, or None if it depends on an input or is large."""
        if tensor in self._values:
            return self._values[tensor]
        order = self._needed(tensor)
        for op in order:
            self._evaluate(op)
        return self._values.get(tensor)

    def _needed(self, tensor: GraphTensor) -> list[Op]:
        """Ops to evaluate before the tensor is known, in order; empty if one of them cannot be."""
        stack, order, seen = [(tensor.producer_owner, False)], [], set()
        while stack:
            op, ready = stack.pop()
            if ready:
                order.append(op)
                continue
            if id(op) in seen or op.outputs[0] in self._values:
                continue
            seen.add(id(op))
            sizes = [y.details.elements for y in (*op.inputs, *op.outputs)]
            unknown = op.op_name == "input" or op.kind == "control"
            if unknown or len(seen) > _MOST_WALKED or max(sizes) > _MOST_KNOWN:
                self._values[tensor] = None
                return []
            stack.append((op, True))
            stack.extend((x.producer_owner, False) for x in op.inputs)
        return order

    def _evaluate(self, op: Op) -> None:
        arrays = [self._values.get(x) for x in op.inputs]
        unknown = any(array is None for array in arrays)
        results: Sequence[Array | None]
        results = [None] * len(op.outputs) if unknown else op.reference(arrays)  # type: ignore[arg-type]
        self._values.update(zip(op.outputs, results, strict=True))


class Step:
    """One instruction with the values of its operands.

    `is_mapped`: the instruction is part of a scalar computation applied to every element of arrays, so only the type of
    its written shape matters.
    """

    def __init__(
        self,
        owner: Inliner,
        instruction: Instruction,
        operands: list[Any],
        shapes: Mapping[str, Shape],
        is_mapped: bool,
    ) -> None:
        self._shapes = shapes
        self.owner = owner
        self.graph = owner.graph
        self.instruction = instruction
        self.operands = operands
        self.is_mapped = is_mapped

    # The instruction.

    @property
    def shape(self) -> Shape:
        """The written (and checked) shape."""
        shape = self.instruction.shape
        assert shape is not None
        return shape

    def element_type(self, shape: Shape) -> DType:
        """The element type of a shape."""
        return DTYPES[shape.type]

    @property
    def dtype(self) -> DType:
        """The element type of the result."""
        return DTYPES[self.shape.type]

    def tensor(self, index: int) -> GraphTensor:
        """Operand `index`, a tensor."""
        value = self.operands[index]
        if not isinstance(value, GraphTensor):
            raise self.fail(f"operand {index} must be an array, got a tuple")
        return value

    def tensors(self) -> list[GraphTensor]:
        """All operands, tensors."""
        return [self.tensor(i) for i in range(len(self.operands))]

    def dims(self, index: int) -> tuple[int, ...]:
        """Sizes of operand `index`."""
        return self.tensor(index).details.plain_dims

    def operand_shape(self, index: int) -> Shape:
        """The written shape of operand `index`, with its layout."""
        name, path, _ = self.instruction.operands[index]
        shape = self._shapes[name]
        for element in path:
            shape = shape.elements[element]
        return shape

    def attribute(self, name: str, default: Any = None) -> Any:
        """An attribute's value."""
        return self.instruction.attributes.get(name, default)

    def typed(self, name: str, kind: type[_Kind]) -> _Kind:
        """An attribute of this kind."""
        value = self.attribute(name)
        if not isinstance(value, kind):
            raise self.fail(f"attribute '{name}' must be given as a {kind.__name__}")
        return value

    def computation(self, name: str) -> Computation:
        """The computation an attribute names."""
        return self.owner.module.computations[self.typed(name, Called).name]

    def known(self, tensor: GraphTensor) -> Array | None:
        """The value, if it does not depend on the model's inputs."""
        return self.owner.known(tensor)

    # Errors.

    def fail(self, message: str) -> GraphcError:
        """An error about the instruction."""
        i = self.instruction
        return self.owner.module.origin.error(f"{i.opcode} '{i.name}': {message}", i.place)

    def unsupported(self, what: str) -> GraphcError:
        """The error for something graphc does not handle."""
        i = self.instruction
        return self.owner.module.origin.error(
            f"{i.opcode} '{i.name}': {what} is not supported", i.place, UnsupportedError
        )

    # Building.

    def make(self, op_name: str, *inputs: GraphTensor, **attrs: Any) -> GraphTensor:
        """Append an op named after the instruction; operands of elementwise ops are brought to one shape first.

        HLO broadcasts only explicitly; following the same rule, a graph that is written and read back stays the same.
        """
        if len(inputs) > 1 and op_name not in _OWN_SHAPES:
            first = inputs[0].details.plain_dims
            if any(x.details.plain_dims != first for x in inputs):
                dims = np.broadcast_shapes(*(x.details.plain_dims for x in inputs))
                inputs = tuple(self.broadcast(x, dims) for x in inputs)
        return self.graph.make(op_name, inputs, attrs, self.instruction.name).outputs[0]

    def constant(self, value: Any, dtype: DType = S64) -> GraphTensor:
        """A constant of this type."""
        with np.errstate(all="ignore"):
            array = np.asarray(value).astype(dtype.numpy)
        if array.size > MOST_ELEMENTS:
            raise self.fail(
                f"a constant must not exceed {MOST_ELEMENTS} elements, got {array.size}"
            )
        return self.owner.make_constant(array, f"{self.instruction.name}.constant")

    def reshaped(self, x: GraphTensor, dims: Sequence[int]) -> GraphTensor:
        """X in another shape; reshapes of reshapes are one, or none."""
        if x.producer_owner.op_name == "reshape":
            x = x.producer_owner.inputs[0]
        if x.details.plain_dims == tuple(dims):
            return x
        return self.make("reshape", x, shape=tuple(dims))

    def transposed(self, x: GraphTensor, perm: Sequence[int]) -> GraphTensor:
        """X with permuted axes; x itself where nothing moves."""
        if list(perm) == list(range(len(perm))):
            return x
        return self.make("transpose", x, perm=tuple(perm))

    def broadcast(self, x: GraphTensor, dims: Sequence[int]) -> GraphTensor:
        """X repeated to a shape as NumPy does."""
        if x.details.plain_dims == tuple(dims):
            return x
        return self.make("broadcast", x, shape=tuple(dims))

    def cast(self, x: GraphTensor, dtype: DType) -> GraphTensor:
        """X in another type; x itself where it has it."""
        return x if x.details.dtype == dtype else self.make("cast", x, dtype=dtype.name)

    def is_clamped(self, x: GraphTensor, most: int) -> bool:
        """Whether every element of x is known to lie in [0, most]."""
        value = self.known(x)
        if value is not None:
            return not value.size or bool(value.min() >= 0 and value.max() <= most)
        limits = clamp_limits(x, self.known)
        return limits is not None and limits[0] >= 0 and limits[1] <= most

    def positions(self, axis: int, rank: int, size: int) -> GraphTensor:
        """0, 1, ... along an axis, s64, of size 1 along all others."""
        if size > MOST_ELEMENTS:
            raise self.fail(f"an axis must not exceed {MOST_ELEMENTS} positions, got {size}")
        shape = [1] * rank
        shape[axis] = size
        return self.constant(np.arange(size).reshape(shape))

    def strided(self, x: GraphTensor, axis: int, start: int, step: int, size: int) -> GraphTensor:
        """`size` elements of an axis from `start` on, every `step`-th."""
        dims = x.details.plain_dims
        if (start, step, size) == (0, 1, dims[axis]):
            return x
        starts, steps, sizes = [0] * len(dims), [1] * len(dims), list(dims)
        starts[axis], steps[axis], sizes[axis] = start, step, size
        return self.make("slice", x, starts=tuple(starts), steps=tuple(steps), sizes=tuple(sizes))


def flattened(value: Any) -> Iterator[GraphTensor]:
    """The tensors in a value, depth first."""
    if isinstance(value, tuple):
        for part in value:
            yield from flattened(part)
    else:
        yield value


def restored(like: Any, tensors: Iterable[GraphTensor]) -> Any:
    """The inverse of `flattened`: these tensors in the structure of `like` (a value or a shape)."""
    left = iter(tensors)

    def take(form: Any) -> Any:
        parts = form.elements if isinstance(form, Shape) and form.is_tuple else form
        if isinstance(parts, (tuple, list)):
            return tuple(take(part) for part in parts)
        return () if isinstance(form, Shape) and form.type == "token" else next(left)

    return take(like)


def clamp_limits(
    x: GraphTensor, known: Callable[[GraphTensor], Array | None]
) -> tuple[int, int] | None:
    """(low, high) of a tensor that is min(max(.., low), high) of constants, None for any other."""
    upper = x.producer_owner
    if upper.op_name != "min":
        return None
    lower = upper.inputs[0].producer_owner
    if lower.op_name != "max":
        return None
    high, low = known(upper.inputs[1]), known(lower.inputs[1])
    if high is None or low is None or not high.size:
        return None
    return int(low.min()), int(high.max())
