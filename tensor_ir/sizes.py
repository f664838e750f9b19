"""Sizes of buffers: between expressions of dynamic sizes (`base.dims`) and those of Tensor IR."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import cast

from ..base.dims import Dim, Size, Symbol, floor_quotient, minimum, size
from ..base.errors import InternalError
from ..base.scaled_sizes import scaled
from .builder import SIZE_PREFIX, size_expr
from .nodes import Binary, Cast, Const, Expr, Unary, Var


def size_of(expr: int | Expr) -> Size:
    """The size that a size of a buffer is: inverse of `size_expr`, except for the ranges of symbols."""
    if isinstance(expr, int):
        return expr
    if isinstance(expr, Const):
        return int(expr.value)
    if isinstance(expr, Var):
        return size(Symbol(expr.name.removeprefix(SIZE_PREFIX)))
    if isinstance(expr, Binary) and expr.op == "div" and isinstance(expr.right, Const):
        return floor_quotient(size_of(expr.left), int(expr.right.value))
    if isinstance(expr, Cast) and isinstance(expr.operand, Unary):
        scaled_value = expr.operand.operand
        if isinstance(scaled_value, Binary) and isinstance(scaled_value.left, Cast):
            factor = cast(Const, scaled_value.right).value
            return scaled(
                size_of(scaled_value.left.operand), float(factor), scaled_value.dtype.bits
            )
    if isinstance(expr, Binary) and expr.op in _OPERATIONS:
        return _OPERATIONS[expr.op](size_of(expr.left), size_of(expr.right))
    raise InternalError("a size of a buffer must be a polynomial of sizes, quotients and minima")


_OPERATIONS: dict[str, Callable[[Size, Size], Size]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "min": minimum,
}


def number_or_expr(value: Size | Expr) -> int | Expr:
    """A size as a number of a statement."""
    return size_expr(value) if isinstance(value, Dim) else value


def shape_of(sizes: Iterable[Size]) -> tuple[int | Expr, ...]:
    """Sizes as the shape of a buffer."""
    return tuple(size_expr(one) if isinstance(one, Dim) else one for one in sizes)


def elements_of(shape: Iterable[int | Expr]) -> int | Expr:
    """Return the number of elements of a buffer."""
    count = 1
    total: Expr | None = None
    for one in shape:
        if isinstance(one, int):
            count *= one
        else:
            total = one if total is None else total * one
    return count if total is None else total * count
