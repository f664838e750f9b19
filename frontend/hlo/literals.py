"""Literals: the text between the parentheses of `constant(...)` to arrays."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from ...base.errors import UserError
from .shapes import BITLESS, NUMPY, Shape
from .syntax import Literal

_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_OLD_SHAPE = re.compile(r"[a-z][a-z0-9]*\[[0-9,]*\](?:\{[0-9,]*\})?\s*", re.ASCII)
_PIECE = re.compile(r"[{}(),]|\.\.\.|-?nan\(0x[0-9a-fA-F]{1,16}\)|[^\s,{}()]++", re.ASCII)
_NUMBER = re.compile(
    r"-?(?:\d{1,400}(?:\.\d{0,400})?|\.\d{1,400})(?:[eE][+-]?\d{1,4})?|-?inf|-?nan", re.ASCII
)
_INTEGER = re.compile(r"-?\d{1,20}", re.ASCII)
_PAYLOAD = re.compile(r"(-?)nan\(0x([0-9a-fA-F]+)\)", re.ASCII)
_BOOLS = {"true": 1, "false": 0, "1": 1, "0": 0}
_MANTISSA = {"float16": 10, "bfloat16": 7, "float32": 23, "float64": 52}
_BITS: dict[int, type[np.unsignedinteger]] = {2: np.uint16, 4: np.uint32, 8: np.uint64}

MOST_ELEMENTS = 1 << 27
"""Limit for arrays created while reading: 1 GiB of the widest type."""


def parse_literal(text: str, shape: Shape) -> Literal:
    """The value of `text`, which must have this shape; else a UserError without a position."""
    if shape.type in BITLESS:
        raise UserError(f"a constant cannot be of type {shape.type}")
    if "/" in text:
        text = _COMMENT.sub(" ", text)
    if not shape.is_tuple and not shape.dims:
        plain = text.strip()
        if _INTEGER.fullmatch(plain) or _NUMBER.fullmatch(plain):
            return Literal(_array([plain], shape))
    pieces = _PIECE.findall(_OLD_SHAPE.sub("", text) if "[" in text else text)
    pieces.reverse()
    literal = _tuple(pieces, shape) if shape.is_tuple else _value(pieces, shape)
    if pieces:
        raise UserError(f"a literal of {shape.logical()} must end here, got '{pieces[-1][:24]}'")
    return literal


def _tuple(pieces: list[str], shape: Shape) -> Literal:
    """Tuples are nested as deeply as the shape, whose depth is bounded."""
    _take(pieces, "(", shape)
    parts = []
    for index, element in enumerate(shape.elements):
        if index:
            _take(pieces, ",", shape)
        parts.append(_tuple(pieces, element) if element.is_tuple else _value(pieces, element))
    _take(pieces, ")", shape)
    return Literal(tuple(parts))


def _value(pieces: list[str], shape: Shape) -> Literal:
    if shape.type in BITLESS:
        raise UserError(f"a constant cannot be of type {shape.type}")
    leaves = _leaves(pieces, shape)
    return Literal(None if leaves is None else _array(leaves, shape))


def _take(pieces: list[str], wanted: str, shape: Shape) -> None:
    if not pieces or pieces[-1] != wanted:
        got = f"'{pieces[-1][:24]}'" if pieces else "its end"
        raise UserError(f"a literal of {shape.logical()} must have '{wanted}' here, got {got}")
    pieces.pop()


def _leaves(pieces: list[str], shape: Shape) -> list[str] | None:
    """The elements of an array in row-major order, braces checked against the sizes; None if they are left out."""
    braces = _Braces(shape)
    while pieces:
        piece = pieces.pop()
        if piece == ",":
            continue
        if piece == "(":
            piece = _complex(pieces, shape)
        braces.meet(piece)
        if not braces.depth:
            break
    return braces.result()


class _Braces:
    """The nested braces of an array literal: how deep, and how many entries each open one has so far."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.depth = 0
        self.counts = [0] * shape.rank
        self.leaves: list[str] = []
        self.elided = False

    def meet(self, piece: str) -> None:
        """Process one token other than a comma."""
        if piece == "{":
            self._open()
        elif piece == "}":
            self._close()
        elif piece == "...":
            self.elided = True
        elif piece == ")":
            raise self.error("a ')'")
        elif self.depth < self.shape.rank and self.shape.size:
            raise self.error(f"'{piece[:24]}' inside {self.depth} braces")
        else:
            self.leaves.append(piece)
            if self.depth:
                self.counts[self.depth - 1] += 1

    def result(self) -> list[str] | None:
        """The elements, or None."""
        if self.depth:
            raise self.error("a '{' that is not closed")
        if self.elided:
            return None
        if len(self.leaves) != self.shape.size:
            raise self.error(f"{len(self.leaves)} elements")
        return self.leaves

    def error(self, got: str) -> UserError:
        """The error for a different structure."""
        return UserError(f"a literal must have the structure of {self.shape.logical()}, got {got}")

    def _open(self) -> None:
        if self.depth == self.shape.rank:
            raise self.error(f"braces nested {self.depth + 1} deep")
        if self.depth:
            self.counts[self.depth - 1] += 1
        self.counts[self.depth] = 0
        self.depth += 1

    def _close(self) -> None:
        if not self.depth:
            raise self.error("a '}' without '{'")
        self.depth -= 1
        count, wanted = self.counts[self.depth], self.shape.dims[self.depth]
        if count != wanted and not self.elided and self.shape.size:
            raise self.error(f"{count} entries where axis {self.depth} has {wanted}")


def _complex(pieces: list[str], shape: Shape) -> str:
    parts = [pieces.pop() for _ in range(min(4, len(pieces)))]
    if len(parts) != 4 or parts[1] != "," or parts[3] != ")":
        raise _Braces(shape).error("a '(' that starts no complex number")
    return f"({parts[0]},{parts[2]})"


def _array(leaves: list[str], shape: Shape) -> np.ndarray:
    dtype = NUMPY[shape.type]
    if len(leaves) > MOST_ELEMENTS:
        raise UserError(f"a literal must not exceed {MOST_ELEMENTS} elements, got {len(leaves)}")
    if shape.type == "pred":
        convert: Callable[[list[str], Shape], np.ndarray] = _bools
    elif shape.type[0] in "su":
        convert = _integers
    elif shape.type[0] == "c":
        convert = _complexes
    else:
        convert = _floats
    return convert(leaves, shape).astype(dtype, copy=False).reshape(shape.dims)


def _bools(leaves: list[str], shape: Shape) -> np.ndarray:
    for leaf in leaves:
        if leaf not in _BOOLS:
            raise _element(shape, leaf)
    return np.array([_BOOLS[leaf] for leaf in leaves], np.bool_)


def _integers(leaves: list[str], shape: Shape) -> np.ndarray:
    bits = int(shape.type[1:])
    low, high = (
        (0, (1 << bits) - 1) if shape.type[0] == "u" else (-1 << bits - 1, (1 << bits - 1) - 1)
    )
    values = []
    for leaf in leaves:
        if leaf in _BOOLS:
            leaf = str(_BOOLS[leaf])
        if not _INTEGER.fullmatch(leaf) or not low <= (value := int(leaf)) <= high:
            raise _element(shape, leaf)
        values.append(value)
    return np.array(values, np.uint64 if shape.type[0] == "u" else np.int64)


def _floats(leaves: list[str], shape: Shape) -> np.ndarray:
    dtype = NUMPY[shape.type]
    payloads: list[int] = []
    values: list[float] = []
    for leaf in leaves:
        if leaf in _BOOLS:
            leaf = str(_BOOLS[leaf])
        elif not _NUMBER.fullmatch(leaf):
            if not _PAYLOAD.fullmatch(leaf):
                raise _element(shape, leaf)
            payloads.append(len(values))
            leaf = "nan"
        values.append(float(leaf))
    wide = np.array(values, np.float64)
    with np.errstate(all="ignore"):
        result = wide.astype(dtype)
    beyond = np.isinf(result.astype(np.float64)) & np.array(
        ["inf" not in leaf for leaf in leaves], bool
    )
    if beyond.any():
        raise _element(shape, leaves[int(np.argmax(beyond))])
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
    return np.array([word], _BITS[dtype.itemsize]).view(dtype)[0]


def _complexes(leaves: list[str], shape: Shape) -> np.ndarray:
    part = Shape("f32" if shape.type == "c64" else "f64")
    values: list[complex] = []
    for leaf in leaves:
        real, _, imaginary = leaf.strip("()").partition(",")
        pair = [float(_floats([text], part)[0]) for text in (real, imaginary or "0")]
        values.append(complex(*pair))
    return np.array(values, np.complex128)


def _element(shape: Shape, leaf: str) -> UserError:
    shown = leaf if len(leaf) <= 24 else f"{leaf[:24]}..."
    return UserError(f"an element of {shape.logical()} must be a {shape.type} value, got '{shown}'")
