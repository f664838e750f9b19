"""A contraction as a problem: axes with their sizes, and where each operand keeps an element.

    C[free axes] = epilogue(sum over the reduced axes of A * B)

Matmul has the free axes m and n, batch axes before them, and the reduced axis k. Sizes are numbers or `Dim`s.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from ...base.dims import Size, bounds
from ...base.records import dataclass
from ...targets.isa import Microkernel
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Buffer, Expr, Slice, Stmt
from .epilogue import EpilogueValue, storing

Terms = tuple[tuple[Expr, Any], ...]
"""A position on an axis as a sum of iteration * step, outermost loop first."""


@dataclass(frozen=True)
class Window:
    """A dimension of a padded image: position sum(axis * `steps[axis]`) - `before`, zero outside of [0, `size`).

    `stride` is the distance of neighboring positions in memory.
    """

    steps: Mapping[str, int]
    before: int
    size: Any
    stride: Any

    def is_padded(self, sizes: Mapping[str, Any]) -> bool:
        """Return whether windows reach outside of the image, for some values of dynamic sizes."""
        reach = 1 - self.before + sum((sizes[axis] - 1) * step for axis, step in self.steps.items())
        return self.before > 0 or bounds(reach - self.size)[1] > 0


@dataclass(frozen=True)
class View:
    """The layout of an operand: an element lies at the sum over the axes of position * stride, in elements of `buffer`.

    `base` is the offset of the first element. `blocks` maps an axis that is split into blocks to (width of a block,
    distance of the blocks): position p lies at p // width * distance + p % width * stride. `windows` are the dimensions
    of a padded image, by name; their axes have strides too, and `base` may lie before the image. `is_aligned`: the
    buffer begins with a cache line.
    """

    buffer: Buffer
    strides: Mapping[str, Any]
    blocks: Mapping[str, tuple[int, Any]] = field(default_factory=dict)
    base: Expr = t.ZERO
    windows: Mapping[str, Window] = field(default_factory=dict)
    is_aligned: bool = True

    def at(self, offset: Expr) -> View:
        """Return the view from `offset` elements on."""
        return replace(self, base=self.base + offset)

    def of_batch(self, batch: Sequence[Expr], offset: Expr = t.ZERO) -> View:
        """Return the view of one matrix of a batch, from `offset` elements in it on."""
        for axis, index in enumerate(batch):
            offset = offset + index * self.strides[f"b{axis}"]
        return self.at(offset)

    def panel(self, number: Expr) -> View:
        """Return the view of a block of columns."""
        return self.at(number * self.blocks["n"][1])

    def address(self) -> Slice:
        """Return the address of the first element."""
        return Slice(self.buffer, (self.base,))

    def step(self, axis: str, step: Any = 1) -> Any:
        """Return the distance of elements that are `step` apart on `axis`; `step` does not cross into a block."""
        if axis in self.blocks:
            width, distance = self.blocks[axis]
            if isinstance(step, int) and step % width == 0:
                return step // width * distance
        return self.strides.get(axis, 0) * step

    def offset(self, position: Mapping[str, Terms]) -> Expr:
        """Return the offset of the element at a position."""
        total: Expr = self.base
        for axis, terms in position.items():
            width = self.blocks.get(axis, (1, 0))[0]
            if terms and all(not isinstance(step, int) or step % width for _, step in terms):
                total = total + self._across_blocks(axis, terms)
                continue
            for iteration, step in terms:
                stride = self.step(axis, step)
                if not (isinstance(stride, int) and stride == 0):
                    total = total + iteration * stride
        return total

    def _across_blocks(self, axis: str, terms: Terms) -> Expr:
        """The offset along an axis in blocks that no loop around runs through block by block."""
        width, distance = self.blocks[axis]
        at: Expr = t.ZERO
        for iteration, step in terms:
            at = at + iteration * step
        return at // width * distance + at % width * self.strides[axis]

    def outside(self, position: Mapping[str, Terms]) -> list[tuple[Expr, Any]]:
        """Return (position in a dimension, its size) of each dimension of a padded image."""
        found = []
        for window in self.windows.values():
            at: Expr = t.as_expr(-window.before)
            for axis, factor in window.steps.items():
                for iteration, step in position[axis]:
                    at = at + iteration * (step * factor)
            found.append((at, window.size))
        return found

    @property
    def dimensions(self) -> tuple[str, ...]:
        """Return the dimensions of a copy of a part of a padded image, none of other operands."""
        if not self.windows:
            return ()
        return ("iy", "k0", "ix", "k1") if "k" in self.blocks else ("iy", "ix", "k")

    @property
    def block_of_columns(self) -> int:
        """Return the width of the blocks that axis n is split into, 0 if it is not."""
        return self.blocks.get("n", (0, 0))[0]


@dataclass(frozen=True)
class Contraction:
    """The problem. `free` and `reduced` map axes to sizes, in the order of the naive nest.

    `kernel` says which instruction multiplies the operands and in which dtype they are summed. `lets` bind variables
    that sizes and strides use.
    """

    free: Mapping[str, Any]
    reduced: Mapping[str, Any]
    a: View
    b: View
    c: View
    kernel: Microkernel
    epilogue: EpilogueValue | None = None
    lets: tuple[Stmt, ...] = ()

    def view(self, operand: str) -> View:
        """Return the view of operand "A", "B" or "C"."""
        return {"A": self.a, "B": self.b, "C": self.c}[operand]

    @property
    def sizes(self) -> dict[str, Any]:
        """Return the size of every axis."""
        return {**self.free, **self.reduced}

    def of_sizes(self, **sizes: Size) -> Contraction:
        """Return the problem for other sizes of some axes; its operands keep their strides."""
        free = {axis: sizes.get(axis, size) for axis, size in self.free.items()}
        reduced = {axis: sizes.get(axis, size) for axis, size in self.reduced.items()}
        return replace(self, free=free, reduced=reduced)

    @property
    def batch(self) -> tuple[str, ...]:
        """Return the free axes of a batch: all but y, m and n."""
        return tuple(axis for axis in self.free if axis not in ("y", "m", "n"))

    def axes_of(self, operand: str) -> tuple[str, ...]:
        """Return the axes that an operand has, in the order of the naive nest."""
        view = self.view(operand)
        return tuple(axis for axis in self.sizes if axis in view.strides)


def matmul(
    batch: Sequence[Size],
    sizes: tuple[Size, Size, Size],
    views: tuple[View, View, View],
    kernel: Microkernel,
    epilogue: EpilogueValue | None,
) -> Contraction:
    """Return C[batch, m, n] = epilogue(A[batch, m, k] x B[batch, k, n]) for `sizes` m, n, k and views of A, B, C."""
    m, n, k = sizes
    a, b, c = views
    free = {f"b{axis}": size for axis, size in enumerate(batch)} | {"m": m, "n": n}
    epilogue = storing(epilogue, kernel.accumulator, c.buffer.dtype)
    return Contraction(free, {"k": k}, a, b, c, kernel, epilogue)
