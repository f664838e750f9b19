"""PNNX's graph API: the graph of a model file as objects that can be read, changed and written back.

    graph = graphc.pnnx.Graph.load("linear.pnnx.param")
    for op in graph.ops:
        print(op.name, op.type, [x.name for x in op.inputs], op.params, op.attrs)

Operators need not be supported by the compiler. A file that PNNX wrote is written back byte for byte the same.
"""

from __future__ import annotations

import os
from dataclasses import field
from pathlib import Path

from ..base.dtypes import from_numpy
from ..base.errors import UserError
from ..base.records import dataclass
from ..frontend.pnnx import program
from ..frontend.pnnx.param_value import (
    ParamValue,
    parameter_type,
    parse_param_value,
    print_param_value,
)
from ..frontend.pnnx.reader import read_param
from ..frontend.pnnx.weights import Weights
from ..frontend.pnnx.writer import write_files
from ..graph_ir.ir.graph import Array

__all__ = ["Attribute", "Graph", "Operand", "Operator", "Parameter"]


@dataclass
class Parameter:
    """A setting of an operator. `type`: 0 none, 1 bool, 2 int, 3 float, 4 text, 5, 6, 7 lists of these, 8 others."""

    value: ParamValue
    stored: str = field(default="None", repr=False)

    @property
    def text(self) -> str:
        """Return the text of a file parameter: the original text, unless the value has changed."""
        same = parse_param_value(self.stored) == self.value
        return self.stored if same else print_param_value(self.value)

    @property
    def type(self) -> int:
        """The code of the value's type."""
        return parameter_type(self.value)


@dataclass(eq=False)
class Attribute:
    """A weight of an operator: `data` is the array, `type` its code (1 f32, 2 f64, 3 f16, 4 i32, 5 i64, ...)."""

    data: Array

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes."""
        return self.data.shape

    @property
    def type(self) -> int:
        """The code of the element type."""
        return program.type_code(self._tensor_type.suffix)

    @property
    def _tensor_type(self) -> program.TensorType:
        return program.TensorType(self.shape, program.DTYPE_SUFFIXES[from_numpy(self.data.dtype)])


@dataclass(eq=False)
class Operand:
    """A value between operators: its one `producer`, all `consumers`, and its type where the file gives it.

    `type` is the code of the element type, 0 if unknown; dynamic dimensions of `shape` are texts (`?`).
    """

    name: str
    producer: Operator | None = None
    consumers: list[Operator] = field(default_factory=list)
    type: int = 0
    shape: tuple[int | str, ...] = ()
    params: dict[str, Parameter] = field(default_factory=dict)

    def remove_consumer(self, op: Operator) -> None:
        """Forget one use by an operator."""
        self.consumers.remove(op)

    def __repr__(self) -> str:
        return f"#{self.name}=({','.join(map(str, self.shape))}){program.type_suffix(self.type)}"


@dataclass(eq=False)
class Operator:
    """One operator. `inputnames` are the keys of its inputs, "" for those without one."""

    type: str
    name: str
    inputs: list[Operand] = field(default_factory=list)
    outputs: list[Operand] = field(default_factory=list)
    inputnames: list[str] = field(default_factory=list)
    params: dict[str, Parameter] = field(default_factory=dict)
    attrs: dict[str, Attribute] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"{self.type} {self.name}"


class Graph:
    """Operators in order, and the operands between them."""

    def __init__(self) -> None:
        self.ops: list[Operator] = []
        self.operands: list[Operand] = []

    @staticmethod
    def load(param: str | os.PathLike[str], bin: str | os.PathLike[str] | None = None) -> Graph:
        """The graph of a `.param` file and its weights (default: the `.bin` beside it). May raise UserError."""
        path = Path(param)
        weights = Weights(Path(bin) if bin is not None else path.with_suffix(".bin"))
        graph, known = Graph(), dict[str, Operand]()
        for stored in read_param(path).operators:
            graph._add(stored, known, weights)
        return graph

    def save(
        self, param: str | os.PathLike[str], bin: str | os.PathLike[str] | None = None
    ) -> None:
        """Write both files; `compile` takes the first of them. Raise UserError if they cannot be written."""
        operators = [_stored(op) for op in self.ops]
        weights = {f"{op.name}.{key}": w.data for op in self.ops for key, w in op.attrs.items()}
        path = Path(param)
        write_files(
            path, Path(bin) if bin is not None else path.with_suffix(".bin"), operators, weights
        )

    def new_operator(self, type: str, name: str) -> Operator:
        """Append an operator without operands."""
        self.ops.append(Operator(type, name))
        return self.ops[-1]

    def new_operator_before(self, type: str, name: str, cur: Operator) -> Operator:
        """Insert an operator without operands before another."""
        self.ops.insert(self.ops.index(cur), op := Operator(type, name))
        return op

    def new_operand(self, name: str) -> Operand:
        """Append an operand that nobody makes or reads yet."""
        self.operands.append(Operand(name))
        return self.operands[-1]

    def get_operand(self, name: str) -> Operand | None:
        """The operand of that name; None if there is none."""
        return next((x for x in self.operands if x.name == name), None)

    def _add(self, stored: program.Operator, known: dict[str, Operand], weights: Weights) -> None:
        op = self.new_operator(stored.type, stored.name)
        keys = {name: key for key, name in stored.keys}
        for name in stored.inputs:
            known[name].consumers.append(op)
            op.inputs.append(known[name])
            op.inputnames.append(keys.get(name, ""))
        for name in stored.outputs:
            known[name] = self.new_operand(name)
            known[name].producer = op
            op.outputs.append(known[name])
        for name, details in stored.types.items():
            if name in known:
                known[name].type, known[name].shape = (
                    program.type_code(details.suffix),
                    details.dims,
                )
        op.params = {
            key: Parameter(parse_param_value(text), text) for key, text in stored.params.items()
        }
        op.attrs = {
            key: Attribute(weights.read(op.name, key, declared))
            for key, declared in stored.attributes.items()
        }


def _stored(op: Operator) -> program.Operator:
    """The line of an operator. Raise UserError for an operand that no operator makes."""
    for x in op.inputs:
        if x.producer is None:
            raise UserError(f"{op}: operand '{x.name}' must be made by an operator, but none does")
    names = [*op.inputnames, *[""] * (len(op.inputs) - len(op.inputnames))]
    return program.Operator(
        op.type,
        op.name,
        tuple(x.name for x in op.inputs),
        tuple(x.name for x in op.outputs),
        {key: one.text for key, one in op.params.items()},
        {key: weight._tensor_type for key, weight in op.attrs.items()},
        tuple({key: x.name for key, x in zip(names, op.inputs, strict=True) if key}.items()),
        {
            x.name: program.TensorType(x.shape, program.type_suffix(x.type))
            for x in (*op.inputs, *op.outputs)
            if x.type
        },
    )
