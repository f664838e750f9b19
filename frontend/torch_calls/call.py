"""One call of a PyTorch function: its arguments by name, with their types checked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...base.dims import Dim
from ...base.dtypes import F32, DType
from ...base.records import dataclass
from ...graph_ir.ir.graph import Graph, GraphTensor
from ...graph_ir.ir.note import Note
from ..correspondence.element_types import element_types
from ..correspondence.row import Row
from ..correspondence.spelling import Formal
from ..correspondence.values import MUST_BE_GIVEN
from .builder import Builder
from .promotion import Operand

Element = GraphTensor | Dim | int | float | bool | str | None
Value = Element | list[Element]
"""The value of an argument: a tensor of the graph, or a Python value (sizes, lists, tuples)."""

Results = Value | tuple[Value, ...]
"""The output of a call, or a tuple of several."""

WORD_DTYPES = element_types("pnnx")
"""Element types as PyTorch spells them, `torch.float32`; of several words for one, the first is written."""

_FLOAT_WORDS = ("inf", "-inf", "nan")

_CHECKS: Note[dict[str, GraphTensor]] = Note("required", dict)

_WANTED = {
    "int": "hold integers", "ints": "hold integers", "bool": "be True or False", "float": "be a number",
    "floats": "hold numbers", "text": "be a word",
}  # fmt: skip


class Call(Builder):
    """A call of the function `type`. Formats implement `argument` and `count`; tensors and numbers are operands."""

    is_module = False
    """True for a module, which owns its weights; false for a function."""

    def require(self, holds: GraphTensor, message: str) -> None:
        """Have each run check that a condition (bool[]) holds."""
        require(self.graph, holds, f"{self.type} '{self.name}': {message}")

    @property
    def count(self) -> int:
        """The number of outputs."""
        raise NotImplementedError

    def argument(self, name: str, default: Value = None) -> Value:
        """An argument; `default` where it is absent or None."""
        raise NotImplementedError

    def tensors(self) -> list[GraphTensor]:
        """The members of the list that is the first argument, all of them tensors."""
        raise NotImplementedError

    def given(self, name: str) -> bool:
        """Return whether an argument is given and not None."""
        return self.argument(name) is not None

    def has(self, name: str) -> bool:
        """Return whether an operand is given."""
        return self.given(name)

    def operand(self, name: str = "input") -> Operand:
        """An argument that is a tensor or a number."""
        value = self.argument(name)
        if isinstance(value, str) and value in _FLOAT_WORDS:
            return float(value)
        if isinstance(value, list) and value and all(type(one) in (int, float) for one in value):
            return self.constant(value, F32)
        if value is None or isinstance(value, (list, str)):
            raise self.rule(f"'{name}' must be a tensor or a number", shown(value))
        return value

    def tensor_of(self, name: str = "input", dtype: DType | None = None) -> GraphTensor:
        """An operand as a tensor, converted to `dtype` if given; a number becomes a scalar tensor."""
        return self.tensor(self.operand(name), dtype)

    def optional(self, name: str, dtype: DType | None = None) -> GraphTensor | None:
        """`tensor_of`, or None where the operand is not given."""
        return self.tensor_of(name, dtype) if self.has(name) else None

    def number(self, name: str, default: float) -> float:
        """Return a number with its Python type: an int or a float may decide the result dtype."""
        value: float = self.read_attribute(name, "float", default)
        return value

    def dtype(self, name: str = "dtype") -> DType | None:
        """An argument that is an element type; None where it is not given."""
        found: DType | None = self.read_attribute(name, "dtype", None)
        return found

    # The interface used by rows.

    def read_operand(self, formal: Formal) -> GraphTensor:
        """The operand of that name."""
        return self.tensor_of(formal.name)

    def is_given(self, formal: Formal) -> bool:
        """Return whether there is an argument of that name."""
        return self.has(formal.name)

    def read_attribute(self, name: str, kind: str, default: Any) -> Any:
        """An argument understood as `kind`; one integer counts as a list of one, and floats may be words."""
        value = self.argument(name)
        if value is None:
            if default is MUST_BE_GIVEN:
                raise self.rule(f"'{name}' must be given", "nothing")
            return default
        if kind == "dtype":
            if not isinstance(value, str) or value not in WORD_DTYPES:
                raise self.unsupported(f"{name}={shown(value)}")
            return WORD_DTYPES[value]
        is_list = kind in ("ints", "floats")
        items = value if isinstance(value, list) and is_list else [value]
        if any(isinstance(item, GraphTensor) for item in items):
            raise self.unsupported(
                f"'{name}' that depends on the model's data", "make it a number of the program"
            )
        found = [_understood(kind.removesuffix("s"), item) for item in items]
        if None in found:
            given = shown(items if "int" in kind else value)
            raise self.rule(f"'{name}' must {_WANTED[kind]}", given)
        return tuple(found) if is_list else found[0]

    def read_held(self, formal: Formal, kind: str, default: Any) -> Any:
        """An argument like any other: PyTorch takes attributes by position too."""
        plain = {"axis": "int", "axes": "ints"}.get(kind, kind)
        return self.read_attribute(formal.name, plain, default)

    def read_operands(self, row: Row, formals: Sequence[Formal]) -> list[GraphTensor]:
        """Return the operands in PyTorch's compute dtype."""
        args: list[Operand] = []
        for formal in formals:
            if formal.variadic:
                args += self.tensors()
            elif not formal.optional or self.is_given(formal):
                args.append(self.operand(formal.name))
        return self.unified(args, row.common, row.conditions)


@dataclass(frozen=True)
class Handler:
    """The importer of one function: `run(call)` returns its output, or a tuple of several.

    `slots` name the inputs that may be given by position; `*` takes any number. `ignored` do not affect the result.
    """

    run: Callable[[Any], Results]
    slots: tuple[str, ...] = ("input",)
    ignored: tuple[str, ...] = ()


def _understood(kind: str, value: Any) -> Any:
    """A value as a number, integer, bool or word; None if it is of another kind. Old files write bools as 1 and 0."""
    if kind == "bool":
        return bool(value) if type(value) in (bool, int) and value in (0, 1) else None
    if kind == "float" and isinstance(value, str) and value in _FLOAT_WORDS:
        return float(value)
    types = {"int": (int, Dim), "float": (bool, int, float), "text": (str,)}
    return value if type(value) in types[kind] else None


def shown(value: Any) -> str:
    """A value as messages have it."""
    if isinstance(value, GraphTensor):
        return f"a tensor {value.details}"
    text = "nothing" if value is None else repr(value)
    return text if len(text) <= 80 else f"{text[:80]}..."


def require(graph: Graph, holds: GraphTensor, message: str) -> None:
    """Have each run check that a condition (bool[]) holds."""
    _CHECKS.of(graph)[message] = holds


def make_checks(graph: Graph) -> None:
    """Append what the calls of a graph require, after its outputs."""
    for message, holds in _CHECKS.of(graph).items():
        graph.make_check(holds, message)
    _CHECKS.set(graph, {})
