"""One operator of a kernel or of an uncompiled graph: operands, attributes, and what is known of its result."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...base.dtypes import DType
from ...base.errors import GraphcError
from ...graph_ir.ir.graph import Array, Graph, GraphTensor
from ...graph_ir.ir.logical_tensor import LogicalTensor
from ..correspondence.reading import NodeReader
from ..correspondence.spelling import Formal
from ..correspondence.values import MUST_BE_GIVEN
from .document import DTYPES

Operator = Callable[["OperatorContext"], "GraphTensor | list[GraphTensor]"]
"""Builds one operator; its outputs."""

_LONG = re.compile(r"(?<=\d)L\b")


class UndeterminedError(GraphcError):
    """An attribute is neither in the file nor implied by shapes; the importer collects these. `key` names it."""

    exit_code = 3

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


class OperatorContext(NodeReader):
    """`given` are attributes as texts, from an old file or from the user; `result` is what the operator gives, `final`
    what the kernel gives where all that follow are elementwise, though one of them may broadcast.

    In a compiled file attributes are not stored: a default may only be used where `stored` says that they were.
    """

    def __init__(
        self,
        graph: Graph,
        type_name: str,
        name: str,
        operands: Sequence[GraphTensor],
        given: Mapping[str, str],
        result: LogicalTensor | None,
        stored: bool,
        results: Sequence[LogicalTensor] = (),
        final: LogicalTensor | None = None,
    ) -> None:
        super().__init__(graph, type_name, name)
        self.operands = operands
        self.given = given
        self.result = result
        self.results = results
        self.final = final or result
        self.stored = stored

    @property
    def x(self) -> GraphTensor:
        """The first operand."""
        return self.operand(0)

    def operand(self, index: int) -> GraphTensor:
        """Operand `index`. UserError where there are fewer."""
        if index >= len(self.operands):
            raise self.rule(f"there must be at least {index + 1} operands", str(len(self.operands)))
        return self.operands[index]

    def attr(self, key: str, default: Any = None) -> Any:
        """An attribute as a Python literal; `default` where the file would have stored another value."""
        if key in self.given:
            return self._literal(key, self.given[key])
        if self.stored and default is not None:
            return default
        raise UndeterminedError(key)

    def _literal(self, key: str, text: str) -> Any:
        plain = _LONG.sub("", text.strip())
        try:
            value = ast.literal_eval(plain) if len(plain) < 10000 else plain
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            value = plain
        return list(value) if isinstance(value, tuple) else value

    def has(self, key: str) -> bool:
        """Whether an attribute is given."""
        return key in self.given

    def integer(self, key: str, default: int | None = None) -> int:
        """An integer attribute."""
        value = self.attr(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or abs(value) >= 2**62:
            raise self.rule(f"attribute '{key}' must be an integer", repr(value)[:40])
        return value

    def integers(self, key: str, default: Sequence[int] | None = None) -> list[int]:
        """A list of integers; one integer counts as a list of it."""
        value = self.attr(key, default)
        items = list(value) if isinstance(value, (list, tuple)) else [value]
        if any(isinstance(v, bool) or not isinstance(v, int) or abs(v) >= 2**62 for v in items):
            raise self.rule(f"attribute '{key}' must be integers", repr(value)[:40])
        return items

    def number(self, key: str, default: float | None = None) -> float:
        """A float attribute."""
        value = self.attr(key, default)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self.rule(f"attribute '{key}' must be a number", repr(value)[:40])
        return float(value)

    def flag(self, key: str, default: bool | None = None) -> bool:
        """A bool attribute; 0 and 1 count as well."""
        value = self.attr(key, default)
        if not isinstance(value, (bool, int)):
            raise self.rule(f"attribute '{key}' must be True or False", repr(value)[:40])
        return bool(value)

    def shape(self, key: str) -> tuple[int, ...]:
        """The shape of the result: the attribute, or what is known of the result."""
        if key in self.given:
            return tuple(self.integers(key))
        if self.result is None:
            raise UndeterminedError(key)
        return self.result.plain_dims

    def element_type(self, key: str) -> DType:
        """An attribute that names an element type, or that of the result."""
        if not self.has(key) and self.result is not None:
            return self.result.dtype
        name = str(self.attr(key))
        if name not in DTYPES:
            raise self.unsupported(f"{key} '{name}'")
        return DTYPES[name]

    # What rows ask for.

    def read_operand(self, formal: Formal) -> GraphTensor:
        """The operand at the formal's position."""
        return self.operand(formal.index)

    def read_variadic(self, formal: Formal) -> list[GraphTensor]:
        """All operands from the formal's position on."""
        return [self.operand(formal.index), *self.operands[formal.index + 1 :]]

    def is_given(self, formal: Formal) -> bool:
        """Whether there is an operand at the formal's position."""
        return formal.index < len(self.operands)

    def read_known(self, formal: Formal) -> Array:
        """Operands of kernels are never constants that an attribute could be read from."""
        raise self.unsupported(f"'{formal.name}' as an operand")

    def read_attribute(self, name: str, kind: str, default: Any) -> Any:
        """An attribute of that kind; UndeterminedError where the file does not tell it."""
        if kind == "dtype":
            return self.element_type(name)
        absent = None if default is MUST_BE_GIVEN else default
        if kind == "text":
            return str(self.attr(name, absent))
        if kind == "ints":
            return tuple(self.integers(name, absent))
        read: dict[str, Callable[..., Any]] = {
            "float": self.number,
            "int": self.integer,
            "bool": self.flag,
        }
        return read[kind](name, absent)
