"""Variables of a kernel for sizes that are known at run time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from ...base.dims import Dim, Size, Symbol, size, symbols_of
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Let, Stmt, Var
from ..nest.convolution_geometry import ConvolutionGeometry


class LocalSizes:
    """Variables for the sizes of a kernel: what an expression of dynamic sizes is, computed once where its
    loops begin."""

    def __init__(self, taken: Iterable[Size]) -> None:
        self._taken = {symbol.name for symbol in symbols_of(taken)}
        self.lets: list[Stmt] = []

    def of(self, value: Size, name: str) -> Any:
        """Return a size as a symbol of the kernel, which `lets` bind; a number is returned unchanged."""
        if not isinstance(value, Dim):
            return value
        while name in self._taken:
            name += "_"
        self._taken.add(name)
        symbol = Symbol(name)
        self.lets.append(Let(Var(t.SIZE_PREFIX + name), t.as_expr(value)))
        return size(symbol)


def localized(g: ConvolutionGeometry, sizes: LocalSizes) -> ConvolutionGeometry:
    """A geometry whose heights and widths are variables."""
    (rows, columns), (lines, pixels) = g.image, g.result
    return replace(
        g,
        image=(sizes.of(rows, "image_rows"), sizes.of(columns, "image_columns")),
        result=(sizes.of(lines, "rows"), sizes.of(pixels, "columns")),
    )
