"""Samples an image at computed points, by gathering neighboring pixels and summing them with weights."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from ..base.dims import Dim, Size
from ..base.dtypes import F32, S64, DType
from ..base.records import dataclass
from ..graph_ir.ir.graph import GraphTensor
from .correspondence.compositions.indexing import dynamic_size, positions
from .op_builder import OpBuilder

_CUBIC = -0.75  # the free parameter of Keys' convolution

Tap = tuple[GraphTensor, GraphTensor | None, GraphTensor | None]
"""Index along an axis, its weight (None: 1), and whether it is inside the image (None: it is)."""


@dataclass(frozen=True)
class Sampling:
    """mode: nearest, linear or cubic; padding: zeros, border or reflection.

    With `align_corners`, -1 and 1 are the centers of the outermost pixels, without it their outer edges. Points outside
    the image are brought in, or `by_tap` (PyTorch's cubic) each of the pixels around them.
    """

    mode: str
    padding: str
    align_corners: bool
    by_tap: bool = False


def grid_sample(build: OpBuilder, x: GraphTensor, grid: GraphTensor, how: Sampling) -> GraphTensor:
    """[N, C, *out] of an image [N, C, *sizes] and points [N, *out, axes], the last axis first, in [-1, 1]."""
    n, c, *sizes = x.details.plain_dims
    out, whole = grid.details.plain_dims[1:-1], math.prod(sizes)
    points = math.prod(out)
    flat = build.transposed(build.reshaped(x, (n, c, whole)), (0, 2, 1))
    rows = build.reshaped(flat, (n * whole, c))
    wide = x.details.dtype.accumulator if x.details.dtype.is_float else F32
    taps = []
    for axis, size in enumerate(sizes):
        part = build.sliced(grid, grid.details.rank - 1, len(sizes) - 1 - axis, 1)
        at = build.converted(build.reshaped(part, (n, points)), wide)
        taps.append(_Axis(build, size, how, wide).taps(at))
    start = build.helper("mul", positions(build, n, 0, 2), dynamic_size(build, whole))
    total = build.converted(_summed(build, rows, start, sizes, taps, wide), x.details.dtype)
    return build.reshaped(build.transposed(total, (0, 2, 1)), (n, c, *out))


def sample_at(
    build: OpBuilder,
    rows: GraphTensor,
    start: GraphTensor,
    sizes: Sequence[Size],
    coordinates: Sequence[GraphTensor],
) -> GraphTensor:
    """[..., C]: the image at points between its pixels, linearly between neighbors; 0 outside.

    `rows` [pixels of all images, C]; each point, at `coordinates` [...] per axis in pixels, lies in the image whose
    first row is `start` (s64, broadcasts).
    """
    dtype = coordinates[0].details.dtype
    how = Sampling("linear", "zeros", align_corners=True)
    pairs = zip(coordinates, sizes, strict=True)
    taps = [_Axis(build, size, how, dtype).neighbors(coordinate) for coordinate, size in pairs]
    return _summed(build, rows, start, sizes, taps, dtype)


def _summed(
    build: OpBuilder,
    rows: GraphTensor,
    start: GraphTensor,
    sizes: Sequence[Size],
    taps: Sequence[Sequence[Tap]],
    wide: DType,
) -> GraphTensor:
    """The sum over all choices of one tap per axis."""
    total: GraphTensor | None = None
    for chosen in itertools.product(*taps):
        value = _pixels(build, rows, start, sizes, chosen, wide)
        total = value if total is None else build.helper("add", total, value)
    assert total is not None
    return total


def _pixels(
    build: OpBuilder,
    rows: GraphTensor,
    start: GraphTensor,
    sizes: Sequence[Size],
    chosen: Sequence[Tap],
    wide: DType,
) -> GraphTensor:
    """One pixel for each point, times its weight: [..., C]; 0 outside, whatever the image holds."""
    coordinate = start
    for axis, (index, _, _) in enumerate(chosen):
        step = dynamic_size(build, math.prod(sizes[axis + 1 :]))
        coordinate = build.helper("add", coordinate, build.helper("mul", index, step))
    pixels = build.helper("gather", rows, coordinate, axis=0)
    inside = _combined(build, "and", [flag for _, _, flag in chosen if flag is not None])
    if inside is not None:
        nothing = build.constant(0, pixels.details.dtype)
        pixels = build.helper("select", inside, pixels, nothing)
    weight = _combined(build, "mul", [part for _, part, _ in chosen if part is not None])
    return pixels if weight is None else build.helper("mul", build.converted(pixels, wide), weight)


def _combined(build: OpBuilder, op_name: str, parts: Sequence[GraphTensor]) -> GraphTensor | None:
    """The parts [...] by one op, as [..., 1]; None where there are none."""
    if not parts:
        return None
    whole = parts[0]
    for part in parts[1:]:
        whole = build.helper(op_name, whole, part)
    return build.reshaped(whole, (*whole.details.plain_dims, 1))


@dataclass(frozen=True)
class _Axis:
    """One axis of the image."""

    build: OpBuilder
    size: Size
    how: Sampling
    dtype: DType

    def number(self, value: float) -> GraphTensor:
        return self.build.constant(value, self.dtype)

    def extent(self, size: Size, scale: float = 1.0, added: float = 0.0) -> GraphTensor:
        """`size * scale + added` as a scalar."""
        if not isinstance(size, Dim):
            return self.number(size * scale + added)
        whole = self.build.converted(dynamic_size(self.build, size), self.dtype)
        scaled = whole if scale == 1 else self.make("mul", whole, self.number(scale))
        return scaled if not added else self.make("add", scaled, self.number(added))

    def make(self, op_name: str, *inputs: GraphTensor, **attrs: float) -> GraphTensor:
        return self.build.helper(op_name, *inputs, **attrs)

    @property
    def low(self) -> float:
        """The least coordinate inside the image."""
        return 0.0 if self.how.align_corners else -0.5

    @property
    def span(self) -> Size:
        """The length of the range of coordinates inside the image."""
        return self.size - 1 if self.how.align_corners else self.size

    def taps(self, at: GraphTensor) -> list[Tap]:
        """The pixels that contribute to points at normalized coordinates."""
        half = self.make("mul", self.make("add", at, self.number(1)), self.extent(self.span, 0.5))
        coordinate = self.make("add", half, self.number(self.low))
        if self.how.mode == "nearest":
            coordinate = self.make("round", coordinate)
        coordinate = self._brought_in(coordinate)
        if self.how.mode == "nearest":
            return [self._tap(coordinate, None)]
        return self.neighbors(coordinate)

    def neighbors(self, coordinate: GraphTensor) -> list[Tap]:
        """The pixels around points at coordinates in pixels, with their weights."""
        base = self.make("floor", coordinate)
        fraction = self.make("sub", coordinate, base)
        offsets = (0, 1) if self.how.mode == "linear" else (-1, 0, 1, 2)
        return [
            self._tap(self.make("add", base, self.number(offset)), self._weight(fraction, offset))
            for offset in offsets
        ]

    def _brought_in(self, coordinate: GraphTensor) -> GraphTensor:
        if self.how.padding == "zeros" or (self.how.by_tap and self.how.mode == "cubic"):
            return coordinate
        if self.how.padding == "reflection":
            return self._reflected(coordinate)
        inside = self._inside(coordinate, self.low, self.extent(self.span, 1.0, self.low))
        return self.make("select", inside, coordinate, self._clamped(coordinate))

    def _clamped(self, coordinate: GraphTensor) -> GraphTensor:
        if not isinstance(self.size, Dim):
            return self.make("clamp", coordinate, min=0.0, max=float(max(self.size - 1, 0)))
        return self.make(
            "max", self.make("min", coordinate, self.extent(self.size - 1)), self.number(0)
        )

    def _reflected(self, coordinate: GraphTensor) -> GraphTensor:
        """Reflected at both ends, as often as needed."""
        if isinstance(self.span, int) and not self.span:
            return self.make("mul", coordinate, self.number(0))
        period = self.extent(self.span, 2.0)
        if isinstance(self.span, Dim):  # of a single pixel, which all points are brought to
            period = self.make("max", period, self.number(1))
        away = self.make("abs", self.make("sub", coordinate, self.number(self.low)))
        turn = self.make("mod", away, period)
        back = self.make("sub", period, turn)
        return self.make("add", self.make("min", turn, back), self.number(self.low))

    def _tap(self, coordinate: GraphTensor, weight: GraphTensor | None) -> Tap:
        """The pixel at an integer coordinate; outside the image, the one given by the padding mode, or none."""
        last = self.extent(self.size - 1)
        inside = self._inside(coordinate, 0, last) if self.how.padding == "zeros" else None
        if self.how.padding == "reflection":
            coordinate = self._reflected(coordinate)
        return self.build.converted(self._clamped(coordinate), S64), weight, inside

    def _inside(self, coordinate: GraphTensor, low: float, high: GraphTensor) -> GraphTensor:
        above = self.make("ge", coordinate, self.number(low))
        return self.make("and", above, self.make("le", coordinate, high))

    def _weight(self, fraction: GraphTensor, offset: int) -> GraphTensor:
        if self.how.mode == "linear":
            return self.make("sub", self.number(1), fraction) if not offset else fraction
        # Keys' cubic of the distance: a piece up to 1, another from 1 to 2.
        distance = self.make("abs", self.make("sub", fraction, self.number(offset)))
        a = _CUBIC
        if offset in (0, 1):
            powers = (a + 2, -(a + 3), 0.0, 1.0)
        else:
            powers = (a, -5 * a, 8 * a, -4 * a)
        value = self.number(powers[0])
        for factor in powers[1:]:
            value = self.make("add", self.make("mul", value, distance), self.number(factor))
        return value
