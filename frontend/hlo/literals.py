"""Literals: the text between the parentheses of `constant(...)` to arrays."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from ...base.errors import UserError
from .lexer import COMMENT, MAX_NESTED
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
_MANTISSA = {"float16": 10, "bfloat16": 7, "float32": 23, "float64": 52}

MAX_ELEMENTS = 1 << 27
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
        raise UserError(f"a constant must hold numbers, got the type {shape.type}")
    if not shape.is_tuple:
        taken = _taken(pieces, shape)
        if shape.dims and len(taken) == 1 and taken != ["..."]:
            return _splat(taken, shape)
        leaves = _leaves(taken, shape)
        return Literal(None if leaves is None else _array(leaves, shape))
    _take(pieces, "(", shape)
    parts = []
    for index, element in enumerate(shape.elements):
        if index:
            _take(pieces, ",", shape)
        parts.append(_value(pieces, element))
    _take(pieces, ")", shape)
    return Literal(tuple(parts))


def _splat(taken: list[str], shape: Shape) -> Literal:
    """An array of one value, written without braces."""
    if shape.size > MAX_ELEMENTS:
        raise UserError(f"a literal must not exceed {MAX_ELEMENTS} elements, got {shape.size}")
    return Literal(np.full(shape.dims, _array(taken, Shape(shape.type))))


def _take(pieces: list[str], wanted: str, shape: Shape) -> None:
    if not pieces or pieces[-1] != wanted:
        got = f"'{pieces[-1][:24]}'" if pieces else "its end"
        raise UserError(f"a literal of {shape.logical()} must have '{wanted}' here, got {got}")
    pieces.pop()


def _taken(pieces: list[str], shape: Shape) -> list[str]:
    """The next element or group in braces, without commas, which are optional; a complex number is one piece."""
    taken: list[str] = []
    depth = 0
    while pieces:
        piece = pieces.pop()
        if piece == ",":
            continue
        if piece == "(":
            number = [pieces.pop() for _ in range(min(4, len(pieces)))]
            if number[1::2] != [",", ")"]:
                raise _structure(shape, "a '(' that starts no complex number")
            piece = f"({number[0]},{number[2]})"
        taken.append(piece)
        depth += (piece == "{") - (piece == "}")
        if depth <= 0:
            break
    if depth > 0:
        raise _structure(shape, "a '{' that is not closed")
    return taken


def _leaves(taken: list[str], shape: Shape) -> list[str] | None:
    """The elements in row-major order, braces checked against the sizes; None if they are left out."""
    if shape.rank > MAX_NESTED:
        raise UserError(f"a literal must not exceed {MAX_NESTED} axes, got {shape.rank}")
    if "..." in taken:
        return None
    leaves = [piece for piece in taken if piece not in "{}"]
    if len(leaves) != shape.size:
        raise _structure(shape, f"{len(leaves)} elements")
    wanted = "#"
    for size in reversed(shape.dims):
        wanted = f"{{{wanted * size}}}"
    if leaves:
        for index, (piece, form) in enumerate(zip(taken, wanted, strict=False)):
            if (piece if piece in "{}" else "#") != form:
                before = sum(other not in "{}" for other in taken[:index])
                raise _structure(shape, f"'{piece[:24]}' after {before} elements")
    elif "{" * (shape.rank + 1) in "".join(taken):
        raise _structure(shape, f"braces nested {shape.rank + 1} deep")
    return leaves


def _structure(shape: Shape, got: str) -> UserError:
    return UserError(f"a literal must have the structure of {shape.logical()}, got {got}")


def _array(leaves: list[str], shape: Shape) -> np.ndarray:
    if len(leaves) > MAX_ELEMENTS:
        raise UserError(f"a literal must not exceed {MAX_ELEMENTS} elements, got {len(leaves)}")
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
    low = -1 << 63 if bits == 64 else low  # as XLA reads u64: the same bits
    values = []
    for leaf in leaves:
        plain = _BOOLS.get(leaf, leaf)
        if not _INTEGER.fullmatch(plain) or not low <= (value := int(plain)) <= high:
            raise _element(shape, leaf)
        values.append(value if is_signed else value % (1 << 64))
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
    for position in np.flatnonzero(np.isinf(result.astype(np.float64))):
        if "inf" not in plain[position]:
            raise _element(shape, leaves[position])
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
