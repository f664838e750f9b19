"""Writes ops as a format's nodes: the traversal shared by all writers, and the rows that use it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from ...base.dtypes import S32
from ...base.errors import UnsupportedError
from ...graph_ir.ir.graph import Array, Graph, GraphTensor, Op
from ..refusals import counted
from .reading import Pair
from .row import Table
from .spelling import Spelling
from .values import as_array, attributes_of, conditions_of, kind_of, same

V = TypeVar("V")
"""A format's reference to a value: its name, or another reference."""

Named = Sequence[tuple[str, V | None]]
"""Operands of a node by their names; absent optional ones are None."""

Write = Callable[[Any, Any], Any]
"""Writes one kind of op."""


_CONTRACTIONS = ("matmul_core", "convolution")


class InexpressibleError(Exception):
    """The format cannot express an op, or the property named in the text."""


class NameTable:
    """Names in use; a taken name gets `joint` and a number appended."""

    def __init__(self, taken: Iterable[str] = (), joint: str = "_") -> None:
        self.taken = set(taken)
        self.joint = joint
        self._numbers: Counter[str] = Counter()

    def unique(self, wanted: str) -> str:
        """An unused name, `wanted` if it is free."""
        base = name = wanted or "value"
        while name in self.taken:
            self._numbers[base] += 1
            name = f"{base}{self.joint}{self._numbers[base]}"
        self.taken.add(name)
        return name


class ExportFrame(Generic[V]):
    """Walks a graph and writes each op; ops that the format cannot express are counted and reported together.

    `writers` maps ops to their writers; `format_name` is used in messages.
    """

    format_name = ""
    has_integer_matmuls = False
    """True if its matmuls and convolutions of 8-bit integers may have s32 results."""

    def __init__(self, graph: Graph, writers: Mapping[str, Write]) -> None:
        self.graph = graph
        self.writers = writers
        self.failures: Counter[str] = Counter()

    def write_ops(self, graph: Graph) -> None:
        """The nodes of every op of a graph whose inputs are bound."""
        for op in graph.ops:
            try:
                self.write_op(op)
            except InexpressibleError as failure:
                text = str(failure)
                named = text if text.startswith(op.op_name) else f"{op.op_name} with {text}"
                self.failures[named] += 1
                self.bind_unknown(op)

    def write_op(self, op: Op) -> None:
        """The nodes of one op."""
        self.check(op)
        if op.op_name not in self.writers:
            raise InexpressibleError(op.op_name)
        self.writers[op.op_name](self, op)

    def check(self, op: Op) -> None:
        """Raise InexpressibleError for properties that no op may have in the format."""
        if not all(y.details.format.is_plain for y in op.outputs):
            raise InexpressibleError(f"{op.op_name} in a blocked layout")
        dtype = op.attr("dtype") if op.op_name in _CONTRACTIONS else None
        if dtype and not (self.has_integer_matmuls and dtype == S32):
            raise InexpressibleError(f"{op.op_name} with dtype={op.attr('dtype')}")

    def finish(self) -> None:
        """UnsupportedError listing everything that the format cannot express."""
        if self.failures:
            who = f"graph '{self.graph.name}'"
            told = f"{who}: {self.format_name} cannot express: {counted(self.failures)}"
            raise UnsupportedError(told, "write another format, such as graphc's own (--to graph)")

    def bind_unknown(self, op: Op) -> None:
        """Bind the outputs of an op that was not written, so that its consumers are checked too."""
        raise NotImplementedError

    def operand(self, tensor: GraphTensor) -> V:
        """Return the format's reference to a tensor."""
        raise NotImplementedError

    def held(self, op: Op, name: str, array: Array) -> V:
        """A constant for an attribute of the op that is an operand of the format's node."""
        raise NotImplementedError

    def hold(self, op: Op, name: str, kind: str, value: Any) -> V:
        """An attribute of the op in an operand: a constant, unless the format has it otherwise."""
        return self.held(op, name, as_array(value, kind))

    def emit(self, op: Op, type_name: str, operands: Named[V], attrs: dict[str, Any]) -> Any:
        """The op's main node, whose outputs are those of the op. Absent optional operands are None."""
        raise NotImplementedError

    cell: Spelling
    """The cell that names the pair whose function writes."""

    def row_attributes(self, op: Op) -> dict[str, Any]:
        """The attributes that the cell mentions, by the format's names."""
        return _attributes(self, op, self.cell)

    def attribute(self, kind: str, value: Any) -> Any:
        """A value as represented in the format's nodes."""
        return value


def writers(table: Table, format_name: str, pairs: Mapping[str, Pair]) -> dict[str, Write]:
    """The writer of every op that a row spells in a format."""
    return {
        name: _writer(spellings, pairs) for name, spellings in table.writes(format_name).items()
    }


def _writer(spellings: Sequence[Spelling], pairs: Mapping[str, Pair]) -> Write:
    def write(frame: ExportFrame[Any], op: Op) -> Any:
        reasons = []
        for spelling in spellings:
            own = pairs[spelling.pair].write if spelling.pair else None
            reason = objection(op, spelling, is_row=own is None)
            if reason is None and own is not None:
                frame.cell = spelling
                return own(frame, op, spelling.types[0])
            if reason is None:
                return write_row(frame, op, spelling)
            reasons.append(reason)
        raise InexpressibleError(f"{op.op_name} {reasons[0]}")

    return write


def objection(op: Op, spelling: Spelling, is_row: bool = True) -> str | None:
    """The property of the op that the spelling cannot express; None if it expresses all, or a function handles
    the rest."""
    subject = op.inputs[conditions_of(op.op_name)].details
    if spelling.kinds and subject.dtype.kind not in spelling.kinds:
        return f"of {subject.dtype}"
    rank = spelling.fixed.get("rank")
    if rank is not None and any(x.details.rank != rank for x in op.inputs):
        return f"of rank {subject.rank}"
    attrs = attributes_of(op)
    for name, value in spelling.fixed.items():
        if name != "rank" and not same(attrs[name], value):
            return f"with {name}={_shown(attrs[name])}"
    for name, value in attrs.items() if is_row else ():
        if name in op.attrs and name not in spelling.mentioned:
            return f"with {name}={_shown(value)}"
    return None


def _shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def write_row(frame: ExportFrame[Any], op: Op, spelling: Spelling) -> Any:
    """The node of an op that a spelling expresses completely."""
    attrs, tensors = attributes_of(op), iter(op.inputs)
    operands: list[tuple[str, Any]] = []
    for formal in spelling.formals:
        if formal.holds:
            value = attrs[formal.holds]
            kind = formal.kind or kind_of(op.op_name, formal.holds)
            held = None if value is None else frame.hold(op, formal.name, kind, value)
            operands.append((formal.name, held))
        elif formal.variadic:
            operands += [(formal.name, frame.operand(x)) for x in tensors]
        else:
            tensor = next(tensors, None)
            operands.append((formal.name, None if tensor is None else frame.operand(tensor)))
    return frame.emit(op, spelling.types[0], operands, _attributes(frame, op, spelling))


def _attributes(frame: ExportFrame[Any], op: Op, spelling: Spelling) -> dict[str, Any]:
    """The attributes of the node that the spelling mentions."""
    attrs, found = attributes_of(op), {}
    for a in spelling.attributes:
        kind = a.kind or (kind_of(op.op_name, a.ours) if a.ours else "")
        value = attrs[a.ours] if a.ours else a.literal
        found[a.name] = frame.attribute(kind, value)
    return found
