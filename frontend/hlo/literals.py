"""Literals: the text between the parentheses of `constant(...)` to arrays."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from ...base.errors import UserError
from .lexer import COMMENT, MOST_NESTED
from .shapes import BITLESS, NUMPY, Shape
from .syntax import Literal

_OLD_SHAPE = re.compile(r"[a-z][a-z0-9]*\[[0-9,]*\](?:\{[0-9,]*\})?\s*", re.ASCII)
_PIECE = re.compile(r"[{}(),]|\.\.\.|-?nan\(0x[0-9a-fA-F]{1,16}\)|[^\s,{}()]++", re.ASCII)
_NUMBER = re.compile(
    r"-?(?:\d{1,400}(?:\.\d{0,400})?|\.\d{1,400})(?:[eE][+-]?\d{1,4})?|-?inf|-?nan", re.ASCII
)
_INTEGER = re.compile(r"-?\d{1,20}", re.ASCII)
_PAYLOAD = re.compile(r"(-?)nan\(0x([0-9a-fA-F]+)\)", re.ASCII)
_BOOLS = {"true": "1", "false": "0", "1": "1", "0": "0"}
_MARKS = ("{", "}", "(", ")", "...", "")
_MANTISSA = {"float16": 10, "bfloat16": 7, "float32": 23, "float64": 52}

MOST_ELEMENTS = 1 << 27
"""Limit for arrays created while reading: 1 GiB of the widest type."""


def parse_literal(text: str, shape: Shape) -> Literal:
    """The value of `text`, which must have this shape; else a UserError without a position."""
    if "/" in text:
        text = COMMENT.sub(" ", text)
    if not shape.is_tuple and not shape.dims and shape.type not in BITLESS:
        plain = text.strip()
        if _NUMBER.fullmatch(plain):
            return Literal(_array([plain], shape))
    pieces = _PIECE.findall(_OLD_SHAPE.sub("", text) if "[" in text else text)
    pieces.reverse()
    literal = _value(pieces, shape)
    if pieces:
        raise UserError(f"a literal of {shape.logical()} must end here, got '{pieces[-1][:24]}'")
    return literal


def _value(pieces: list[str], shape: Shape) -> Literal:
    """Tuples are nested as deeply as the shape, whose depth is bounded."""
    if shape.type in BITLESS:
        raise UserError(f"a constant cannot be of type {shape.type}")
    if not shape.is_tuple:
        if shape.rank > MOST_NESTED:
            raise UserError(f"a literal must not exceed {MOST_NESTED} axes, got {shape.rank}")
        elements = _Elements(pieces, shape)
        elements.read(0)
        if elements.elided:
            return Literal(None)
        if len(elements.leaves) != shape.size:
            raise elements.error(f"{len(elements.leaves)} elements")
        return Literal(_array(elements.leaves, shape))
    _take(pieces, "(", shape)
    parts = []
    for index, element in enumerate(shape.elements):
        if index:
            _take(pieces, ",", shape)
        parts.append(_value(pieces, element))
    _take(pieces, ")", shape)
    return Literal(tuple(parts))


def _take(pieces: list[str], wanted: str, shape: Shape) -> None:
    if not pieces or pieces[-1] != wanted:
        got = f"'{pieces[-1][:24]}'" if pieces else "its end"
        raise UserError(f"a literal of {shape.logical()} must have '{wanted}' here, got {got}")
    pieces.pop()


class _Elements:
    """The elements of an array in row-major order; braces are checked against the sizes, commas are optional."""

    def __init__(self, pieces: list[str], shape: Shape) -> None:
        self.pieces = pieces
        self.shape = shape
        self.leaves: list[str] = []
        self.elided = False

    def read(self, axis: int) -> None:
        """The elements of one entry of the axes before `axis`: a number, or braces around entries of the axis."""
        piece = self.next()
        is_leaf = axis == self.shape.rank
        if piece == "...":
            self.elided = True
        elif piece in _MARKS and piece != "(":
            if is_leaf or piece != "{":
                raise self.error(self.described(piece, axis))
            self.entries(axis)
        elif not is_leaf and self.shape.size:
            raise self.error(f"'{piece[:24]}' inside {axis} braces")
        else:
            self.leaves.append(self.complex_number() if piece == "(" else piece)

    def entries(self, axis: int) -> None:
        """What the braces of an axis hold."""
        count, wanted, is_last = 0, self.shape.dims[axis], axis + 1 == self.shape.rank
        while (piece := self.next(peek=True)) != "}":
            if is_last and piece not in _MARKS:
                self.leaves.append(self.pieces.pop())
            else:
                self.read(axis + 1)
            count += 1
        self.pieces.pop()
        if count != wanted and not self.elided and self.shape.size:
            raise self.error(f"{count} entries where axis {axis} has {wanted}")

    def next(self, peek: bool = False) -> str:
        """The next piece, commas skipped; "" at the end."""
        while self.pieces and self.pieces[-1] == ",":
            self.pieces.pop()
        return "" if not self.pieces else self.pieces[-1] if peek else self.pieces.pop()

    def complex_number(self) -> str:
        """The rest of `(1, -2)`."""
        parts = [self.pieces.pop() for _ in range(min(4, len(self.pieces)))]
        if len(parts) != 4 or parts[1] != "," or parts[3] != ")":
            raise self.error("a '(' that starts no complex number")
        return f"({parts[0]},{parts[2]})"

    def described(self, piece: str, axis: int) -> str:
        """What is wrong about a piece."""
        if piece == "{":
            return f"braces nested {axis + 1} deep"
        if not piece:
            return "a '{' that is not closed" if axis else "0 elements"
        return "a ')'" if piece == ")" else "a '}' without '{'"

    def error(self, got: str) -> UserError:
        """The error for a different structure."""
        return UserError(f"a literal must have the structure of {self.shape.logical()}, got {got}")


def _array(leaves: list[str], shape: Shape) -> np.ndarray:
    if len(leaves) > MOST_ELEMENTS:
        raise UserError(f"a literal must not exceed {MOST_ELEMENTS} elements, got {len(leaves)}")
    kind = "pred" if shape.type == "pred" else shape.type[0]
    values = _CONVERTERS.get(kind, _floats)(leaves, shape)
    return values.astype(NUMPY[shape.type], copy=False).reshape(shape.dims)


def _bools(leaves: list[str], shape: Shape) -> np.ndarray:
    for leaf in leaves:
        if leaf not in _BOOLS:
            raise _element(shape, leaf)
    return np.array([_BOOLS[leaf] == "1" for leaf in leaves], np.bool_)


def _integers(leaves: list[str], shape: Shape) -> np.ndarray:
    bits, is_signed = int(shape.type[1:]), shape.type[0] == "s"
    low, high = (-1 << bits - 1, (1 << bits - 1) - 1) if is_signed else (0, (1 << bits) - 1)
    values = []
    for leaf in leaves:
        plain = _BOOLS.get(leaf, leaf)
        if not _INTEGER.fullmatch(plain) or not low <= (value := int(plain)) <= high:
            raise _element(shape, leaf)
        values.append(value)
    return np.array(values, np.int64 if is_signed else np.uint64)


def _floats(leaves: list[str], shape: Shape) -> np.ndarray:
    dtype = NUMPY[shape.type]
    payloads = [i for i, leaf in enumerate(leaves) if leaf[-1] == ")"]
    plain = [_BOOLS.get(leaf, leaf) for leaf in leaves]
    for index in payloads:
        plain[index] = "nan" if _PAYLOAD.fullmatch(leaves[index]) else ""
    for leaf, number in zip(leaves, plain, strict=True):
        if not _NUMBER.fullmatch(number):
            raise _element(shape, leaf)
    with np.errstate(all="ignore"):
        result = np.array([float(number) for number in plain], np.float64).astype(dtype)
    for place in np.flatnonzero(np.isinf(result.astype(np.float64))):
        if "inf" not in plain[place]:
            raise _element(shape, leaves[place])
    for index in payloads:
        result[index] = _nan(leaves[index], dtype)
    return result


def _nan(leaf: str, dtype: np.dtype) -> Any:
    """A NaN with the given payload, dropped if the type has no room for it."""
    sign, payload = _PAYLOAD.fullmatch(leaf).groups()  # type: ignore[union-attr]
    mantissa = _MANTISSA.get(dtype.name)
    if mantissa is None:
        return np.array(np.nan).astype(dtype)[()]
    bits = 8 * dtype.itemsize
    ones = (1 << bits - 1) - (1 << mantissa)
    kept = int(payload, 16) & ((1 << mantissa) - 1) or 1 << mantissa - 1
    word = ones | kept | (1 << bits - 1 if sign else 0)
    return np.array([word], f"u{dtype.itemsize}").view(dtype)[0]


def _complexes(leaves: list[str], shape: Shape) -> np.ndarray:
    part = Shape("f32" if shape.type == "c64" else "f64")
    pairs = [(leaf.strip("()").split(",") + ["0"])[:2] for leaf in leaves]
    values = np.empty(len(leaves), np.complex128)
    values.real, values.imag = (_floats([pair[i] for pair in pairs], part) for i in range(2))
    return values


_CONVERTERS: dict[str, Callable[[list[str], Shape], np.ndarray]] = {
    "pred": _bools, "s": _integers, "u": _integers, "c": _complexes,
}  # fmt: skip


def _element(shape: Shape, leaf: str) -> UserError:
    shown = leaf if len(leaf) <= 24 else f"{leaf[:24]}..."
    return UserError(f"an element of {shape.logical()} must be a {shape.type} value, got '{shown}'")
