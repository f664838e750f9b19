"""Imports HLO as a Graph: inlines calls, flattens tuples, and maps every instruction of the entry to ops of the Graph
IR."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...base.errors import GraphcError, InternalError, UnsupportedError, UserError
from ...graph_ir.ir.graph import Array, Graph, GraphTensor, Op
from ...graph_ir.ir.logical_tensor import LogicalTensor
from ..collector import collector_paused
from ..shape_spec import InputSpec, check_size
from .op_table import HANDLERS, MAPPABLE
from .parser import parse_hlo
from .scope import Known, Step, flattened, restored
from .shapes import DTYPES, UNBOUNDED, Shape
from .syntax import Called, Computation, Instruction, Literal, Module

MOST_INLINED = 2_000_000
"""Limit on a module's instructions after inlining."""

_MOST_CALLS = 64  # computations called from one another
_OWN = ("parameter", "constant")


def load_hlo(
    source: str | os.PathLike[str] | bytes,
    specs: Mapping[str, InputSpec] | None = None,
    constants: Mapping[str, Array] | None = None,
) -> Graph:
    """Read HLO text, a file or its bytes. `constants`: arrays the text leaves out, by instruction name.

    HLO contains every shape: `specs` can only repeat them. UserError for errors in the text, UnsupportedError for
    everything not handled, in one message.
    """
    text, label = read_text(source)
    graph = import_hlo(parse_hlo(text, label), constants)
    declared = {op.name: op.outputs[0].details for op in graph.inputs}
    for name, spec in (specs or {}).items():
        if name not in declared:
            known = ", ".join(f"'{n}'" for n in declared) or "none"
            raise UserError(f"{label}: there is no input '{name}'; the inputs are {known}")
        if (spec.dtype, spec.dims) != (declared[name].dtype, declared[name].plain_dims):
            raise UserError(f"{label}: input '{name}' is {declared[name]} in the file, got {spec}")
    return graph


def read_text(source: str | os.PathLike[str] | bytes) -> tuple[str, str]:
    """(text, label for messages). UserError where the file cannot be read or is not text."""
    label = "model" if isinstance(source, bytes) else f"'{os.fspath(source)}'"
    try:
        if not isinstance(source, bytes) and Path(source).is_dir():
            raise UserError(f"{label} is a directory; give the HLO file in it")
        data = source if isinstance(source, bytes) else Path(source).read_bytes()
        return data.decode("utf-8-sig"), label
    except UnicodeDecodeError as error:
        raise UserError(f"{label} is not HLO text: byte {error.start} is not UTF-8") from error
    except FileNotFoundError as error:
        raise UserError(f"{label} does not exist") from error
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = getattr(error, "strerror", None) or str(error)
        raise UserError(f"{label} cannot be read: {reason}") from error


@collector_paused()
def import_hlo(module: Module, constants: Mapping[str, Array] | None = None) -> Graph:
    """The graph of a module's entry. `constants` as in `load_hlo`."""
    _check_supported(module)
    importer = _Importer(module, dict(constants or {}))
    entry = module.computations[module.entry]
    arguments = [_argument(importer, p) for p in entry.parameters]
    result = importer.inline(entry, arguments)
    importer.raise_collected()
    for name, tensor in _results(entry, result):
        importer.graph.make_output(tensor, name)
    _tidy(importer.graph)
    importer.graph.attrs["temp.values"] = importer.named
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
    graph.remove([op for op in graph.ops if id(op) not in live and op.op_name != "input"])
    ordered: dict[int, Op] = {}
    for op in graph.ops:
        if op.op_name != "constant":
            for tensor in op.inputs:
                ordered.setdefault(id(tensor.producer_owner), tensor.producer_owner)
            ordered[id(op)] = op
    graph.ops = list(ordered.values())
    graph.renumber()


def _argument(importer: _Importer, parameter: Instruction) -> Any:
    """The graph's inputs for one parameter: several for a tuple."""

    def make(shape: Shape, name: str) -> Any:
        if shape.is_tuple:
            return tuple(make(e, f"{name}.{i}") for i, e in enumerate(shape.elements))
        if shape.type == "token":
            return ()
        who = f"parameter '{name}'"
        check_size(who, DTYPES[shape.type], shape.dims)
        return importer.graph.make_input(LogicalTensor(DTYPES[shape.type], shape.dims), name)

    assert parameter.shape is not None
    return make(parameter.shape, parameter.name)


def _results(entry: Computation, result: Any) -> Iterator[tuple[str, GraphTensor]]:
    """(name, tensor) of each output; those of a tuple are named after the root and their position."""

    def walk(value: Any, name: str) -> Iterator[tuple[str, GraphTensor]]:
        if isinstance(value, tuple):
            for index, part in enumerate(value):
                yield from walk(part, f"{name}.{index}")
        else:
            yield name, value

    return walk(result, entry.root)


def _reachable(module: Module) -> Iterator[Computation]:
    """The entry and everything it calls, each once."""
    waiting, seen = [module.entry], {module.entry}
    while waiting:
        computation = module.computations[waiting.pop()]
        yield computation
        for instruction in computation.instructions:
            for value in instruction.attributes.values():
                for called in value if isinstance(value, tuple) else (value,):
                    if isinstance(called, Called) and called.name not in seen:
                        seen.add(called.name)
                        waiting.append(called.name)


def _check_supported(module: Module) -> None:
    """UnsupportedError with every opcode and element type that is not handled."""
    opcodes: Counter[str] = Counter()
    types: Counter[str] = Counter()
    for computation in _reachable(module):
        for instruction in computation.instructions:
            if instruction.opcode not in HANDLERS and instruction.opcode not in _OWN:
                opcodes[instruction.opcode] += 1
            types.update(_foreign_types(instruction.shape))
    found = [
        f"these {what} are not supported: "
        + ", ".join(f"{name} ({count}x)" for name, count in sorted(counted.items()))
        for what, counted in (("opcodes", opcodes), ("element types", types))
        if counted
    ]
    if found:
        raise UnsupportedError(f"{module.origin.label}: {'; '.join(found)}")


def _foreign_types(shape: Shape | None) -> Iterator[str]:
    if shape is None:
        return
    if shape.is_tuple:
        for element in shape.elements:
            yield from _foreign_types(element)
    elif shape.type not in DTYPES and shape.type != "token":
        yield shape.type
    elif UNBOUNDED in shape.dims:
        yield shape.logical()


class _Importer:
    """Inlines computations into one graph; what is not supported is collected and raised together."""

    def __init__(self, module: Module, constants: dict[str, Array]) -> None:
        self.module = module
        self.graph = Graph(module.name)
        self.known = Known()
        self.constants = constants
        self.depth = 0
        self.is_inside = False
        self.count = 0
        self.unsupported: list[str] = []
        self.elided: list[str] = []
        self._shapes: dict[str, dict[str, Shape]] = {}
        self._scalars: dict[tuple[str, bytes], GraphTensor] = {}
        self.named: dict[str, str] = {}  # of the entry, for tools that compare value by value

    def inline(self, computation: Computation, arguments: Sequence[Any]) -> Any:
        """The value of a computation for these arguments."""
        return self._run(computation, arguments, is_mapped=False)

    def inline_mapped(self, computation: Computation, arguments: Sequence[Any]) -> Any:
        """The value of a scalar computation applied to every element of its arguments."""
        for i in computation.instructions:
            if i.opcode not in MAPPABLE and i.opcode not in _OWN:
                raise self.module.origin.error(
                    f"{i.opcode} '{i.name}': it is not supported in a scalar computation",
                    i.place,
                    UnsupportedError,
                )
        return self._run(computation, arguments, is_mapped=True)

    def subgraph(
        self, computation: Computation, arguments: Sequence[Any], number: int = 0
    ) -> Graph:
        """A computation as a graph whose inputs have the types of all arguments, of which it uses `number`."""
        outer = self.graph, self._scalars, self.is_inside
        self.graph, self._scalars, self.is_inside = Graph(computation.name), {}, True
        try:
            inputs = [self.graph.make_input(x.details, x.name) for x in flattened(tuple(arguments))]
            inner = restored(tuple(arguments), inputs)
            for name, tensor in _results(computation, self.inline(computation, [inner[number]])):
                self.graph.make_output(tensor, name)
            _tidy(self.graph)
            self.graph.sort()
            return self.graph
        finally:
            self.graph, self._scalars, self.is_inside = outer

    def scalar_graph(self, computation: Computation) -> Graph:
        """A scalar computation as a separate graph."""
        outer = self.graph, self._scalars
        self.graph, self._scalars = Graph(computation.name), {}
        try:
            arguments = [_argument(self, p) for p in computation.parameters]
            for name, tensor in _results(computation, self.inline_mapped(computation, arguments)):
                self.graph.make_output(tensor, name)
            _tidy(self.graph)
            return self.graph
        finally:
            self.graph, self._scalars = outer

    def raise_collected(self) -> None:
        """Raise the errors collected."""
        if self.elided:
            names = ", ".join(f"'{name}'" for name in self.elided)
            raise UserError(
                f"{self.module.origin.label}: the text leaves out the elements of these constants: "
                f"{names}; give arrays for them with constants="
            )
        if self.unsupported:
            raise UnsupportedError("; ".join(dict.fromkeys(self.unsupported)))

    def _run(self, computation: Computation, arguments: Sequence[Any], is_mapped: bool) -> Any:
        self.depth += 1
        self.count += len(computation.instructions)
        if self.depth > _MOST_CALLS or self.count > MOST_INLINED:
            what = (
                f"calls nested deeper than {_MOST_CALLS}"
                if self.depth > _MOST_CALLS
                else f"more than {MOST_INLINED} instructions after inlining"
            )
            raise UserError(f"{self.module.origin.label}: a module must not have {what}")
        shapes = self._shapes.get(computation.name)
        if shapes is None:
            shapes = {i.name: i.shape for i in computation.instructions if i.shape is not None}
            self._shapes[computation.name] = shapes
        values: dict[str, Any] = {}
        for instruction in computation.instructions:
            if instruction.opcode == "parameter":
                values[instruction.name] = arguments[instruction.number]
            elif instruction.literal is not None:
                values[instruction.name] = self._constant(instruction)
            else:
                operands = [_operand(values, o.name, o.path) for o in instruction.operands]
                step = Step(self, instruction, operands, shapes, is_mapped)
                value = values[instruction.name] = self._import(step)
                if self.depth == 1 and isinstance(value, GraphTensor):
                    self.named[instruction.name] = value.name
        self.depth -= 1
        return values[computation.root]

    def _import(self, step: Step) -> Any:
        instruction = step.instruction
        try:
            value = HANDLERS[instruction.opcode](step)
            if not step.is_mapped and isinstance(value, GraphTensor):
                self._check(instruction, value)
            return value
        except UnsupportedError as error:
            # Continue, to report everything unsupported at once.
            self.unsupported.append(str(error))
            return self._placeholder(step.shape)
        except GraphcError as error:
            if str(error).startswith(self.module.origin.label) or isinstance(error, InternalError):
                raise
            raise step.fail(str(error)) from error

    def _check(self, instruction: Instruction, value: GraphTensor) -> None:
        shape = instruction.shape
        assert shape is not None
        details = value.details
        check_size(f"{instruction.opcode} '{instruction.name}'", details.dtype, details.plain_dims)
        if details.plain_dims != shape.dims or details.dtype != DTYPES[shape.type]:
            raise InternalError(
                f"{instruction.opcode} '{instruction.name}' was imported as {details}, "
                f"but is {shape.logical()}"
            )

    def _placeholder(self, shape: Shape) -> Any:
        if shape.is_tuple:
            return tuple(self._placeholder(element) for element in shape.elements)
        if shape.type == "token":
            return ()
        zero = self.graph.make_constant(np.zeros((), DTYPES[shape.type].numpy))
        return self.graph.make("broadcast", (zero,), {"shape": shape.dims}).outputs[0]

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

    def _supplied(self, instruction: Instruction, array: Array) -> GraphTensor:
        shape = instruction.shape
        assert shape is not None
        if shape.is_tuple or array.shape != shape.dims or array.dtype != DTYPES[shape.type].numpy:
            raise UserError(
                f"constant '{instruction.name}' must be {shape.logical()}, "
                f"got an array {array.dtype}{list(array.shape)}"
            )
        return self.graph.make_constant(array, instruction.name)

    def _literal(self, literal: Literal, name: str) -> Any:
        if isinstance(literal.value, tuple):
            return tuple(self._literal(part, f"{name}.{i}") for i, part in enumerate(literal.value))
        assert literal.value is not None
        return self.make_constant(literal.value, name)

    def make_constant(self, array: Array, name: str) -> GraphTensor:
        """A constant of the graph; scalars of one value are one."""
        if array.ndim:
            return self.graph.make_constant(array, name)
        key = (array.dtype.name, array.tobytes())
        if key not in self._scalars:
            self._scalars[key] = self.graph.make_constant(array, name)
        return self._scalars[key]


def _operand(values: Mapping[str, Any], name: str, path: tuple[int, ...]) -> Any:
    value = values[name]
    for index in path:
        value = value[index]
    return value
