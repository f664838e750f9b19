"""The syntax tree of HLO text: module, computation, instruction, operand, attribute values."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import field
from typing import NamedTuple

import numpy as np

from ...base.errors import GraphcError, UserError
from ...base.records import dataclass
from .shapes import Shape


class Origin:
    """The text a tree was read from: `label` names it in messages, offsets become lines and columns."""

    def __init__(self, source: str, label: str) -> None:
        self.source = source
        self.label = label
        self._lines: list[int] | None = None

    def position(self, offset: int) -> tuple[int, int]:
        """Return (line, column) of an offset in the text, both from 1."""
        if self._lines is None:
            self._lines = [found.end() for found in re.finditer("\n", self.source)]
        row = bisect_right(self._lines, offset)
        return row + 1, offset - (self._lines[row - 1] if row else 0) + 1

    def error(self, message: str, offset: int, kind: type[GraphcError] = UserError) -> GraphcError:
        """Return an error at an offset in the text."""
        line, column = self.position(offset)
        return kind(f"{self.label}:{line}:{column}: {message}")


@dataclass(frozen=True, slots=True)
class Raw:
    """An uninterpreted value (metadata, sharding, ...): its text, brackets and quotes included."""

    text: str


@dataclass(frozen=True, slots=True)
class Word:
    """A bare word: `GT`, `kLoop`, `rng_uniform`."""

    text: str


@dataclass(frozen=True, slots=True)
class Called:
    """The name of a computation; one written in place has been given a name."""

    name: str


class WindowDimension(NamedTuple):
    """One axis of `window={size=3x3 pad=1_1x1_1}`; `low` and `high` are elements of padding, negative ones crop."""

    size: int
    stride: int = 1
    low: int = 0
    high: int = 0
    base_dilation: int = 1
    window_dilation: int = 1
    reversal: int = 0


@dataclass(frozen=True, slots=True)
class DimLabels:
    """`b01f_01io->b01f`: what the axes of both inputs and of the output of a convolution are."""

    lhs: str
    rhs: str
    output: str


class SliceRange(NamedTuple):
    """`[start:limit:stride]`: one axis of `slice={[0:5], [2:9:3]}`."""

    start: int
    limit: int
    stride: int = 1


class PadRange(NamedTuple):
    """One axis of `padding=0_0x1_1_2`: elements added before, after and between; negative edges crop."""

    low: int
    high: int
    interior: int = 0


Attribute = (
    int
    | bool
    | float
    | str
    | tuple[int, ...]
    | tuple[tuple[int, ...], ...]
    | tuple[Called, ...]
    | tuple[WindowDimension, ...]
    | tuple[SliceRange, ...]
    | tuple[PadRange, ...]
    | Word
    | Called
    | DimLabels
    | Raw
)


@dataclass(frozen=True, slots=True)
class Literal:
    """The value of a constant: an array, a tuple of literals, or None where the text leaves the elements out."""

    value: np.ndarray | tuple[Literal, ...] | None

    @property
    def is_elided(self) -> bool:
        """Return whether (some of) the data is gone: `constant({...})`."""
        if isinstance(self.value, tuple):
            return any(part.is_elided for part in self.value)
        return self.value is None


class Operand(NamedTuple):
    """An operand: the name of an earlier instruction, `path` into its tuple, the shape if it is written."""

    name: str
    path: tuple[int, ...] = ()
    shape: Shape | None = None


@dataclass(frozen=True, slots=True)
class Instruction:
    """`name = shape opcode(operands), attributes`.

    `shape` is None where the text leaves it out. `number` is that of a parameter, `literal` the value of a constant.
    `offset` is the offset of the name in the text.
    """

    name: str
    opcode: str
    shape: Shape | None
    operands: tuple[Operand, ...] = ()
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    number: int = -1
    literal: Literal | None = None
    position: int = 0


@dataclass(frozen=True, slots=True)
class Computation:
    """A function: instructions in the order of the text, `root` is the name of the result's.

    `signature` holds the written parameters (name, shape) and the result's shape, None where there is none.
    """

    name: str
    instructions: tuple[Instruction, ...]
    root: str
    is_entry: bool = False
    signature: tuple[tuple[tuple[str, Shape], ...], Shape] | None = None
    execution_thread: str = ""
    position: int = 0

    @property
    def parameters(self) -> tuple[Instruction, ...]:
        """The parameters by their numbers."""
        found = [i for i in self.instructions if i.opcode == "parameter"]
        return tuple(sorted(found, key=lambda i: i.number))


@dataclass(frozen=True, slots=True)
class Module:
    """A file: callees come before their callers. `tables` holds the stack-frame tables of newer dumps, by name."""

    name: str
    computations: Mapping[str, Computation]
    entry: str
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    tables: Mapping[str, Mapping[int, str | Mapping[str, int]]] = field(default_factory=dict)
    origin: Origin = field(default_factory=lambda: Origin("", "text"), compare=False, repr=False)
    is_fragment: bool = field(default=False, compare=False)
    """True if computations or shapes are missing."""
