"""One operator of a kernel or of an uncompiled graph: operands, attributes, and what is known of its result."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any

from ...base.errors import GraphcError
from ...base.records import dataclass
from ...graph_ir.ir.graph import Array, Graph, GraphTensor
from ...graph_ir.ir.logical_tensor import LogicalTensor
from ..correspondence.reading import NodeReader
from ..correspondence.spelling import Formal
from ..correspondence.values import MUST_BE_GIVEN, understood
from .document import DTYPES

_LONG = re.compile(r"(?<=\d)L\b")
_MAX_LETTERS = 10000

_ASSUMED = frozenset({
    "align_corners", "batch_dims", "ceil_mode", "center", "dilation", "groups", "keepdims", "pad_mode", "pad_value",
    "ret_type", "scale", "transpose_a", "transpose_b", "strided_slice.strides", "nn_group_norm.axis",
    "nn_instance_norm.axis",
})  # fmt: skip
"""Attributes, of all operators or of one, that a kernel is taken to have at their defaults: its file has none."""


class UndeterminedError(GraphcError):
    """An attribute of a kind is neither in the file nor implied by shapes; the importer collects these."""

    exit_code = 3

    operator = ""
    """The operator whose attribute it is."""

    def __init__(self, key: str, kind: str = "") -> None:
        super().__init__(key)
        self.key, self.kind = key, kind


@dataclass(frozen=True)
class Call:
    """An operator and what is known of it. `given` are attributes as texts, from an old file or from the user.

    `stored`: the file has all attributes but defaults; a compiled file has none. `results` are the types of what it
    returns if known, `final` is what the kernel returns if all that follows is elementwise, though it may broadcast.
    """

    type: str
    name: str
    operands: Sequence[GraphTensor]
    given: Mapping[str, str]
    stored: bool = False
    results: Sequence[LogicalTensor] = ()
    final: LogicalTensor | None = None
    fallback: Mapping[str, str] = field(default_factory=dict)
    """Attributes for what neither the file nor shapes determine."""


class OperatorContext(NodeReader):
    """Reads one operator: its operands by position, its attributes from texts."""

    def __init__(self, graph: Graph, call: Call) -> None:
        super().__init__(graph, call.type, call.name)
        self.call, self.operands = call, call.operands
        self.result = call.results[0] if len(call.results) == 1 else None
        self.final = call.final or self.result

    @property
    def x(self) -> GraphTensor:
        """The first operand."""
        return self.operand(0)

    def operand(self, index: int) -> GraphTensor:
        """Operand `index`. Raise UserError if there are fewer."""
        if index >= len(self.operands):
            raise self.rule(f"there must be at least {index + 1} operands", str(len(self.operands)))
        return self.operands[index]

    def has(self, key: str) -> bool:
        """Return whether an attribute is given."""
        return key in self.call.given

    def knows(self, key: str) -> bool:
        """Return whether the value of an attribute is given, or its default."""
        return self.call.stored or self.has(key)

    def attr(self, key: str, default: Any = MUST_BE_GIVEN, kind: str = "") -> Any:
        """An attribute as a Python literal; `default` where the file would have stored another value."""
        if key in self.call.given:
            return _literal(self.call.given[key])
        assumed = self.call.stored or not _ASSUMED.isdisjoint((key, f"{self.type}.{key}"))
        if assumed and default is not MUST_BE_GIVEN:
            return default
        raise UndeterminedError(key, kind)

    # What rows ask for.

    def read_operand(self, formal: Formal) -> GraphTensor:
        """The operand at the formal's position."""
        return self.operand(formal.index)

    def read_variadic(self, formal: Formal) -> list[GraphTensor]:
        """All operands from the formal's position on."""
        return [self.operand(formal.index), *self.operands[formal.index + 1 :]]

    def is_given(self, formal: Formal) -> bool:
        """Return whether there is an operand at the formal's position."""
        return formal.index < len(self.operands)

    def read_known(self, formal: Formal) -> Array:
        """Operands of kernels are never constants that an attribute could be read from."""
        raise self.unsupported(f"'{formal.name}' as an operand")

    def read_attribute(self, name: str, kind: str, default: Any) -> Any:
        """An attribute of that kind; raise UndeterminedError if the file does not tell it."""
        if kind == "dtype" and not self.has(name) and self.result is not None:
            return self.result.dtype
        value = self.attr(name, default, kind)
        if kind == "dtype":
            if str(value) not in DTYPES:
                raise self.unsupported(f"{name} '{value}'")
            return DTYPES[str(value)]
        if value is None and default is None:
            return None
        try:
            return understood(str(value) if kind == "text" else value, kind)
        except ValueError as error:
            raise self.rule(f"attribute '{name}' must be {error}", repr(value)[:40]) from error


Operator = Callable[[OperatorContext], "GraphTensor | list[GraphTensor]"]
"""Builds one operator; its outputs."""


def _literal(text: str) -> Any:
    plain = _LONG.sub("", text.strip())
    try:
        return ast.literal_eval(plain) if len(plain) < _MAX_LETTERS else plain
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return plain
