"""Values of instructions while a module is imported: a tensor, two for complex numbers, or a tuple of values; a token
is the empty tuple."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from ...graph_ir.ir.graph import GraphTensor
from ..correspondence.compositions.complex_numbers import Complex
from .bounded_sizes import is_within
from .shapes import BITLESS, DTYPES, HLO_NAMES, PARTS, Shape, tuple_shape


def shape_of(value: Any) -> Shape:
    """The shape of a value."""
    if isinstance(value, Complex):
        part = shape_of(value.real)
        return replace(part, type=next(c for c in PARTS if PARTS[c] == part.type))
    if isinstance(value, GraphTensor):
        return Shape(HLO_NAMES[value.details.dtype], value.details.plain_dims)
    return tuple_shape(tuple(shape_of(part) for part in value))


def fits(shape: Shape, value: Any) -> bool:
    """Return whether a value is of this shape, layouts aside; a size written as a bound may be less."""
    if isinstance(value, Complex):
        return shape.type in PARTS and fits(replace(shape, type=PARTS[shape.type]), value.real)
    if isinstance(value, GraphTensor):
        dims = value.details.plain_dims
        same = len(dims) == shape.rank and all(
            is_within(size, written, axis in shape.dynamic)
            for axis, (size, written) in enumerate(zip(dims, shape.dims, strict=True))
        )
        return same and DTYPES.get(shape.type) == value.details.dtype
    if not shape.is_tuple:
        return shape.type in BITLESS and value == ()
    return len(shape.elements) == len(value) and all(map(fits, shape.elements, value))


def flattened(value: Any) -> Iterator[GraphTensor]:
    """The tensors in a value, depth first."""
    if isinstance(value, tuple):
        for part in value:
            yield from flattened(part)
    elif isinstance(value, Complex):
        yield from (value.real, value.imag)
    else:
        yield value


def built(shape: Shape, make: Callable[[Shape, str], GraphTensor], name: str = "") -> Any:
    """A value of a shape: a tensor by `make` for each array, whose name says its position in tuples."""
    if shape.is_tuple:
        return tuple(built(e, make, f"{name}.{i}") for i, e in enumerate(shape.elements))
    if shape.type in PARTS:
        part = replace(shape, type=PARTS[shape.type])
        return Complex(*(make(part, f"{name}.{word}") for word in ("real", "imag")))
    return () if shape.type in BITLESS else make(shape, name)


def restored(shape: Shape, tensors: Iterable[GraphTensor]) -> Any:
    """The inverse of `flattened`: these tensors as a value of a shape."""
    left = iter(tensors)
    return built(shape, lambda *_: next(left))
