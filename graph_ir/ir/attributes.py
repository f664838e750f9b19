"""Typed attributes of ops. An attribute is declared once, in the class of its op, and read as `op.alpha`:

    alpha = FloatAttr("slope below 0", default=0.01)
    axis = AxisAttr("the axis whose elements add up to 1", default=-1)
    strides = IntsAttr("distance of neighboring windows", default=())

`Graph.make` checks each value and keeps it in one spelling (`check`): numbers of Python instead of NumPy's, tuples
instead of lists, axes counted from the front. A value equal to the default is not kept, so that it prints, compares and
hashes as an absent one.
"""

from __future__ import annotations

import math
import operator
from typing import Any, ClassVar, Generic, Protocol, TypeVar, overload

import numpy as np

from ...base.dtypes import DType, by_name
from ...base.errors import InternalError, UserError
from .format import Format
from .logical_tensor import LogicalTensor

T = TypeVar("T")
Self = TypeVar("Self", bound="Attribute[Any]")

REQUIRED: Any = object()
"""Default of an attribute that must be given."""


class AttributeOwner(Protocol):
    """The part of an op that its attributes see."""

    op_name: str
    name: str
    attrs: dict[str, Any]
    inputs: list[Any]

    def rule(self, rule: str, values: str, remedy: str = "") -> UserError:
        """An error in the house form."""


class Attribute(Generic[T]):
    """Base: a descriptor whose value on an op is what was given, or the default.

    `meaning`: a phrase for the documentation. `key`: the name in `attrs` and in texts, that of the member if empty.
    """

    type_name: str
    """The type's name in the documentation."""
    wanted: ClassVar[str]
    """The rule in the sentence "attribute 'k' must be ..."."""
    kind: ClassVar[Any] = object
    """The types of the values that may be given."""

    def __init__(self, meaning: str = "", *, default: Any = REQUIRED, key: str = "") -> None:
        self.meaning = meaning
        self.default = default
        self.key = key

    def __set_name__(self, owner: type, name: str) -> None:
        self.key = self.key or name

    @overload
    def __get__(self: Self, op: None, owner: type) -> Self: ...
    @overload
    def __get__(self, op: AttributeOwner, owner: type) -> T: ...
    def __get__(self, op: AttributeOwner | None, owner: type) -> Any:
        """The value of an op; of a class the declaration."""
        if op is None:
            return self
        return op.attrs[self.key] if self.key in op.attrs else self.default_of(op)

    @property
    def is_required(self) -> bool:
        """Return whether it must be given."""
        return self.default is REQUIRED

    @property
    def is_internal(self) -> bool:
        """Return whether it is of graphc's own making: never printed, hashed or compared."""
        return self.key.startswith(INTERNAL)

    def default_of(self, op: AttributeOwner) -> T:
        """The value where none is given, as this op means it."""
        if self.is_required:
            raise InternalError(f"attribute '{self.key}' of {op.op_name} '{op.name}' is missing")
        return self.default

    def check(self, op: AttributeOwner, value: Any) -> T:
        """The value in the spelling that is kept; raise UserError if it has another type or is out of range."""
        try:
            return self.convert(value)
        except (TypeError, ValueError):
            raise self.refusal(op, value) from None

    def convert(self, value: Any) -> T:
        """The value in the type of this attribute; raise TypeError or ValueError if it is of another."""
        if not isinstance(value, self.kind):
            raise TypeError
        return value

    def refusal(self, op: AttributeOwner, value: Any) -> UserError:
        """The error for a value of another type."""
        return op.rule(f"attribute '{self.key}' must be {self.wanted}", _shown(value))

    def type_text(self) -> str:
        """The attribute's type in the documentation."""
        return self.type_name

    def default_text(self) -> str:
        """The attribute's default in the documentation; "required" if there is none."""
        if self.is_required:
            return "required"
        return "none" if self.default is None else str(self.default).lower()


INTERNAL = "temp."
"""Prefix of the names of attributes that passes leave for each other: any value, not part of an op's semantics."""


class IntAttr(Attribute[int]):
    """An integer, `least` or more."""

    type_name = "int"
    wanted = "an integer"

    def __init__(
        self, meaning: str = "", *, default: Any = REQUIRED, least: int | None = None
    ) -> None:
        super().__init__(meaning, default=default)
        self.least = least

    def convert(self, value: Any) -> int:
        """A Python int; bool is not an integer here."""
        return integer(value)

    def check(self, op: AttributeOwner, value: Any) -> int:
        """An integer in range."""
        number = super().check(op, value)
        if self.least is not None and number < self.least:
            raise op.rule(f"{self.key} must be {self.least} or more", str(number))
        return number


class FloatAttr(Attribute[float]):
    """A number, kept as a float."""

    type_name = "float"
    wanted = "a number"

    def convert(self, value: Any) -> float:
        """A Python float."""
        return float(number_of(value))


class NumberAttr(Attribute[float]):
    """A number, kept as the integer, float or bool it is."""

    type_name = "number"
    wanted = "a number"

    def convert(self, value: Any) -> float:
        """An int, float or bool of Python."""
        plain = value.item() if isinstance(value, np.generic) else value
        return plain if isinstance(plain, bool) else number_of(plain)


class BoolAttr(Attribute[bool]):
    """True or false; false unless the declaration says otherwise."""

    type_name = "bool"
    wanted = "true or false"
    kind = (bool, np.bool_)

    def __init__(self, meaning: str = "", *, default: Any = False) -> None:
        super().__init__(meaning, default=default)

    def convert(self, value: Any) -> bool:
        """A Python bool."""
        return bool(super().convert(value))


class StrAttr(Attribute[str]):
    """Any text."""

    type_name = "str"
    wanted = "a text"
    kind = str

    def convert(self, value: Any) -> str:
        """A Python str."""
        return str(super().convert(value))


class ChoiceAttr(StrAttr):
    """One of several words; the first is the default."""

    def __init__(self, meaning: str, *choices: str) -> None:
        super().__init__(meaning, default=choices[0])
        self.choices = choices

    def check(self, op: AttributeOwner, value: Any) -> str:
        """One of the words."""
        if value not in self.choices:
            raise op.rule(f"{self.key} must be one of {', '.join(self.choices)}", _shown(value))
        return str(value)

    def type_text(self) -> str:
        """The words."""
        return " ".join(self.choices)


class DTypeAttr(Attribute[DType]):
    """An element type, also given by its name."""

    type_name = "dtype"
    wanted = "a dtype or its name"
    kind = DType

    def convert(self, value: Any) -> DType:
        """The DType."""
        return by_name(value) if isinstance(value, str) else super().convert(value)


class FormatAttr(Attribute[Format]):
    """A layout."""

    type_name = "layout"
    wanted = "a layout"
    kind = Format


class TensorTypeAttr(Attribute[LogicalTensor]):
    """An element type, sizes and a layout."""

    type_name = "tensor type"
    wanted = "a tensor type"
    kind = LogicalTensor


class ArrayAttr(Attribute[np.ndarray[Any, Any]]):
    """An array, plain."""

    type_name = "array"
    wanted = "an array"
    kind = (np.ndarray, np.generic)

    def convert(self, value: Any) -> np.ndarray[Any, Any]:
        """The NumPy array."""
        return np.asarray(super().convert(value))


class OptionalAttr(Attribute[T | None]):
    """An attribute that may be absent, which reads as none: `optional(...)`."""

    def __init__(self, inner: Attribute[T]) -> None:
        super().__init__(inner.meaning, default=None)
        self.inner = inner
        self.type_name = inner.type_name

    def __set_name__(self, owner: type, name: str) -> None:
        super().__set_name__(owner, name)
        self.inner.key = self.key

    def check(self, op: AttributeOwner, value: Any) -> T | None:
        """None, or what the attribute itself takes."""
        return None if value is None else self.inner.check(op, value)

    def type_text(self) -> str:
        """The type of the attribute itself."""
        return self.inner.type_text()


def optional(attribute: Attribute[T]) -> Attribute[T | None]:
    """The same attribute, none where it is not given."""
    return OptionalAttr(attribute)


def integer(value: Any) -> int:
    """A Python int; raise TypeError for what is none, bool included."""
    if isinstance(value, (bool, np.bool_)):
        raise TypeError
    return operator.index(value)


def number_of(value: Any) -> int | float:
    """A Python int or float; raise TypeError for what is none, bool included."""
    plain = value.item() if isinstance(value, np.generic) else value
    if isinstance(plain, bool) or not isinstance(plain, (int, float)):
        raise TypeError
    return plain


def _shown(value: Any) -> str:
    """A value in a message; of an array only what it is."""
    if isinstance(value, np.ndarray):
        return f"an array {value.dtype}{list(value.shape)}"
    return repr(value)


def is_same(one: Any, other: Any) -> bool:
    """Return whether two checked values are one: -0.0 is not 0.0, NaN is itself."""
    if type(one) is not type(other) or isinstance(one, np.ndarray):
        return one is other
    if isinstance(one, float):
        same_sign = math.copysign(1.0, one) == math.copysign(1.0, other)
        return (one == other and same_sign) or (math.isnan(one) and math.isnan(other))
    return bool(one == other)
