"""Instructions of the safe dialect of HLO text: `%` names, shapes with layouts, full literals, one per line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ...base.dtypes import DType
from ...base.errors import InternalError
from ...base.records import dataclass
from ...graph_ir.ir.graph import Array, Graph, GraphTensor, Op
from ...graph_ir.ops.elementwise import Elementwise
from ...graph_ir.rewriting.known_values import Known
from ..correspondence.writing import ExportFrame, Named, NameTable, Write
from .literal_text import write_literal
from .opcodes import OPCODES
from .shapes import DTYPES, HLO_NAMES, Layout, Shape, tuple_shape

_NAME = re.compile(r"[^A-Za-z0-9_.-]")


def shape_of(dtype: DType, dims: Sequence[int]) -> Shape:
    """A shape in row-major layout."""
    layout = Layout(tuple(range(len(dims)))[::-1]) if dims else None
    return Shape(HLO_NAMES[dtype], tuple(dims), layout)


@dataclass(frozen=True, slots=True)
class Value:
    """An instruction that has been written: its name and shape."""

    name: str
    shape: Shape

    @property
    def dims(self) -> tuple[int, ...]:
        """The sizes."""
        return self.shape.dims

    @property
    def dtype(self) -> DType:
        """The element type."""
        return DTYPES[self.shape.type]

    def __str__(self) -> str:
        return f"{self.shape} %{self.name}"


def tuple_of(values: Iterable[Value]) -> Shape:
    """The shape of a tuple of these."""
    return tuple_shape(tuple(v.shape for v in values))


class Writer(ExportFrame[Value]):
    """The instructions of one computation; `bodies` are the computations that the module has so far."""

    format_name = "HLO"

    def __init__(
        self, graph: Graph, writers: Mapping[str, Write], bodies: dict[str, str] | None = None
    ) -> None:
        super().__init__(graph, writers)
        self.lines: dict[str, str] = {}
        self.bodies: dict[str, str] = {} if bodies is None else bodies
        self.values: dict[GraphTensor, Value] = {}
        self.known = Known()
        self._names = NameTable(joint=".")
        self._constants: dict[tuple[Shape, str], Value] = {}

    # Computations.

    def module(self) -> str:
        """The whole text."""
        parameters = self.parameters()
        root = self.tuple(self.results(parameters), "result")
        entry = self.computation("ENTRY %main", parameters, root)
        return (
            "\n\n".join([f"HloModule {_clean(self.graph.name)}", *self.bodies.values(), entry])
            + "\n"
        )

    def parameters(self) -> list[Value]:
        """An instruction for each input of the graph."""
        details = [(op.name, op.outputs[0].details) for op in self.graph.inputs]
        shapes = [(name, shape_of(x.dtype, x.plain_dims)) for name, x in details]
        return [self.add(f"parameter({i})", shape, name) for i, (name, shape) in enumerate(shapes)]

    def results(self, inputs: Sequence[Value]) -> list[Value]:
        """Write every op, with these values for the graph's inputs; its results."""
        self.values.update(zip((op.outputs[0] for op in self.graph.inputs), inputs, strict=True))
        self.write_ops(self.graph)
        return [self.operand(op.inputs[0]) for op in self.graph.outputs]

    def computation(self, head: str, parameters: Sequence[Value], root: Value) -> str:
        """The text of the computation that these instructions are."""
        signature = ", ".join(f"{v.name}: {v.shape}" for v in parameters)
        lines = [
            f"  {'ROOT ' if name == root.name else ''}%{name} = {text}"
            for name, text in self.lines.items()
        ]
        return "\n".join([f"{head} ({signature}) -> {root.shape} {{", *lines, "}"])

    def inner(self, graph: Graph) -> Writer:
        """A writer for another computation of the module."""
        inner = Writer(graph, self.writers, self.bodies)
        inner.failures = self.failures
        return inner

    def define(
        self, inner: Writer, parameters: Sequence[Value], root: Value, name: str = ""
    ) -> str:
        """Add a computation to the module; its name."""
        name = name or f"body.{len(self.bodies)}"
        self.bodies[name] = inner.computation(f"%{name}", parameters, root)
        return f"%{name}"

    def body(self, combine: str, dtype: DType) -> str:
        """The name of the computation that combines two elements; "none" gives the second."""
        opcode = OPCODES.get(combine, "second")
        name = f"{opcode}_{HLO_NAMES[dtype]}"
        if name in self.bodies:
            return f"%{name}"
        inner, scalar = self.inner(Graph()), shape_of(dtype, ())
        a, b = (inner.add(f"parameter({i})", scalar, letter) for i, letter in enumerate("ab"))
        root = b if combine == "none" else inner.apply(opcode, [a, b], dtype, (), "r")
        return self.define(inner, [a, b], root, name)

    def scalar_body(self, graph: Graph) -> str:
        """The name of the computation that a graph of scalars becomes; of several results it makes a tuple."""
        inner = self.inner(graph)
        parameters = inner.parameters()
        results = inner.results(parameters)
        root = results[0] if len(results) == 1 else inner.tuple(results, "result")
        return self.define(inner, parameters, root)

    # Ops.

    def write_op(self, op: Op) -> None:
        """The instructions of an op; a writer gives the value of the first output, or binds all."""
        if op.kind in ("source", "sink") or _only_spreads(op):
            return
        write = self.writers.get(op.op_name, self.writers[""])
        value = write(self, op)
        if isinstance(value, Value):
            self.values[op.outputs[0]] = value

    def bind_unknown(self, op: Op) -> None:
        """Values that no instruction gives."""
        for y in op.outputs:
            self.values[y] = Value(op.name, shape_of(y.details.dtype, y.details.plain_dims))

    def bind(self, op: Op, values: Sequence[Value]) -> None:
        """The values of all outputs."""
        self.values.update(zip(op.outputs, values, strict=False))

    def operand(self, tensor: GraphTensor) -> Value:
        """Return the value written for a tensor; a constant is written when it is first read."""
        if tensor not in self.values:
            op = tensor.producer_owner
            if not op.is_constant:
                raise InternalError(f"{op.op_name} '{op.name}' was not written before it is read")
            self.values[tensor] = self.constant(op.attr("value"), tensor.details.dtype, op.name)
        return self.values[tensor]

    def operands(self, op: Op) -> list[Value]:
        """Return the values written for all inputs of an op."""
        return [self.operand(x) for x in op.inputs]

    def emit(self, op: Op, type_name: str, operands: Named[Value], attrs: dict[str, Any]) -> Value:
        """The instruction of an op; operands of elementwise ones are broadcast to the result."""
        details = op.outputs[0].details
        values = [value for _, value in operands if value is not None]
        if isinstance(op, Elementwise):
            values = [self.broadcast(value, details.plain_dims) for value in values]
        return self.apply(type_name, values, details.dtype, details.plain_dims, op.name, **attrs)

    def attribute(self, kind: str, value: Any) -> Any:
        """One axis is a list."""
        return [value] if kind == "axis" else value

    # Instructions.

    def add(self, operation: str, shape: Shape, name: str) -> Value:
        """One instruction."""
        made = Value(self._names.unique(_clean(name)), shape)
        self.lines[made.name] = f"{shape} {operation}"
        return made

    def operation(self, opcode: str, operands: Iterable[Value], **attributes: Any) -> str:
        """`opcode(operands), attributes`: integers in a sequence in braces; what is None is left out."""
        given = [
            f", {key}={_text(value)}" for key, value in attributes.items() if value is not None
        ]
        return f"{opcode}({', '.join(map(str, operands))}){''.join(given)}"

    def apply(
        self,
        opcode: str,
        operands: Sequence[Value],
        dtype: DType,
        dims: Sequence[int],
        name: str = "",
        **attributes: Any,
    ) -> Value:
        """One instruction that gives an array."""
        operation = self.operation(opcode, operands, **attributes)
        return self.add(operation, shape_of(dtype, dims), name or opcode)

    def same(self, opcode: str, *operands: Value, **attributes: Any) -> Value:
        """An instruction whose result has the type and sizes of its last operand."""
        last = operands[-1]
        return self.apply(opcode, operands, last.dtype, last.dims, **attributes)

    def tuple(self, values: Sequence[Value], name: str = "tuple") -> Value:
        """A tuple of values."""
        return self.add(self.operation("tuple", values), tuple_of(values), name)

    def elements(self, value: Value) -> list[Value]:
        """The elements of a tuple."""
        return [
            self.add(self.operation("get-tuple-element", [value], index=i), shape, "element")
            for i, shape in enumerate(value.shape.elements)
        ]

    def constant(self, value: object, dtype: DType, name: str = "constant") -> Value:
        """A constant; scalars of one value are written once."""
        array: Array = np.asarray(value).astype(dtype.numpy)
        shape, text = shape_of(dtype, array.shape), write_literal(array)
        if array.ndim:
            return self.add(f"constant({text})", shape, name)
        if (shape, text) not in self._constants:
            self._constants[shape, text] = self.add(f"constant({text})", shape, name)
        return self._constants[shape, text]

    def cast(self, x: Value, dtype: DType, name: str = "") -> Value:
        """X in another type."""
        return x if x.dtype == dtype else self.apply("convert", [x], dtype, x.dims, name)

    def reshape(self, x: Value, dims: Sequence[int], name: str = "") -> Value:
        """X in another shape."""
        return x if x.dims == tuple(dims) else self.apply("reshape", [x], x.dtype, dims, name)

    def broadcast(self, x: Value, dims: Sequence[int], name: str = "") -> Value:
        """X repeated as NumPy does: axes of size 1 are removed, the others keep their order."""
        dims = tuple(dims)
        if x.dims == dims:
            return x
        offset = len(dims) - len(x.dims)
        kept = [i for i, size in enumerate(x.dims) if size == dims[i + offset]]
        x = self.reshape(x, [x.dims[i] for i in kept])
        axes = [i + offset for i in kept]
        return self.apply("broadcast", [x], x.dtype, dims, name, dimensions=axes)

    def spread(self, op: Op) -> Value:
        """The instruction of a broadcast."""
        tensor, dims = op.inputs[0], op.outputs[0].details.plain_dims
        if not _only_spreads(tensor.producer_owner):
            return self.broadcast(self.operand(tensor), dims, op.name)
        x = self.operand(tensor.producer_owner.inputs[0])
        offset = len(dims) - tensor.details.rank
        kept = [i + offset for i, size in enumerate(tensor.details.plain_dims) if size != 1]
        return self.apply("broadcast", [x], x.dtype, dims, op.name, dimensions=kept)

    def take(self, x: Value, indices: Value, axis: int, name: str = "") -> Value:
        """X with `axis` replaced by the axes of `indices`, which HLO clamps."""
        count = len(indices.dims)
        dims = (*x.dims[:axis], *indices.dims, *x.dims[axis + 1 :])
        return self.apply(
            "gather",
            [x, indices],
            x.dtype,
            dims,
            name,
            offset_dims=[i for i in range(len(dims)) if not axis <= i < axis + count],
            collapsed_slice_dims=[axis],
            start_index_map=[axis],
            index_vector_dim=count,
            slice_sizes=[1 if i == axis else size for i, size in enumerate(x.dims)],
        )


def _text(value: Any) -> str:
    listed = isinstance(value, (list, tuple, range))
    return f"{{{','.join(map(str, value))}}}" if listed else str(value)


def _only_spreads(op: Op) -> bool:
    """Return whether a reshape only adds axes of size 1 for broadcasts, which in HLO name their axes instead."""
    if op.op_name != "reshape" or not op.outputs[0].uses:
        return False
    sizes = [[d for d in t.details.plain_dims if d != 1] for t in (op.inputs[0], op.outputs[0])]
    return sizes[0] == sizes[1] == list(op.inputs[0].details.plain_dims) and all(
        user.op_name == "broadcast" for _, user in op.outputs[0].uses
    )


def _clean(name: str) -> str:
    cleaned = _NAME.sub("_", name)
    return cleaned if cleaned[:1].isalpha() or cleaned[:1] == "_" else f"_{cleaned}"
