"""The context of an operator's importer: the values known so far, and one operator with its arguments bound."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...base.dtypes import DType
from ...base.errors import UnsupportedError
from ...graph_ir.ir.graph import Array, Graph, GraphTensor
from ...graph_ir.ir.registry import names
from ..correspondence.spelling import Formal
from ..correspondence.values import MUST_BE_GIVEN
from .builder import Builder
from .param_value import ParamValue, parse_param_value
from .program import WORD_DTYPES, Operator
from .promotion import Operand
from .weights import Weights

Element = GraphTensor | int | float | bool | str | None
Value = Element | list[Element]
"""The value of an operand: a tensor of the graph, or a Python value (sizes, lists, tuples)."""

_FLOAT_WORDS = ("inf", "-inf", "nan")

IGNORED_PARAMS = frozenset(
    (
        *("inplace", "device", "layout", "requires_grad", "pin_memory", "non_blocking", "copy"),
        *("memory_format", "in_features", "out_features", "num_features", "num_parameters"),
        *("num_channels", "num_embeddings", "embedding_dim", "sparse", "scale_grad_by_freq"),
        *("padding_idx", "momentum", "generator", "max_norm", "norm_type"),
    )
)
"""Parameters that do not affect the result, or repeat the shapes of the weights."""


@dataclass(frozen=True)
class Handler:
    """The importer of one kind of operator: `run(node)` returns its output, or a tuple of several.

    `slots` name the inputs that may be given by position; `*` takes any number.
    """

    run: Callable[[Node], Value | tuple[Value, ...]]
    slots: tuple[str, ...] = ("input",)


class Scope:
    """Values by operand name, the graph they are built into, and the weights."""

    def __init__(self, graph: Graph, weights: Weights) -> None:
        self.graph = graph
        self.weights = weights
        self.values: dict[str, Value] = {}


class Node(Builder):
    """One operator: arguments from inputs, named inputs and parameters alike, with their types checked."""

    def __init__(self, op: Operator, slots: Sequence[str], scope: Scope) -> None:
        super().__init__(scope.graph, op.type, op.name)
        self.op = op
        self.scope = scope
        self._read: set[str] = set()
        self._attributes: dict[str, GraphTensor] = {}
        named, rest = _bind_keys(op)
        self.values: list[Value] = [scope.values[operand] for operand in rest]
        if tuple(slots) == ("*",):
            self.values = [scope.values[operand] for operand in op.inputs]
            named = {}
        else:
            _bind_slots(self, slots, named, rest)
        self._inputs = named

    @property
    def count(self) -> int:
        """Number of outputs in the file."""
        return len(self.op.outputs)

    # Arguments.

    def given(self, name: str) -> bool:
        """Whether an argument is given and not None."""
        return self.argument(name) is not None

    def argument(self, name: str, default: Value = None) -> Value:
        """An argument, from an input or a parameter; `default` where it is absent."""
        self._read.add(name)
        if name in self._inputs:
            given = self.scope.values[self._inputs[name]]
            return default if given is None else given
        if name in self.op.params:
            value: ParamValue = parse_param_value(self.op.params[name])
            return default if value is None else value  # type: ignore[return-value]
        return default

    def text(self, name: str) -> str | None:
        """A parameter exactly as it stands in the file."""
        self._read.add(name)
        return self.op.params.get(name)

    def operand(self, name: str = "input") -> Operand:
        """An argument that is a tensor or a number."""
        value = self.argument(name)
        if isinstance(value, str) and value in _FLOAT_WORDS:
            return float(value)
        if value is None or isinstance(value, (list, str)):
            raise self.rule(f"'{name}' must be a tensor or a number", _shown(value))
        return value

    def tensor_of(self, name: str = "input", dtype: DType | None = None) -> GraphTensor:
        """An argument as a tensor, converted to `dtype` if given; a number becomes a scalar tensor."""
        return self.tensor(self.operand(name), dtype)

    def optional(self, name: str, dtype: DType | None = None) -> GraphTensor | None:
        """`tensor_of`, or None where the argument is not given."""
        return self.tensor_of(name, dtype) if self.given(name) else None

    def number(self, name: str, default: float) -> float:
        """A number; `inf` and `nan` are stored as words."""
        value = self.argument(name, default)
        if isinstance(value, str) and value in _FLOAT_WORDS:
            return float(value)
        if isinstance(value, GraphTensor):
            raise self.unsupported(f"'{name}' that depends on the model's data")
        if not isinstance(value, (int, float)):
            raise self.rule(f"'{name}' must be a number", _shown(value))
        return value

    def integer(self, name: str, default: int | None = None) -> int:
        """An integer; it must be given where there is no default."""
        (value,) = self._integers(name, [self.argument(name, default)])
        return value

    def integers(self, name: str, default: Sequence[int] | None = None) -> list[int]:
        """A list of integers; one integer counts as a list of one, and the empty list is written as None."""
        value = self.argument(name, None if default is None else list(default))
        if value is None and not (name in self.op.params or default is not None):
            raise self.rule(f"'{name}' must be given", "nothing")
        return self._integers(
            name, value if isinstance(value, list) else [] if value is None else [value]
        )

    def _integers(self, name: str, values: Sequence[Value]) -> list[int]:
        if any(isinstance(value, GraphTensor) for value in values):
            raise self.unsupported(f"'{name}' that depends on the model's data")
        if not all(type(value) is int for value in values):
            raise self.rule(f"'{name}' must hold integers", _shown(list(values)))
        return [value for value in values if isinstance(value, int)]

    def flag(self, name: str, default: bool) -> bool:
        """A bool; old files write 1 and 0."""
        value = self.argument(name, default)
        if value not in (True, False) or isinstance(value, (float, GraphTensor)):
            raise self.rule(f"'{name}' must be True or False", _shown(value))
        return bool(value)

    def word(self, name: str, default: str) -> str:
        """A parameter that is a word."""
        value = self.argument(name, default)
        if not isinstance(value, str):
            raise self.rule(f"'{name}' must be a word", _shown(value))
        return value

    def dtype(self, name: str = "dtype") -> DType | None:
        """A parameter that names an element type; None where it is not given."""
        value = self.argument(name)
        if value is None:
            return None
        if not isinstance(value, str) or value not in WORD_DTYPES:
            raise self.unsupported(f"{name}={_shown(value)}")
        return WORD_DTYPES[value]

    def weight(self, key: str, dtype: DType | None = None) -> GraphTensor:
        """Attribute `key`, read from the archive once, as a constant, converted to `dtype` if given."""
        if key not in self._attributes:
            if key not in self.op.attributes:
                known = ", ".join(f"@{name}" for name in self.op.attributes) or "none"
                raise self.rule(f"attribute '@{key}' must be given", known)
            declared = self.op.attributes[key]
            array = self.scope.weights.read(self.name, key, declared)
            self._attributes[key] = self.stored(array, key)
        constant = self._attributes[key]
        return constant if dtype is None else self.converted(constant, dtype)

    # The interface used by rows.

    def read_operand(self, formal: Formal) -> GraphTensor:
        """An argument by name, or the attribute that a module has in its place."""
        if formal.name in self.op.attributes:
            return self.weight(formal.name)
        return self.tensor_of(formal.name)

    def read_variadic(self, formal: Formal) -> list[GraphTensor]:
        """The members of a list."""
        value = self.argument(formal.name)
        members = value if isinstance(value, list) else [value]
        if not members or not all(isinstance(x, GraphTensor) for x in members):
            raise self.rule(f"'{formal.name}' must be a list of tensors", _shown(value))
        return [x for x in members if isinstance(x, GraphTensor)]

    def is_given(self, formal: Formal) -> bool:
        """Whether the argument or attribute of that name is there."""
        return formal.name in self.op.attributes or self.given(formal.name)

    def read_known(self, formal: Formal) -> Array:
        """A number or a list of numbers, as PyTorch takes it in place of a tensor."""
        return np.asarray(self.integers(formal.name))

    def read_attribute(self, name: str, kind: str, default: Any) -> Any:
        """An argument understood as `kind`."""
        absent = None if default is MUST_BE_GIVEN else default
        if kind == "dtype":
            return self.dtype(name) or absent
        if kind in ("float", "int", "text") and absent is None and not self.given(name):
            if default is MUST_BE_GIVEN:
                raise self.rule(f"'{name}' must be given", "nothing")
            return None
        if kind == "ints":
            return tuple(self.integers(name, absent))
        read: dict[str, Callable[..., Any]] = {
            "float": self.number, "int": self.integer, "bool": self.flag, "text": self.word,
        }  # fmt: skip
        return read[kind](name, absent)

    def read_operands(
        self, row_name: str, formals: Sequence[Formal], conditions: int
    ) -> list[GraphTensor]:
        """In the type PyTorch computes them in."""
        if any(formal.variadic for formal in formals):
            return super().read_operands(row_name, formals, conditions)
        args = [
            self.weight(formal.name)
            if formal.name in self.op.attributes
            else self.operand(formal.name)
            for formal in formals
            if not formal.optional or self.is_given(formal)
        ]
        known = row_name in names()
        return self.operands_for(row_name, args) if known else [self.tensor(x) for x in args]

    def check_all_read(self) -> None:
        """UnsupportedError for parameters that were never read: they might affect the result."""
        left = [
            f"{name}={text}"
            for name, text in self.op.params.items()
            if name not in self._read and name not in IGNORED_PARAMS and text != "None"
        ]
        left += [f"${name}" for name in self._inputs if name not in self._read]
        if left:
            raise UnsupportedError(
                f"{self.op}: these parameters are not supported: {', '.join(left)}"
            )


def _bind_keys(op: Operator) -> tuple[dict[str, str], list[str]]:
    """Named inputs by key, and the operands that are left, in order.

    A key names every occurrence of its operand, unless several keys share it: then they take them in order.
    """
    left = list(op.inputs)
    named: dict[str, str] = {}
    for position, (key, operand) in enumerate(op.keys):
        later = any(other == operand for _, other in op.keys[position + 1 :])
        named[key] = operand
        if later and operand in left:
            left.remove(operand)
        elif not later:
            left = [other for other in left if other != operand]
    return named, left


def _bind_slots(node: Node, slots: Sequence[str], named: dict[str, str], rest: list[str]) -> None:
    """Assign operands without a key to the remaining slots. `self` is an alias of the first slot."""
    if slots and "self" in named and "self" not in slots:
        named[slots[0]] = named.pop("self")
    free = [slot for slot in slots if slot not in named and slot not in node.op.params]
    if len(rest) > len(free):
        raise node.rule(
            f"inputs are {', '.join(slots) or 'not taken'}", f"{len(node.op.inputs)} inputs"
        )
    named.update(zip(free, rest, strict=False))


def _shown(value: Any) -> str:
    if isinstance(value, GraphTensor):
        return f"a tensor {value.details}"
    text = "nothing" if value is None else repr(value)
    return text if len(text) <= 80 else f"{text[:80]}..."
