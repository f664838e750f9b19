"""Instructions of the safe dialect of HLO text: `%` names, shapes with layouts, full literals, one per line."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from ...base.dtypes import DType
from ...graph_ir.ir.graph import Graph, GraphTensor, Op
from .known import Known
from .literal_text import write_literal
from .opcodes import OPCODES
from .shapes import HLO_NAMES

_NAME = re.compile(r"[^A-Za-z0-9_.-]")


def tuple_text(values: Sequence[Value]) -> str:
    """The shape of a tuple."""
    return f"({', '.join(v.shape for v in values)})"


def shape_text(dtype: DType, dims: Sequence[int]) -> str:
    """`f32[2,3]{1,0}`."""
    layout = f"{{{','.join(str(i) for i in reversed(range(len(dims))))}}}" if dims else ""
    return f"{HLO_NAMES[dtype]}[{','.join(map(str, dims))}]{layout}"


class Value:
    """An instruction that has been written: its name, type and sizes."""

    __slots__ = ("dims", "dtype", "name")

    def __init__(self, name: str, dtype: DType, dims: Sequence[int]) -> None:
        self.name = name
        self.dtype = dtype
        self.dims = tuple(dims)

    @property
    def shape(self) -> str:
        """The shape with its layout."""
        return shape_text(self.dtype, self.dims)


WriteOp = Callable[["Writer", Op], Value]
"""Writes the instructions of an op; the value of its first output."""


class Writer:
    """The lines of the entry and the bodies of its reductions; `write_op` writes one op and gives its first output."""

    def __init__(self, graph: Graph, write_op: WriteOp) -> None:
        self.graph = graph
        self.write_op = write_op
        self.lines: list[str] = []
        self.bodies: dict[str, str] = {}
        self.values: dict[GraphTensor, Value] = {}
        self.known = Known()
        self._names: set[str] = set()
        self._constants: dict[tuple[str, str], Value] = {}
        self._numbers: Counter[str] = Counter()

    def text(self) -> str:
        """The whole module."""
        parameters, results = self.instructions()
        shapes = ", ".join(v.shape for v in results)
        operands = ", ".join(f"{v.shape} %{v.name}" for v in results)
        self.lines.append(f"  ROOT %{self.name('result')} = ({shapes}) tuple({operands})")
        signature = ", ".join(f"{v.name}: {v.shape}" for v in parameters)
        header = f"HloModule {_clean(self.graph.name)}"
        entry = "\n".join([f"ENTRY %main ({signature}) -> ({shapes}) {{", *self.lines, "}"])
        return "\n\n".join([header, *self.bodies.values(), entry]) + "\n"

    def instructions(self) -> tuple[list[Value], list[Value]]:
        """Write every op; the parameters and the results."""
        parameters = [self.parameter(i, op) for i, op in enumerate(self.graph.inputs)]
        return parameters, self.results_of(parameters)

    def results_of(self, inputs: Sequence[Value]) -> list[Value]:
        """Write every op, with these values for the graph's inputs; its results."""
        self.values.update(zip((op.outputs[0] for op in self.graph.inputs), inputs, strict=True))
        for op in self.graph.ops:
            if op.kind not in ("source", "sink") and not _only_spreads(op):
                self.values[op.outputs[0]] = self.write_op(self, op)
        return [self.value(op.inputs[0]) for op in self.graph.outputs]

    def tuple(self, values: Sequence[Value]) -> str:
        """A tuple of values as an operand."""
        name, shape = self.name("tuple"), tuple_text(values)
        inside = ", ".join(f"{v.shape} %{v.name}" for v in values)
        self.lines.append(f"  %{name} = {shape} tuple({inside})")
        return f"{shape} %{name}"

    def elements(self, name: str, like: Sequence[Value]) -> list[Value]:
        """The elements of the tuple `name`, which are of the types and sizes of `like`."""
        parts = []
        for index, v in enumerate(like):
            part = Value(self.name("element"), v.dtype, v.dims)
            text = f"get-tuple-element({tuple_text(like)} %{name}), index={index}"
            self.lines.append(f"  %{part.name} = {part.shape} {text}")
            parts.append(part)
        return parts

    def parameter(self, number: int, op: Op) -> Value:
        """The instruction of a graph input."""
        details = op.outputs[0].details
        value = Value(self.name(op.name), details.dtype, details.plain_dims)
        self.lines.append(f"  %{value.name} = {value.shape} parameter({number})")
        return value

    def value(self, tensor: GraphTensor) -> Value:
        """What was written for a tensor; a constant is written when it is first read."""
        if tensor not in self.values:
            op = tensor.producer_owner
            self.values[tensor] = self.constant(op.attr("value"), tensor.details.dtype, op.name)
        return self.values[tensor]

    def constant(self, value: object, dtype: DType, name: str = "constant") -> Value:
        """A constant; scalars of one value are written once."""
        array = np.asarray(value).astype(dtype.numpy)
        text = write_literal(array)
        key = (shape_text(dtype, array.shape), text)
        if array.ndim or key not in self._constants:
            made = Value(self.name(name), dtype, array.shape)
            self.lines.append(f"  %{made.name} = {made.shape} constant({text})")
            if array.ndim:
                return made
            self._constants[key] = made
        return self._constants[key]

    def emit(
        self,
        opcode: str,
        operands: Sequence[Value],
        dtype: DType,
        dims: Sequence[int],
        attributes: str = "",
        name: str = "",
    ) -> Value:
        """One instruction."""
        made = Value(self.name(name or opcode), dtype, dims)
        inside = ", ".join(f"{v.shape} %{v.name}" for v in operands)
        tail = f", {attributes}" if attributes else ""
        self.lines.append(f"  %{made.name} = {made.shape} {opcode}({inside}){tail}")
        return made

    def same(self, opcode: str, *operands: Value, attributes: str = "", name: str = "") -> Value:
        """An instruction whose result has the type and sizes of its last operand."""
        last = operands[-1]
        return self.emit(opcode, operands, last.dtype, last.dims, attributes, name)

    def cast(self, x: Value, dtype: DType, name: str = "") -> Value:
        """X in another type."""
        if x.dtype == dtype:
            return x
        return self.emit("convert", [x], dtype, x.dims, name=name)

    def reshape(self, x: Value, dims: Sequence[int], name: str = "") -> Value:
        """X in another shape."""
        if x.dims == tuple(dims):
            return x
        return self.emit("reshape", [x], x.dtype, dims, name=name)

    def spread(self, op: Op) -> Value:
        """The instruction of a broadcast."""
        tensor, dims = op.inputs[0], op.outputs[0].details.plain_dims
        if not _only_spreads(tensor.producer_owner):
            return self.broadcast(self.value(tensor), dims, op.name)
        x = self.value(tensor.producer_owner.inputs[0])
        offset = len(dims) - tensor.details.rank
        kept = [i + offset for i, size in enumerate(tensor.details.plain_dims) if size != 1]
        axes = ",".join(map(str, kept))
        return self.emit("broadcast", [x], x.dtype, dims, f"dimensions={{{axes}}}", op.name)

    def broadcast(self, x: Value, dims: Sequence[int], name: str = "") -> Value:
        """X repeated as NumPy does: axes of size 1 are removed, the others keep their order."""
        dims = tuple(dims)
        if x.dims == dims:
            return x
        offset = len(dims) - len(x.dims)
        kept = [i for i, size in enumerate(x.dims) if size == dims[i + offset]]
        x = self.reshape(x, [x.dims[i] for i in kept])
        axes = ",".join(str(i + offset) for i in kept)
        return self.emit("broadcast", [x], x.dtype, dims, f"dimensions={{{axes}}}", name)

    def take(self, x: Value, indices: Value, axis: int, name: str = "") -> Value:
        """X with `axis` replaced by the axes of `indices`, which HLO clamps."""
        count = len(indices.dims)
        dims = (*x.dims[:axis], *indices.dims, *x.dims[axis + 1 :])
        offsets = [i for i in range(len(dims)) if not axis <= i < axis + count]
        sizes = [1 if i == axis else size for i, size in enumerate(x.dims)]
        return self.emit(
            "gather",
            [x, indices],
            x.dtype,
            dims,
            f"offset_dims={{{_list(offsets)}}}, collapsed_slice_dims={{{axis}}}, "
            f"start_index_map={{{axis}}}, index_vector_dim={count}, slice_sizes={{{_list(sizes)}}}",
            name,
        )

    def body(self, combine: str, dtype: DType) -> str:
        """The name of the computation that combines two elements; "none" gives the second."""
        opcode = OPCODES.get(combine, "second")
        name = f"{opcode}_{HLO_NAMES[dtype]}"
        scalar = f"{HLO_NAMES[dtype]}[]"
        last = [
            f"  %b = {scalar} parameter(1)",
            f"  ROOT %r = {scalar} {opcode}({scalar} %a, {scalar} %b)",
        ]
        if combine == "none":
            last = [f"  ROOT %b = {scalar} parameter(1)"]
        head = f"%{name} (a: {scalar}, b: {scalar}) -> {scalar} {{"
        self.bodies[name] = "\n".join([head, f"  %a = {scalar} parameter(0)", *last, "}"])
        return name

    def scalar_body(self, graph: Graph) -> str:
        """The name of the computation that a graph of scalars becomes; of several results it makes a tuple."""
        inner = Writer(graph, self.write_op)
        parameters, results = inner.instructions()
        if len(results) == 1:
            shape, root = results[0].shape, f"  %{results[0].name} = "
            lines = [
                x.replace("  %", "  ROOT %", 1) if x.startswith(root) else x for x in inner.lines
            ]
        else:
            shape = f"({', '.join(v.shape for v in results)})"
            operands = ", ".join(f"{v.shape} %{v.name}" for v in results)
            lines = [*inner.lines, f"  ROOT %{inner.name('result')} = {shape} tuple({operands})"]
        name = f"body.{len(self.bodies)}"
        signature = ", ".join(f"{v.name}: {v.shape}" for v in parameters)
        self.bodies[name] = "\n".join([f"%{name} ({signature}) -> {shape} {{", *lines, "}"])
        return name

    def name(self, wanted: str) -> str:
        """A name not used yet that HLO can read."""
        base = _clean(wanted)
        name = base
        while name in self._names:
            self._numbers[base] += 1
            name = f"{base}.{self._numbers[base]}"
        self._names.add(name)
        return name


def _only_spreads(op: Op) -> bool:
    """Whether a reshape only adds axes of size 1 for broadcasts, which in HLO name their axes instead."""
    if op.op_name != "reshape" or not op.outputs[0].uses:
        return False
    sizes = [[d for d in t.details.plain_dims if d != 1] for t in (op.inputs[0], op.outputs[0])]
    return sizes[0] == sizes[1] == list(op.inputs[0].details.plain_dims) and all(
        user.op_name == "broadcast" for _, user in op.outputs[0].uses
    )


def _clean(name: str) -> str:
    cleaned = _NAME.sub("_", name)
    return cleaned if cleaned[:1].isalpha() or cleaned[:1] == "_" else f"_{cleaned}"


def _list(numbers: Sequence[int]) -> str:
    return ",".join(map(str, numbers))
