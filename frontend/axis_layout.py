"""Layouts as frameworks write them (`NHWC`, `OIHW4i8o`), and the ops that convert a tensor between them."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from ..base.records import dataclass
from ..graph_ir.ir.graph import GraphTensor
from .op_builder import OpBuilder

_TOKEN = re.compile(r"([A-Z])|([1-9]\d{0,5})([a-z])", re.ASCII)


@dataclass(frozen=True)
class AxisLayout:
    """`axes` are those in memory: (letter, 0) a whole axis or the outer part of a blocked one; (letter, n) a block of
    n.

    Blocks of one axis are listed from the outermost to the innermost.
    """

    axes: tuple[tuple[str, int], ...]

    @property
    def letters(self) -> str:
        """The axes of the plain tensor, in their order here."""
        return "".join(letter for letter, block in self.axes if not block)

    def positions(self, letter: str) -> list[int]:
        """Return the positions of an axis and its blocks, from the outermost."""
        found = [i for i, (other, _) in enumerate(self.axes) if other == letter]
        return sorted(found, key=lambda i: self.axes[i][1] != 0)

    def plain_dims(self, dims: Sequence[int]) -> dict[str, int]:
        """Size of each axis of the plain tensor, for a tensor of these sizes in memory."""
        sizes = dict.fromkeys(self.letters, 1)
        for (letter, _), size in zip(self.axes, dims, strict=True):
            sizes[letter] *= size
        return sizes

    def fits(self, dims: Sequence[int]) -> bool:
        """Return whether a tensor of these sizes can have this layout."""
        if len(dims) != len(self.axes):
            return False
        return all(
            size == block or not block for (_, block), size in zip(self.axes, dims, strict=True)
        )


def parse_layout(text: str) -> AxisLayout | None:
    """The layout of a text; None where it is none."""
    axes: list[tuple[str, int]] = []
    at = 0
    while match := _TOKEN.match(text, at):
        axes.append((match[1], 0) if match[1] else (match[3].upper(), int(match[2])))
        at = match.end()
    whole = [letter for letter, block in axes if not block]
    known = len(set(whole)) == len(whole) and {letter for letter, _ in axes} == set(whole)
    return AxisLayout(tuple(axes)) if at == len(text) and whole and known else None


def known_layout(text: str) -> AxisLayout:
    """The layout of a text that is one."""
    found = parse_layout(text)
    assert found is not None, text
    return found


def relaid(build: OpBuilder, x: GraphTensor, source: AxisLayout, target: AxisLayout) -> GraphTensor:
    """A tensor in another layout of the same axes; x itself if nothing moves.

    Raise UserError if it does not have the source layout, or if blocks do not divide an axis.
    """
    if not source.fits(x.details.plain_dims) or sorted(source.letters) != sorted(target.letters):
        raise build.rule(
            f"the tensor must have the axes {shown(source)} to become {shown(target)}",
            str(x.details),
        )
    sizes = source.plain_dims(x.details.plain_dims)
    # Axis and blocks of each letter become neighbors, from the outermost: one axis when they are joined.
    x = build.transposed(x, [i for letter in target.letters for i in source.positions(letter)])
    x = build.reshaped(x, [sizes[letter] for letter in target.letters])
    order: list[int] = []
    apart: list[int] = []
    for letter in target.letters:
        positions = target.positions(letter)
        blocks = [target.axes[i][1] for i in positions[1:]]
        outer, rest = divmod(sizes[letter], math.prod(blocks))
        if rest:
            raise build.rule(
                f"blocks of {math.prod(blocks)} must divide axis {letter}",
                f"{sizes[letter]} elements",
            )
        order += positions
        apart += [outer, *blocks]
    x = build.reshaped(x, apart)
    return build.transposed(x, [order.index(i) for i in range(len(order))])


class Image:
    """A tensor of any layout as `x`: [N, C, sizes...], whose spatial axes are the letters `spatial`."""

    def __init__(self, build: OpBuilder, x: GraphTensor, layout: AxisLayout, spatial: str) -> None:
        self.build, self.layout, self.spatial = build, layout, spatial
        self.plain = known_layout(f"NC{spatial}")
        self.x = relaid(build, x, layout, self.plain)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes of the spatial axes."""
        return self.x.details.plain_dims[2:]

    def back(self, y: GraphTensor, layout: AxisLayout | None = None) -> GraphTensor:
        """[N, C, sizes...] in the layout that x had, or in another."""
        return relaid(self.build, y, self.plain, layout or self.layout)

    def per_axis(self, name: str, values: Sequence[int]) -> tuple[int, ...]:
        """An attribute's entries for the spatial axes; one stands for all."""
        count = len(self.spatial)
        values = tuple(values) * count if len(values) == 1 else tuple(values)
        if len(values) != count:
            raise self.build.rule(f"{name} must have {count} entries", str(list(values)))
        return values


def shown(layout: AxisLayout) -> str:
    """The text of a layout."""
    return "".join(f"{block}{name.lower()}" if block else name for name, block in layout.axes)
