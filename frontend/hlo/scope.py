"""The context of an instruction's importer: its operands and attributes, the graph, and computations to inline."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from ...base.dims import Size
from ...base.dtypes import BOOL, S64, DType
from ...base.errors import UserError
from ...graph_ir.ir.graph import Array, Graph, GraphTensor
from ...graph_ir.ir.registry import lookup
from ...graph_ir.ops.elementwise import Elementwise
from ...graph_ir.rewriting.known_values import Known, clamp_limits
from ..correspondence.reading import NodeReader
from ..correspondence.row import Row
from ..correspondence.spelling import Formal
from ..correspondence.values import MUST_BE_GIVEN
from .bounded_sizes import common_sizes
from .shapes import DTYPES, HLO_NAMES, Shape
from .syntax import Called, Computation, Instruction, Module, Raw, Word
from .values import built, fits, shape_of


class Inliner(Protocol):
    """The interface to the importer."""

    module: Module
    graph: Graph
    known: Known
    is_inside: bool
    """True while a branch or the body of a loop is imported."""
    sent: dict[tuple[int, int], GraphTensor]
    """Values sent on each channel of a graph, by channel and graph identity."""

    def handle(self, step: Step) -> Any:
        """The value of an instruction, which is not part of a scalar computation."""

    def building(self, graph: Graph) -> AbstractContextManager[Graph]:
        """Import into this graph, the body of a loop, meanwhile."""

    def make_constant(self, array: Array, name: str) -> GraphTensor:
        """A constant of the graph; scalars of one value are one."""

    def inline(self, computation: Computation, arguments: Sequence[Any]) -> Any:
        """The value of a computation for these arguments."""

    def inline_mapped(self, computation: Computation, arguments: Sequence[Any]) -> Any:
        """The value of a scalar computation applied to every element of its arguments."""

    def scalar_graph(self, computation: Computation) -> Graph:
        """A scalar computation as a separate graph."""

    def subgraph(
        self, computation: Computation, arguments: Sequence[Any], number: int = 0
    ) -> Graph:
        """A computation as a graph whose inputs are like all arguments, of which it takes one."""

    def shapes(self, computation: Computation) -> dict[str, Shape]:
        """The shapes of a computation's instructions, checked."""


class Step(NodeReader):
    """One instruction with the values of its operands.

    `is_mapped`: the instruction is part of a scalar computation applied to every element of arrays, so only the type of
    its written shape matters; the computation has been checked for scalars. `shapes` are those of the operands.
    """

    def __init__(
        self,
        owner: Inliner,
        instruction: Instruction,
        operands: list[Any],
        shapes: dict[str, Shape],
        is_mapped: bool,
    ) -> None:
        super().__init__(owner.graph, instruction.opcode, instruction.name)
        self._shapes = shapes
        self.owner = owner
        self.instruction = instruction
        self.operands = operands
        self.is_mapped = is_mapped

    def instead(
        self, opcode: str, shape: Shape | None, operands: list[Any] | None = None, **attributes: Any
    ) -> Step:
        """An instruction of another opcode and shape, on the same operands or others, with more attributes."""
        merged = {**self.instruction.attributes, **attributes}
        other = replace(self.instruction, opcode=opcode, shape=shape, attributes=merged)
        given = self.operands if operands is None else operands
        return Step(self.owner, other, given, self._shapes, self.is_mapped)

    # The result.

    @property
    def shape(self) -> Shape:
        """The written shape. Raise UserError if there is none."""
        if self.instruction.shape is None:
            raise self.fail("its shape must be written")
        return self.instruction.shape

    @property
    def dtype(self) -> DType:
        """The written element type. Raise UserError if the result is none of numbers."""
        if self.shape.type not in DTYPES:
            raise self.rule("its result must be an array of real numbers", self.shape.logical())
        return DTYPES[self.shape.type]

    @property
    def gives_tuple(self) -> bool:
        """Return whether the result is written as a tuple."""
        return self.instruction.shape is not None and self.instruction.shape.is_tuple

    def zeros(self, shape: Shape) -> Any:
        """Zeros of a shape, for memory that nothing reads."""
        return built(shape, lambda x, _: self.broadcast(self.constant(0, DTYPES[x.type]), x.dims))

    def with_scratch(self, *found: Any) -> Any:
        """The results of a call and, where it is written with more, zeros for the memory that it worked in."""
        if not self.gives_tuple:
            return found[0]
        return *found, *map(self.zeros, self.shape.elements[len(found) :])

    # Operands.

    def count(self, least: int, most: int | None = None) -> None:
        """Check the number of operands; `most` is `least` unless given, -1 for any."""
        number, most = len(self.operands), least if most is None else most
        if number < least or (most >= 0 and number > most):
            wanted = f"{least} to {most}" if most > least else str(least)
            wanted = f"{least} or more" if most < 0 else wanted
            raise self.rule(f"it must have {wanted} operands", str(number))

    def tensor(self, index: int) -> GraphTensor:
        """Operand `index`, a tensor."""
        if index >= len(self.operands):
            self.count(index + 1, -1)
        value = self.operands[index]
        if not isinstance(value, GraphTensor):
            raise self.rule(f"operand {index} must be an array", shape_of(value).logical())
        return value

    def tensors(self, count: int = -1) -> list[GraphTensor]:
        """All operands, tensors; there must be `count` unless it is negative."""
        if count >= 0:
            self.count(count)
        return [self.tensor(i) for i in range(len(self.operands))]

    def dims(self, index: int) -> tuple[int, ...]:
        """Sizes of operand `index`."""
        return self.tensor(index).details.plain_dims

    def shown(self, *tensors: GraphTensor) -> str:
        """The shapes of tensors, for messages."""
        return " and ".join(shape_of(x).logical() for x in tensors)

    def alike(self, tensors: Sequence[GraphTensor]) -> list[GraphTensor]:
        """The tensors, which must have one shape; those with a bound of a dynamic size are cut to it."""
        shapes = [x.details.plain_dims for x in tensors]
        other = next((x for x in tensors if x.details.plain_dims != shapes[0]), None)
        if self.is_mapped or other is None:
            return list(tensors)
        dims = common_sizes(shapes, self._bounded_axes)
        if dims is None:
            raise self.rule("operands must have one shape", self.shown(tensors[0], other))
        return [self.cut(x, dims) for x in tensors]

    @property
    def _bounded_axes(self) -> set[int]:
        """The axes of which some operand's shape has only a bound."""
        shapes = (self.operand_shape(i) for i in range(len(self.instruction.operands)))
        return {axis for shape in shapes for axis in shape.dynamic}

    def cut(self, x: GraphTensor, dims: Sequence[Size]) -> GraphTensor:
        """The first elements of every axis; what is repeated is repeated so often only."""
        if x.producer_owner.op_name == "broadcast":
            (source,) = x.producer_owner.inputs
            given = source.details.plain_dims
            last = dims[len(dims) - len(given) :]
            wanted = [1 if old == 1 else new for old, new in zip(given, last, strict=True)]
            return self.broadcast(self.cut(source, wanted), dims)
        for axis, size in enumerate(dims):
            x = self.sliced(x, axis, 0, size)
        return x

    def operand_shape(self, index: int) -> Shape:
        """The shape of operand `index` with its layout."""
        name, path, _ = self.instruction.operands[index]
        shape = self._shapes[name]
        for element in path:
            shape = shape.elements[element]
        return shape

    def known(self, tensor: GraphTensor) -> Array | None:
        """The value, if it does not depend on the model's inputs."""
        return self.owner.known(tensor)

    # Attributes.

    def attribute(self, name: str, default: Any = MUST_BE_GIVEN) -> Any:
        """An attribute's value, which is of the kind its name has in the table."""
        value = self.instruction.attributes.get(name, default)
        if value is MUST_BE_GIVEN:
            raise self.fail(f"attribute '{name}' must be given")
        return value

    def word(self, name: str) -> str:
        """A word or text, "" where it is not given."""
        value = self.attribute(name, "")
        return value.text if isinstance(value, (Word, Raw)) else str(value)

    def axes(self, name: str, rank: int, default: Any = MUST_BE_GIVEN) -> tuple[int, ...]:
        """A list of distinct axes of an array of this rank."""
        axes: tuple[int, ...] = self.attribute(name, default)
        if len(set(axes)) != len(axes) or any(not 0 <= axis < rank for axis in axes):
            raise self.rule(f"{name} must be distinct axes below {rank}", _braces(axes))
        return axes

    def one_axis(self, name: str, rank: int) -> int:
        """A list of one axis."""
        axes = self.axes(name, rank)
        if len(axes) != 1:
            raise self.rule(f"{name} must name one axis", _braces(axes))
        return axes[0]

    # Computations.

    def computation(self, name: str) -> Computation:
        """The computation an attribute names."""
        return self.named(self.attribute(name))

    def named(self, called: Called | Computation) -> Computation:
        """The computation of this name, which the parser has seen; one that a handler has made is itself."""
        if isinstance(called, Computation):
            return called
        return self.owner.module.computations[called.name]

    def called(self, name: str, arguments: Sequence[Any]) -> Computation:
        """The computation an attribute names, which must take these arguments."""
        computation = self.computation(name)
        self.takes(name, computation, arguments)
        return computation

    def takes(self, what: str, computation: Computation, given: Sequence[Any]) -> None:
        """Check a computation's parameters against its arguments, or the shapes of these."""
        parameters = computation.parameters
        if len(parameters) != len(given) or not all(
            p.shape and (p.shape.matches(x) if isinstance(x, Shape) else fits(p.shape, x))
            for p, x in zip(parameters, given, strict=True)
        ):
            wanted = ", ".join(p.shape.logical() for p in parameters if p.shape)
            shapes = (x if isinstance(x, Shape) else shape_of(x) for x in given)
            got = ", ".join(shape.logical() for shape in shapes)
            raise self.fail(f"{what} takes ({wanted}), but is given ({got})")

    def result(self, computation: Computation) -> Shape:
        """Return the result shape of a computation."""
        return self.owner.shapes(computation)[computation.root]

    def body(
        self, name: str, arrays: Sequence[GraphTensor], wanted: Sequence[str]
    ) -> tuple[Computation, bool]:
        """(the computation applied to elements of these arrays, whether it gives a tuple).

        It must give scalars of the `wanted` types.
        """
        computation = self.computation(name)
        elements = [Shape(HLO_NAMES[x.details.dtype]) for x in arrays]
        self.takes(name, computation, elements)
        result = self.result(computation)
        found = result.elements if result.is_tuple else (result,)
        if [(x.type, x.dims) for x in found] != [(type_, ()) for type_ in wanted]:
            listed = ", ".join(f"{type_}[]" for type_ in wanted)
            raise self.rule(f"{name} must give {listed}", result.logical())
        return computation, result.is_tuple

    # The interface used by rows.

    def read_operand(self, formal: Formal) -> GraphTensor:
        """The operand at its position."""
        return self.tensor(formal.index)

    def read_operands(self, row: Row, formals: Sequence[Formal]) -> list[GraphTensor]:
        """All operands, of one shape: HLO broadcasts only explicitly, except for a condition that is one bool."""
        tensors = self.tensors(len(formals))
        conditions, others = tensors[: row.conditions], self.alike(tensors[row.conditions :])
        dims = others[0].details.plain_dims
        for index, x in enumerate(conditions):
            if shape_of(x) == Shape("pred") or self.is_mapped:
                continue
            found = common_sizes([x.details.plain_dims, dims], self._bounded_axes)
            if found != dims or x.details.dtype != BOOL:
                wanted = Shape("pred", dims).logical()
                raise self.rule(f"operand {index} must be pred[] or {wanted}", self.shown(x))
            conditions[index] = self.cut(x, dims)
        return [*conditions, *others]

    def read_attribute(self, name: str, kind: str, default: Any) -> Any:
        """The attribute; a word as text."""
        value = self.attribute(name, default)
        return value.text if isinstance(value, Word) else value

    # Errors.

    def fail(self, message: str) -> UserError:
        """An error about the instruction; the importer adds its line."""
        return UserError(f"{self.type} '{self.name}': {message}")

    # Building.

    def helper(self, op_name: str, *inputs: GraphTensor, **attrs: Any) -> GraphTensor:
        """All ops of an instruction are named after it."""
        return self.make(op_name, *inputs, **attrs)

    def outputs(self, op_name: str, *inputs: GraphTensor, **attrs: Any) -> list[GraphTensor]:
        """Append an op; operands of elementwise ops are brought to one shape first.

        HLO broadcasts only explicitly; following the same rule, a graph that is written and read back stays the same.
        """
        if len(inputs) > 1 and issubclass(lookup(op_name), Elementwise):
            first = inputs[0].details.plain_dims
            if any(x.details.plain_dims != first for x in inputs):
                dims = np.broadcast_shapes(*(x.details.plain_dims for x in inputs))
                inputs = tuple(self.broadcast(x, dims) for x in inputs)
        return super().outputs(op_name, *inputs, **attrs)

    def constant(self, value: Any, dtype: DType = S64) -> GraphTensor:
        """A constant of this type."""
        with np.errstate(all="ignore"):
            array = np.asarray(value).astype(dtype.numpy)
        self.check_array(array.shape)
        return self.owner.make_constant(array, f"{self.name}.constant")

    def reshaped(self, x: GraphTensor, dims: Sequence[Size]) -> GraphTensor:
        """X in another shape; reshapes of reshapes are one, or none."""
        if x.producer_owner.op_name == "reshape":
            x = x.producer_owner.inputs[0]
        return super().reshaped(x, dims)

    def broadcast(self, x: GraphTensor, dims: Sequence[Size]) -> GraphTensor:
        """X repeated to a shape as NumPy does."""
        if x.details.plain_dims == tuple(dims):
            return x
        return self.make("broadcast", x, shape=tuple(dims))

    def is_clamped(self, x: GraphTensor, most: int) -> bool:
        """Return whether every element of x is known to lie in [0, most]."""
        value = self.known(x)
        if value is not None:
            return not value.size or bool(value.min() >= 0 and value.max() <= most)
        limits = clamp_limits(x, self.known)
        return limits is not None and limits[0] >= 0 and limits[1] <= most


Handler = Callable[[Step], Any]
"""Imports one kind of instruction: its value."""


def _braces(numbers: Sequence[int]) -> str:
    return f"{{{','.join(map(str, numbers))}}}"
