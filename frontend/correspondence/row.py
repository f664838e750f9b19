"""A row: an op, or a function that builds several ops, with its spelling in every format."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import Any

from ...graph_ir.ir.graph import GraphTensor
from ...graph_ir.ir.registry import schema_of
from ...graph_ir.ops.elementwise import FLOAT
from ..op_builder import OpBuilder
from .spelling import Spelling, parse_spelling
from .values import MUST_BE_GIVEN, conditions_of, default_of, elementwise, kind_of

Cell = str | tuple[str, ...]
"""The spellings of the row in a format, the preferred one first; "" if it cannot express it."""

_ANNOTATED = {
    **{name: name for name in ("float", "int", "bool")},
    "str": "text",
    "Size": "int",
    "DType": "dtype",
    "tuple[float, ...]": "floats",
}


class Row:
    """Common to all rows: cells by format, and the kinds and defaults of the attributes they name."""

    def __init__(self, name: str, cells: dict[str, Cell]) -> None:
        self.name = name
        self.cells = {
            key: (cell,) if isinstance(cell, str) else cell for key, cell in cells.items()
        }
        self._parsed: dict[str, tuple[Spelling, ...]] = {}

    def spellings(self, format_name: str) -> tuple[Spelling, ...]:
        """Return the spellings of the row in a format, the preferred one first."""
        if format_name not in self._parsed:
            cells = self.cells.get(format_name, ())
            self._parsed[format_name] = tuple(parse_spelling(text) for text in cells if text)
        return self._parsed[format_name]

    @property
    def conditions(self) -> int:
        """The number of leading operands that are bools independently of the others."""
        return 0

    @property
    def common(self) -> str:
        """Return whether the other operands share one element type ("any"), one float type ("float") or none ("")."""
        return ""

    def kind(self, attribute: str) -> str:
        """The kind of the attribute's values."""
        raise NotImplementedError

    def default(self, attribute: str) -> Any:
        """The default of an absent attribute if the format has none."""
        raise NotImplementedError

    def build(self, node: OpBuilder, operands: list[GraphTensor], attrs: dict[str, Any]) -> Any:
        """Build the ops for a node with these operands and attributes."""
        raise NotImplementedError


class Op(Row):
    """An op of the Graph IR: `Op("leaky_relu", onnx="LeakyRelu(X | alpha)", ...)`."""

    def __init__(self, name: str, **cells: Cell) -> None:
        super().__init__(name, cells)

    @property
    def conditions(self) -> int:
        """The number of conditions of the op."""
        return conditions_of(self.name)

    @property
    def common(self) -> str:
        """Elementwise ops compute in one type, and what is joined has one."""
        row = elementwise(self.name)
        if row is None:
            return "any" if self.name == "concat" else ""
        return "float" if row.accepts == FLOAT else "any"

    def kind(self, attribute: str) -> str:
        """The kind of an attribute of the op."""
        return kind_of(self.name, attribute)

    def default(self, attribute: str) -> Any:
        """The default of an attribute of the op."""
        return default_of(self.name, attribute)

    def build(self, node: OpBuilder, operands: list[GraphTensor], attrs: dict[str, Any]) -> Any:
        """The op; one of two operands is applied from left to right to more, and one tensor needs no concat."""
        if self.name == "concat" and len(operands) == 1:
            return operands[0]
        attrs = {key: getattr(value, "name", value) for key, value in attrs.items()}
        if len(schema_of(self.name).operands) == 2 and len(operands) != 2:
            total, *others = operands
            for number, other in enumerate(others, 1):
                make = node.make if number == len(others) else node.helper
                total = make(self.name, total, other, **attrs)
            return total
        results = node.outputs(self.name, *operands, **attrs)
        return results[0] if len(results) == 1 else results


class Means(Row):
    """A node that becomes several ops: `function(node, *operands, **attributes)` builds them. It is never written.

    Kinds and defaults of attributes are those of the function's parameters.
    """

    def __init__(self, function: Callable[..., Any], common: str = "", **cells: Cell) -> None:
        super().__init__(function.__name__, cells)
        self.function = function
        self._common = common

    @property
    def common(self) -> str:
        """The common operand type of the row."""
        return self._common

    @cached_property
    def _parameters(self) -> dict[str, inspect.Parameter]:
        return dict(inspect.signature(self.function).parameters)

    def kind(self, attribute: str) -> str:
        """The kind of a parameter, from its annotation."""
        text = str(self._parameters[attribute].annotation).removesuffix(" | None")
        return attribute if attribute in ("axis", "axes") else _ANNOTATED.get(text, "ints")

    def default(self, attribute: str) -> Any:
        """The parameter's default."""
        default = self._parameters[attribute].default
        return MUST_BE_GIVEN if default is inspect.Parameter.empty else default

    def build(self, node: OpBuilder, operands: list[GraphTensor], attrs: dict[str, Any]) -> Any:
        """Call the function that builds the ops."""
        return self.function(node, *operands, **attrs)


class Table:
    """The rows of all families; `of(format)` selects those of one format."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self.rows = tuple(rows)

    def reads(self, format_name: str) -> dict[str, list[tuple[Row, Spelling]]]:
        """Maps every type of a format to its possible rows, in table order."""
        found: dict[str, list[tuple[Row, Spelling]]] = {}
        for row, spelling in self._of(format_name):
            for type_name in spelling.types if spelling.is_read else ():
                found.setdefault(type_name, []).append((row, spelling))
        return found

    def writes(self, format_name: str) -> dict[str, list[Spelling]]:
        """Maps every op that a format can express to its spellings, the preferred one first."""
        found: dict[str, list[Spelling]] = {}
        for row, spelling in self._of(format_name):
            if isinstance(row, Op) and spelling.is_written:
                found.setdefault(row.name, []).append(spelling)
        return found

    def _of(self, format_name: str) -> Iterator[tuple[Row, Spelling]]:
        for row in self.rows:
            for spelling in row.spellings(format_name):
                yield row, spelling
