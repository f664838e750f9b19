"""Complex numbers between real inputs and results: pairs of real tensors, and Fourier transforms of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Any

from ...graph_ir.ir.graph import Graph
from ..correspondence.compositions.complex_numbers import Complex, zeros
from ..correspondence.compositions.fourier import Spectrum, transformed
from ..torch_calls.complex_numbers import (
    FORMULAS,
    MATMULS,
    PARTWISE,
    complex_call,
    holds_complex,
    joined,
    make_complex,
    make_polar,
    multiplied,
    part_of,
    parts_of_last,
    scaled,
    spectrum,
)
from .node import Node, Read
from .tensors import array_of

_PARTWISE = PARTWISE | {
    "_unsafe_view",
    "alias",
    "as_strided",
    "split_with_sizes",
    "lift_fresh_copy",
    "select_scatter",
}
"""Operators that do the same with both parts."""

_FORMULAS = {"_conj_physical": "conj", "conj_physical": "conj"}
"""Operators that the formulas have under other names."""


def is_complex_call(name: str, bound: Mapping[str, Any]) -> bool:
    """Return whether a call takes or makes complex numbers."""
    makes = name.removesuffix("_copy") in MAKING or "complex" in str(bound.get("dtype"))
    return makes or any(map(holds_complex, bound.values()))


def read_complex(node: Node, read: Read | None) -> Any:
    """Read an operator that takes or makes complex numbers; `read` reads it for real ones. May raise
    UnsupportedError."""
    name = node.type.removeprefix("aten.").removesuffix("_copy")
    if name in MAKING:
        return MAKING[name](node)
    if node.bound.get("dtype") == "torch.complex64" and "self" in node.bound:
        return _complex(node, spectrum(node))
    if name in _FORMULAS or name in FORMULAS:
        return _formula(node, _FORMULAS.get(name, name))
    if name in _PARTWISE and read is not None and node.bound.get("dtype") is None:
        return joined(*(_of_part(node, read, word, word) for word in ("real", "imag")))
    if name in MATMULS and read is not None:
        operands = list(node.bound.values())[:2]
        return multiplied(node, operands, partial(_of_part, node, read))
    raise node.unsupported("an operand of complex numbers")


def _complex(node: Node, x: Spectrum) -> Complex:
    return Complex(x.real, zeros(node, x.real) if x.imag is None else x.imag)


def constant_of(graph: Graph, tensor: Any, name: str) -> Any:
    """A tensor as a constant, or as a pair of them. Raise UnsupportedError for other types that graphs do not have."""
    if not tensor.is_complex():
        return graph.make_constant(array_of(tensor, name), name)
    return Complex(
        *(graph.make_constant(array_of(x, name), name) for x in (tensor.real, tensor.imag))
    )


def _of_part(node: Node, read: Read, first: str, second: str) -> Any:
    """The operator on parts of its first and its other operands."""
    words = iter((first,))
    bound = {name: part_of(value, next(words, second)) for name, value in node.bound.items()}
    shadow = Node(node.graph, node.type, f"{node.name}.{first}.{second}", bound, node.examples)
    found = read(shadow)
    shadow.check_all_read({})
    return list(found) if isinstance(found, tuple) else found


def _formula(node: Node, name: str) -> Any:
    """Operands by position; other arguments must say nothing."""
    count = FORMULAS[name][0]
    names = list(node.bound)
    if any(node.bound[other] not in (None, 1) for other in names[count:]):
        raise node.unsupported(f"{name} of complex numbers with {', '.join(names[count:])}")
    return complex_call(node, name, [node.argument(operand) for operand in names[:count]])


# Fourier transforms, whose axes and scales are numbers.


def _read_transform(node: Node) -> Any:
    """_fft_r2c, _fft_c2r and _fft_c2c: over the last axis of a list in half where the other side is real."""
    kind = node.type.rpartition("_")[2]
    x = spectrum(node)
    axes = [node.axis(axis, x.real.details.rank) for axis in node.attr_ints("dim")]
    inverse = kind == "c2r" or kind == "c2c" and not node.attr_bool("forward")
    half = kind == "c2r" or kind == "r2c" and node.attr_bool("onesided")
    dims = list(x.real.details.plain_dims)
    if kind == "c2r":
        dims[axes[-1]] = node.attr_int("last_dim_size")
    order = axes if kind == "c2r" else axes[::-1]  # the axis of a real side is first or last
    for axis in order:
        x = transformed(node, x, axis, dims[axis], inverse, half and axis == axes[-1])
    count = math.prod(dims[axis] for axis in axes)
    factor = {0: 1.0, 1: count**-0.5, 2: 1 / count}[node.attr_int("normalization")]
    x = scaled(node, x, factor * count if inverse else factor)
    return x.real if kind == "c2r" else _complex(node, x)


MAKING: dict[str, Read] = {
    "complex": make_complex,
    "polar": make_polar,
    "view_as_complex": parts_of_last,
    **dict.fromkeys(("_fft_r2c", "_fft_c2r", "_fft_c2c"), _read_transform),
}
"""Operators that make complex numbers of real ones, or real ones of a spectrum."""

HANDLERS = MAKING
