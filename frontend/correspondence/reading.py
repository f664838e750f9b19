"""Reads nodes with the table: the interface that every format's node implements, and the rows that use it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, overload

from ...base.dtypes import BOOL, DType
from ...base.records import dataclass
from ...graph_ir.ir.graph import Array, GraphTensor
from ..op_builder import OpBuilder
from ..refusals import DEFINED
from .row import Means, Row, Table
from .spelling import Attribute, Formal, Spelling
from .values import MUST_BE_GIVEN, as_kind, same


class NodeReader(OpBuilder):
    """One node of a file: access to its operands and attributes, and the builder that rows use.

    Each format implements how operands are found, by name or by position, and where defaults come from.
    """

    def read_operand(self, formal: Formal) -> GraphTensor:
        """An operand as a tensor of the graph. Raise UserError if it is not given."""
        raise NotImplementedError

    def read_variadic(self, formal: Formal) -> list[GraphTensor]:
        """All tensors of a variadic operand, at least one."""
        raise NotImplementedError

    def is_given(self, formal: Formal) -> bool:
        """Return whether an optional operand is given."""
        raise NotImplementedError

    def read_known(self, formal: Formal) -> Array:
        """An operand's value. Raise UnsupportedError if it depends on the model's inputs."""
        raise NotImplementedError

    def read_attribute(self, name: str, kind: str, default: Any) -> Any:
        """An attribute understood as `kind` (`values.KINDS`), else the format's own default, else `default`.

        Raise UserError if it is of another kind, or absent while `default` is MUST_BE_GIVEN.
        """
        raise NotImplementedError

    # For functions of pairs: what their cell says of attributes, and attributes by kind.

    cell: tuple[Row, Spelling]
    """The row and the cell that name the pair."""

    def row_attributes(self) -> dict[str, Any]:
        """The attributes of the op that the cell mentions, by our names."""
        row, spelling = self.cell
        first = spelling.operands[:1]
        rank = self.read_operand(first[0]).details.rank if first else 0
        return _attributes(self, row, spelling, rank)

    def attr_int(self, name: str, default: Any = MUST_BE_GIVEN) -> int:
        """An integer attribute."""
        return int(self.read_attribute(name, "int", default))

    def attr_bool(self, name: str, default: Any = MUST_BE_GIVEN) -> bool:
        """A flag; 0 and 1 count as well."""
        return bool(self.read_attribute(name, "bool", default))

    def attr_float(self, name: str, default: Any = MUST_BE_GIVEN) -> float:
        """A number, an integer too."""
        return float(self.read_attribute(name, "float", default))

    def attr_text(self, name: str, default: Any = MUST_BE_GIVEN) -> str:
        """A word."""
        return str(self.read_attribute(name, "text", default))

    @overload
    def attr_ints(self, name: str, default: None) -> tuple[int, ...] | None: ...

    @overload
    def attr_ints(self, name: str, default: Any = MUST_BE_GIVEN) -> tuple[int, ...]: ...

    def attr_ints(self, name: str, default: Any = MUST_BE_GIVEN) -> tuple[int, ...] | None:
        """A list of integers."""
        value = self.read_attribute(name, "ints", default)
        return None if value is None else tuple(value)

    def attr_dtype(self, name: str, default: Any = MUST_BE_GIVEN) -> DType:
        """An element type."""
        dtype: DType = self.read_attribute(name, "dtype", default)
        return dtype

    def read_held(self, formal: Formal, kind: str, default: Any) -> Any:
        """The attribute that an operand holds, understood as `kind`: a constant, unless the format has it otherwise."""
        if formal.optional and not self.is_given(formal):
            return default
        try:
            return as_kind(self.read_known(formal), kind)
        except ValueError as error:
            what = {"ints": "a list of integers", "axes": "a list of integers"}
            rule = f"{formal.name} must be {what.get(kind, f'one {kind}')}"
            raise self.rule(rule, str(error)) from error

    def read_operands(self, row: Row, formals: Sequence[Formal]) -> list[GraphTensor]:
        """The operands of a row as it takes them; its conditions are made bools.

        A format whose operands may have mixed or unknown types unifies them here.
        """
        found: list[GraphTensor] = []
        for number, formal in enumerate(formals):
            if formal.variadic:
                found += self.read_variadic(formal)
            elif not formal.optional or self.is_given(formal):
                x = self.read_operand(formal)
                found.append(self.converted(x, BOOL) if number < row.conditions else x)
        return found


Read = Callable[[Any], Any]
"""Imports one kind of node: the value of its output, or of its outputs in a list."""


@dataclass(frozen=True)
class Pair:
    """A format's own functions for what a row cannot express; None if the row is enough.

    `read(node, name)` imports a node, `write(frame, op, type)` writes an op. One pair may serve a family: `name` is
    that of the row, `type` that of the spelling.
    """

    read: Callable[[Any, str], Any] | None = None
    write: Callable[[Any, Any, str], Any] | None = None


def readers(table: Table, format_name: str, pairs: Mapping[str, Pair]) -> dict[str, Read]:
    """Return the readers of all types of a format that rows name. Raise ValueError for a pair the format does not
    have."""
    found: dict[str, Read] = {}
    for type_name, choices in table.reads(format_name).items():
        row, spelling = choices[0]
        if spelling.pair not in pairs and spelling.pair:
            raise ValueError(f"'{spelling.text}': {format_name} has no pair '{spelling.pair}'")
        own = pairs[spelling.pair].read if spelling.pair else None
        found[type_name] = _by_pair(own, row, spelling) if own else _by_rows(choices)
    return found


def _by_pair(read: Callable[[Any, str], Any], row: Row, spelling: Spelling) -> Read:
    def run(node: Any) -> Any:
        node.cell = (row, spelling)
        return read(node, row.name)

    return run


def _by_rows(choices: Sequence[tuple[Row, Spelling]]) -> Read:
    return lambda node: read_rows(node, choices)


def read_rows(node: NodeReader, choices: Sequence[tuple[Row, Spelling]]) -> Any:
    """Import a node by the first row whose fixed attributes and element types it matches."""
    for row, spelling in choices:
        if all(same(_value(node, row, a), a.literal) for a in spelling.attributes if not a.ours):
            operands = node.read_operands(row, spelling.operands)
            if len(choices) == 1 or _has_kind(operands, row, spelling):
                return _built(node, row, spelling, operands)
    wanted = [a for _, spelling in choices for a in spelling.attributes if not a.ours]
    for a in wanted:
        values = " or ".join(dict.fromkeys(str(w.literal) for w in wanted if w.name == a.name))
        given = _value(node, choices[0][0], a)
        if not any(same(given, w.literal) for w in wanted if w.name == a.name):
            raise node.unsupported(f"{a.name} {given!r}", f"it must be {values}")
    raise node.unsupported("this combination of attributes and element types", DEFINED)


def _built(node: NodeReader, row: Row, spelling: Spelling, operands: list[GraphTensor]) -> Any:
    rank = operands[0].details.rank if operands else 0
    return row.build(node, operands, _attributes(node, row, spelling, rank))


def _attributes(node: NodeReader, row: Row, spelling: Spelling, rank: int) -> dict[str, Any]:
    """The attributes of ours that the spelling mentions."""
    attrs = dict(spelling.fixed)
    attrs.pop("rank", None)
    for a in spelling.attributes:
        if a.ours:
            attrs[a.ours] = _normal(node, row, a.ours, _value(node, row, a), rank)
    for formal in spelling.held:
        default = formal.default if formal.has_default else row.default(formal.holds)
        value = node.read_held(formal, formal.kind or row.kind(formal.holds), default)
        if value is not MUST_BE_GIVEN:
            attrs[formal.holds] = _normal(node, row, formal.holds, value, rank)
    return attrs


def _has_kind(operands: Sequence[GraphTensor], row: Row, spelling: Spelling) -> bool:
    """Return whether the spelling is for operands of these types and ranks."""
    subject = operands[row.conditions].details
    rank = spelling.fixed.get("rank", subject.rank)
    return rank == subject.rank and (not spelling.kinds or subject.dtype.kind in spelling.kinds)


def _value(node: NodeReader, row: Row, a: Attribute) -> Any:
    """An attribute of the node; one that must have a value is of that value's kind, and None where it is absent."""
    if not a.ours:
        words = {bool: "bool", int: "int", float: "float", str: "text"}
        default = a.default if a.has_default else None
        return node.read_attribute(a.name, a.kind or words[type(a.literal)], default)
    default = a.default if a.has_default else row.default(a.ours)
    kind = a.kind or row.kind(a.ours)
    plain = {"axis": "int", "axes": "ints"}.get(kind, kind)
    return node.read_attribute(a.name, plain, default)


def _normal(node: NodeReader, row: Row, name: str, value: Any, rank: int) -> Any:
    """Axes counted from the front and distinct; anything else unchanged."""
    kind = row.kind(name)
    if kind == "axis" and isinstance(value, int):
        if isinstance(row, Means) and not rank:
            raise node.rule("the input must have axes", "a scalar")
        return node.axis(value, rank)
    if kind == "axes" and value is not None:
        axes = tuple(node.axis(axis, rank) for axis in value)
        if len(set(axes)) != len(axes):
            raise node.rule("axes must be distinct", str(value))
        return axes
    return value


__all__ = ["MUST_BE_GIVEN", "NodeReader", "Pair", "Read", "read_rows", "readers"]
