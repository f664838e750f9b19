"""Imports HLO as a Graph: inlines calls, flattens tuples, and maps every instruction of the entry to ops of the
Graph IR."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from types import MappingProxyType
from typing import Any

import numpy as np

from ...base.collector import paused_collector
from ...base.dims import NeedsLimit
from ...base.errors import GraphcError, InternalError, UnsupportedError, UserError
from ...base.symbols import Limits
from ...base.unequal_sizes import recording_unequal
from ...graph_ir.ir.graph import Array, Graph, GraphTensor, Op
from ...graph_ir.ir.logical_tensor import LogicalTensor
from ...graph_ir.ir.note import MODEL_VALUES
from ...graph_ir.rewriting.known_values import Known
from ..correspondence.compositions.complex_numbers import Complex
from ..shape_spec import InputSpecs, check_size
from .bounded_sizes import ParameterTypes
from .collectives import sends_first
from .complex_numbers import complex_value, is_complex
from .op_table import HANDLERS, MAPPED
from .parser import parse_hlo
from .scope import Step
from .serialized import read_module
from .shapes import DTYPES, NUMPY, Shape
from .supported import OWN, check_supported, foreign
from .syntax import Computation, Instruction, Literal, Module, Operand
from .values import built, fits, flattened, restored, shape_of

MAX_INLINED = 2_000_000
"""Limit on a module's instructions after inlining."""

_MAX_CALLS = 64  # computations called from one another
_WHO = re.compile(r"\A[\w.-]+ '[^']*': ")  # in front of an op's message


def load_hlo(
    source: str | os.PathLike[str] | bytes,
    specs: InputSpecs | None = None,
    constants: Mapping[str, Array] | None = None,
    limits: Limits = MappingProxyType({}),
) -> Graph:
    """Read HLO text, a file or its bytes; where jaxlib is installed also StableHLO, files of jax.export and HLO protos.

    `constants`: arrays the text leaves out, by instruction name.

    HLO contains every shape: `specs` can only name, bound or fix those of parameters that it writes as a bound, `<=8`,
    and must fix those of StableHLO that are symbolic (parameters are arg0, arg1, ...);
    `limits` are what such sizes must be, by name. Raise UserError for errors in the text, UnsupportedError for
    everything not handled, in one message.
    """
    given = dict(specs or {})
    text, label = read_module(source, given)
    return import_hlo(parse_hlo(text, label), constants, given, limits)


@paused_collector()
def import_hlo(
    module: Module,
    constants: Mapping[str, Array] | None = None,
    specs: InputSpecs | None = None,
    limits: Limits = MappingProxyType({}),
) -> Graph:
    """The graph of a module's entry. Arguments as in `load_hlo`."""
    check_supported(module)
    importer = _Importer(module, dict(constants or {}))
    entry = module.computations[module.entry]
    types = ParameterTypes(f"graph '{module.name}'", specs or {}, limits)
    arguments = [_argument(importer, p, types) for p in entry.parameters]
    types.check_names()
    with recording_unequal():  # the text says all sizes and bounds, so that none are to be assumed
        result = importer.inline(entry, arguments)
    importer.raise_collected()
    _Importer(module, importer.constants, importer.checked).check_unused()
    for name, tensor in _results(entry, result):
        importer.graph.make_output(tensor, name)
    _tidy(importer.graph)
    MODEL_VALUES.set(importer.graph, importer.named)
    return importer.graph


def _tidy(graph: Graph) -> None:
    """Remove ops that no output needs, and move each constant before its first user, where HLO text has it."""
    live: set[int] = set()
    waiting: list[Op] = list(graph.outputs)
    while waiting:
        op = waiting.pop()
        if id(op) not in live:
            live.add(id(op))
            waiting.extend(x.producer_owner for x in op.inputs)
    graph.remove([op for op in graph.ops if id(op) not in live and not op.is_input])
    ordered: dict[int, Op] = {}
    for op in graph.ops:
        if not op.is_constant:
            for tensor in op.inputs:
                ordered.setdefault(id(tensor.producer_owner), tensor.producer_owner)
            ordered[id(op)] = op
    graph.ops = list(ordered.values())
    graph.renumber()


def _argument(
    importer: _Importer, parameter: Instruction, types: Callable[[Shape, str], LogicalTensor]
) -> Any:
    """The graph's inputs for one parameter, of these types: several for a tuple."""

    def make(shape: Shape, name: str) -> GraphTensor:
        return importer.graph.make_input(types(shape, name), name)

    if parameter.shape is None:
        message = f"parameter '{parameter.name}': its shape must be written"
        raise importer.module.origin.error(message, parameter.position)
    return built(parameter.shape, make, parameter.name)


def _at_bounds(shape: Shape, name: str) -> LogicalTensor:
    """The type of a parameter of a computation that is checked alone, where bounds are sizes."""
    check_size(f"parameter '{name}'", DTYPES[shape.type], shape.dims)
    return LogicalTensor(DTYPES[shape.type], shape.dims)


def _results(entry: Computation, result: Any) -> Iterator[tuple[str, GraphTensor]]:
    """(name, tensor) of each output; those of a tuple are named after the root and their position."""

    def walk(value: Any, name: str) -> Iterator[tuple[str, GraphTensor]]:
        if isinstance(value, tuple):
            for index, part in enumerate(value):
                yield from walk(part, f"{name}.{index}")
        elif isinstance(value, Complex):
            yield from ((f"{name}.real", value.real), (f"{name}.imag", value.imag))
        else:
            yield name, value

    return walk(result, entry.root)


class _Importer:
    """Inlines computations into one graph; what is not supported is collected and raised together.

    The shapes of a computation's instructions are checked when it is first imported.
    """

    def __init__(
        self,
        module: Module,
        constants: dict[str, Array],
        checked: dict[str, dict[str, Shape]] | None = None,
    ) -> None:
        self.module = module
        self.is_checking = checked is not None
        self.checked = checked or {}
        """The shapes of the instructions of computations that have been imported."""
        self.graph = Graph(module.name)
        self.known = Known()
        self.constants = constants
        self.depth = 0
        self.is_inside = False
        self.count = 0
        self.sent: dict[tuple[int, int], GraphTensor] = {}
        self.unsupported: list[str] = []
        self.elided: list[str] = []
        self._scalars: dict[tuple[str, bytes], GraphTensor] = {}
        self._subgraphs: dict[Hashable, tuple[Graph, int]] = {}
        """Import the computations and return the ops made, with the instructions in them."""
        self.named: dict[str, str] = {}  # of the entry, for tools that compare value by value

    def inline(self, computation: Computation, arguments: Sequence[Any]) -> Any:
        """The value of a computation for these arguments."""
        if self.is_checking and self.depth:
            return self._placeholder(self.shapes(computation)[computation.root])
        return self._run(computation, arguments, is_mapped=False)

    def inline_mapped(self, computation: Computation, arguments: Sequence[Any]) -> Any:
        """The value of a scalar computation applied to every element of its arguments."""
        self.shapes(computation)
        for i in computation.instructions:
            if i.opcode not in MAPPED and i.opcode not in OWN:
                raise self.module.origin.error(
                    f"{i.opcode} '{i.name}': it is not supported in a scalar computation",
                    i.position,
                    UnsupportedError,
                )
        return self._run(computation, arguments, is_mapped=True)

    def shapes(self, computation: Computation) -> dict[str, Shape]:
        """The shapes of a computation's instructions, checked by an import of their own if there was none yet."""
        if computation.name not in self.checked:
            with self._separate(computation.name):
                arguments = [_argument(self, p, _at_bounds) for p in computation.parameters]
                self._run(computation, arguments, is_mapped=False)
        return self.checked[computation.name]

    def check_unused(self) -> None:
        """Check computations that have not been imported, those of supported opcodes and types."""
        for computation in self.module.computations.values():
            if computation.name not in self.checked and not any(foreign([computation])):
                self.shapes(computation)

    def handle(self, step: Step) -> Any:
        """The value of an instruction, which is not part of a scalar computation."""
        return complex_value(step, HANDLERS) if is_complex(step) else HANDLERS[step.type](step)

    def building(self, graph: Graph) -> AbstractContextManager[Graph]:
        """Import into this graph, the body of a loop, meanwhile."""
        return self._into(graph, is_inside=True)

    def _separate(self, name: str, is_inside: bool = False) -> AbstractContextManager[Graph]:
        """Build into another graph meanwhile."""
        return self._into(Graph(name), is_inside)

    @contextmanager
    def _into(self, graph: Graph, is_inside: bool) -> Iterator[Graph]:
        outer = self.graph, self._scalars, self.is_inside
        self.graph, self._scalars, self.is_inside = graph, {}, is_inside or self.is_inside
        try:
            yield self.graph
        finally:
            self.graph, self._scalars, self.is_inside = outer

    def subgraph(
        self, computation: Computation, arguments: Sequence[Any], number: int = 0
    ) -> Graph:
        """A computation as a graph whose inputs have the types of all arguments, of which it uses `number`.

        Made once for the same types, as branches that name each other double with each level; no pass changes it.
        """
        details = tuple(x.details for x in flattened(tuple(arguments)))
        key = (computation.name, number, shape_of(tuple(arguments)).logical(), details)
        if key not in self._subgraphs:
            before = self.count
            made = self._subgraph(computation, arguments, number)
            self._subgraphs[key] = made, self.count - before
        else:
            self._add_count(self._subgraphs[key][1])
        return self._subgraphs[key][0]

    def _subgraph(self, computation: Computation, arguments: Sequence[Any], number: int) -> Graph:
        with self._separate(computation.name, is_inside=True) as graph:
            inputs = [graph.make_input(x.details, x.name) for x in flattened(tuple(arguments))]
            inner = restored(shape_of(tuple(arguments)), inputs)
            for name, tensor in _results(computation, self.inline(computation, [inner[number]])):
                graph.make_output(tensor, name)
            _tidy(graph)
            graph.sort()
            return graph

    def scalar_graph(self, computation: Computation) -> Graph:
        """A scalar computation as a separate graph."""
        with self._separate(computation.name) as graph:
            arguments = [_argument(self, p, _at_bounds) for p in computation.parameters]
            for name, tensor in _results(computation, self.inline_mapped(computation, arguments)):
                graph.make_output(tensor, name)
            _tidy(graph)
            return graph

    def raise_collected(self) -> None:
        """Raise the errors collected."""
        if self.elided:
            names = ", ".join(f"'{name}'" for name in dict.fromkeys(self.elided))
            raise UserError(
                f"{self.module.origin.label}: the text leaves out the elements of these constants: "
                f"{names}; give arrays for them with constants="
            )
        if self.unsupported:
            raise UnsupportedError("; ".join(dict.fromkeys(self.unsupported)))

    def _add_count(self, count: int) -> None:
        """Count instructions. Raise UserError if calls make too many of them, or are too deep."""
        self.count += count
        if self.depth > _MAX_CALLS or self.count > MAX_INLINED:
            what = (
                f"calls nested deeper than {_MAX_CALLS}"
                if self.depth > _MAX_CALLS
                else f"more than {MAX_INLINED} instructions after inlining"
            )
            raise UserError(f"{self.module.origin.label}: a module must not have {what}")

    def _run(self, computation: Computation, arguments: Sequence[Any], is_mapped: bool) -> Any:
        self.depth += 1
        self._add_count(len(computation.instructions))
        known = self.checked.get(computation.name)
        shapes: dict[str, Shape] = {} if known is None else known
        values: dict[str, Any] = {}
        for instruction in sends_first(computation):
            value = self._value(instruction, values, arguments, shapes, is_mapped, known is None)
            values[instruction.name] = value
            if known is None:
                shapes[instruction.name] = self._checked(instruction, value)
            if self.depth == 1 and isinstance(value, GraphTensor):
                self.named[instruction.name] = value.name
        if known is None:
            self._check_signature(computation, shapes)
            self.checked[computation.name] = shapes
        self.depth -= 1
        return values[computation.root]

    def _value(
        self,
        instruction: Instruction,
        values: dict[str, Any],
        arguments: Sequence[Any],
        shapes: dict[str, Shape],
        is_mapped: bool,
        is_first: bool,
    ) -> Any:
        if instruction.opcode == "parameter":
            return arguments[instruction.number]
        if instruction.literal is not None:
            return self._constant(instruction)
        try:
            operands = [
                _operand(o, values[o.name], shapes[o.name] if is_first else None)
                for o in instruction.operands
            ]
            step = Step(self, instruction, operands, shapes, is_mapped)
            if not is_mapped:
                return self.handle(step)
            return complex_value(step, MAPPED) if is_complex(step) else MAPPED[step.type](step)
        except NeedsLimit:
            raise  # the module is read again with it
        except UnsupportedError as error:
            failure = self._placed(instruction, error)
            if instruction.shape is None:
                raise failure from error
            self.unsupported.append(str(failure))  # continue, to report all at once
            return self._placeholder(instruction.shape)
        except GraphcError as error:
            raise self._placed(instruction, error) from error

    def _placed(self, instruction: Instruction, error: GraphcError) -> GraphcError:
        """The error with the instruction's name and its line in front."""
        text = str(error)
        if text.startswith(self.module.origin.label) or isinstance(error, InternalError):
            return error
        who = f"{instruction.opcode} '{instruction.name}': "
        message = who + _WHO.sub("", text, count=1)
        return error.said(str(self.module.origin.error(message, instruction.position)))

    def _checked(self, instruction: Instruction, value: Any) -> Shape:
        """The written shape, which must be that of the value; the latter where none is written."""
        written = instruction.shape
        if written is not None and fits(written, value):
            return written
        found = shape_of(value)
        if written is None:
            return found
        message = f"its shape must be {found.logical()}, got {written.logical()}"
        raise self._placed(instruction, UserError(message))

    def _check_signature(self, computation: Computation, shapes: dict[str, Shape]) -> None:
        """The written result is that of the body; written parameters are comments, as in XLA's parser."""
        if computation.signature is None:
            return
        wanted, got = computation.signature[1], shapes[computation.root]
        if not wanted.matches(got):
            raise self.module.origin.error(
                f"computation '{computation.name}': its result must be {wanted.logical()} as in its signature, "
                f"got {got.logical()}",
                computation.position,
            )

    def _placeholder(self, shape: Shape) -> Any:
        def zeros(shape: Shape, _: str) -> GraphTensor:
            zero = self.graph.make_constant(np.zeros((), DTYPES[shape.type].numpy))
            return self.graph.make("broadcast", (zero,), {"shape": shape.dims}).outputs[0]

        return built(shape, zeros)

    def _constant(self, instruction: Instruction) -> Any:
        literal, shape = instruction.literal, instruction.shape
        assert literal is not None and shape is not None
        if literal.is_elided:
            given = self.constants.get(instruction.name)
            if given is None:
                self.elided.append(instruction.name)
                return self._placeholder(shape)
            return self._supplied(instruction, np.asarray(given))
        return self._literal(literal, instruction.name)

    def _supplied(self, instruction: Instruction, array: Array) -> Any:
        shape = instruction.shape
        assert shape is not None
        if shape.is_tuple or array.shape != shape.dims or array.dtype != NUMPY[shape.type]:
            raise UserError(
                f"constant '{instruction.name}' must be {shape.logical()}, "
                f"got an array {array.dtype}{list(array.shape)}"
            )
        return self._array(array, instruction.name)

    def _literal(self, literal: Literal, name: str) -> Any:
        if isinstance(literal.value, tuple):
            return tuple(self._literal(part, f"{name}.{i}") for i, part in enumerate(literal.value))
        assert literal.value is not None
        return self._array(literal.value, name)

    def _array(self, array: Array, name: str) -> Any:
        """A constant; complex numbers as two."""
        if array.dtype.kind != "c":
            return self.make_constant(array, name)
        parts = {"real": array.real, "imag": array.imag}
        return Complex(*(self.make_constant(x.copy(), f"{name}.{k}") for k, x in parts.items()))

    def make_constant(self, array: Array, name: str) -> GraphTensor:
        """A constant of the graph; scalars of one value are one."""
        if array.ndim:
            return self.graph.make_constant(array, name)
        key = (array.dtype.name, array.tobytes())
        if key not in self._scalars:
            self._scalars[key] = self.graph.make_constant(array, name)
        return self._scalars[key]


def _operand(operand: Operand, value: Any, shape: Shape | None) -> Any:
    """The operand: an element of a value, or the value itself where there is no path.

    The written shape is checked where the shape of the value is given.
    """
    name, path, written = operand
    for index in path:
        if not isinstance(value, tuple) or not 0 <= index < len(value):
            raise UserError(
                f"'{name}' of shape {shape_of(value).logical()} must have the element {index}"
            )
        value = value[index]
    if written is None or shape is None or (written is shape and not path):
        return value
    if not fits(written, value):
        found = shape_of(value).logical()
        raise UserError(f"operand '{name}' must be written as {found}, got {written.logical()}")
    return value
