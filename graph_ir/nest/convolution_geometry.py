"""The sizes of a convolution over at most two spatial axes, as the plain numbers that templates take."""

from __future__ import annotations

import math

from ...base.dims import bounds
from ...base.records import dataclass

REMEMBERED = 1024
"""Choices that cost models keep: passes ask for those of a geometry again, and networks repeat their layers."""


@dataclass(frozen=True)
class ConvolutionGeometry:
    """Pairs are (rows, columns); an image of one spatial axis has one row.

    `channels` and `outputs` are those of one group. Padding is zeros: `before` the image, and after it as far as the
    last window reaches. `is_dynamic`: the code must run for other sizes of images too, of which these are typical.
    `fewest`: minimum number of images that the code must run for, of which `batch` is typical; 0 where the number
    is known.
    """

    batch: int
    groups: int
    channels: int
    outputs: int
    image: tuple[int, int]
    result: tuple[int, int]
    kernel: tuple[int, int] = (1, 1)
    strides: tuple[int, int] = (1, 1)
    dilations: tuple[int, int] = (1, 1)
    before: tuple[int, int] = (0, 0)
    is_dynamic: bool = False
    fewest: int = 0

    @property
    def terms(self) -> int:
        """Number of terms accumulated per result element."""
        return self.channels * math.prod(self.kernel)

    @property
    def multiply_adds(self) -> int:
        """Multiply-adds of the whole convolution."""
        return self.batch * self.groups * self.outputs * math.prod(self.result) * self.terms

    def span(self, axis: int, windows: int) -> int:
        """Elements of the padded image spanned by `windows` adjacent windows along an axis."""
        reach = (self.kernel[axis] - 1) * self.dilations[axis] + 1
        return (windows - 1) * self.strides[axis] + reach

    def stays_inside(self, axis: int) -> bool:
        """Return whether no window reaches behind the image along an axis, for all values of dynamic sizes."""
        end = self.span(axis, self.result[axis]) - self.before[axis]
        return bounds(end - self.image[axis])[1] <= 0

    @property
    def is_padded(self) -> bool:
        """Return whether some window reaches over the border of the image."""
        return any(self.before[axis] > 0 or not self.stays_inside(axis) for axis in (0, 1))

    @property
    def is_pointwise(self) -> bool:
        """Return whether each result pixel depends only on the same image pixel."""
        return self.kernel == (1, 1) == self.strides and not self.is_padded

    def __str__(self) -> str:
        pairs = {"k": self.kernel, "s": self.strides, "d": self.dilations, "p": self.before}
        parts = [
            f"{letter}{a}x{b}"
            for letter, (a, b) in pairs.items()
            if letter == "k" or (a, b) != ((0, 0) if letter == "p" else (1, 1))
        ]
        lead = (f"b{self.batch}",) if self.batch != 1 else ()
        groups = (f"g{self.groups}",) if self.groups > 1 else ()
        sizes = (f"c{self.channels}i{self.image[0]}x{self.image[1]}",
                 f"o{self.outputs}r{self.result[0]}x{self.result[1]}")  # fmt: skip
        return "".join((*lead, *groups, *sizes, *parts))
