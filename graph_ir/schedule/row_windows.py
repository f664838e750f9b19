"""Depthwise convolutions and pools of images whose rows are contiguous: which do, their blocks and predicted cycles."""

from __future__ import annotations

import math
from functools import cached_property

from ...base.contraction import accumulator_of
from ...base.dims import is_known
from ...base.dtypes import F32, DType
from ...targets.isa import Target
from ..ir.schedule import Schedule
from ..nest.convolution_geometry import ConvolutionGeometry
from ..ops.convolution import DepthwiseConvolution
from ..ops.pool import WindowReduce
from .context import LowerContext
from .problem import problem_of
from .space import ScheduleSpace

MAX_TAPS = 64
"""Maximum number of elements of the window of a convolution, each of which has a separate weight in the code."""

MAX_HEIGHT = 16
"""Rows of a convolution at once, where there are registers: their sums hide the latency of multiply-adds, and each
element is loaded once per column of the window for all of them (7x7, 96x56x56: 8 rows take 174 us, 14 take 157)."""

HEIGHTS = (1, 2, 3, 4, 6, 8, 10, 12, 14, 16, 20, 24)
"""Rows at once that are tried."""

STAGED_CYCLES = 3
"""Cycles of a vector of a line: copied from the image to any element offset (measured on Zen 5)."""

NAN_OPERATIONS = 3
"""Instructions of a minimum or maximum that keeps NaN."""


def pools_by_row(op: WindowReduce) -> bool:
    """Return whether the template of row windows runs a pool: floats, plain, one or two spatial axes behind
    two others."""
    x, y = op.inputs[0].details, op.outputs[0].details
    spatial = x.rank - 2
    if not x.dtype.is_float or spatial not in (1, 2) or op.window.rank != spatial:
        return False
    if not is_known(*x.plain_dims[2:]):
        return False  # lines of any length are not staged
    return x.format.is_plain and y.format.is_plain and y.elements > 0


def line_elements(g: ConvolutionGeometry) -> int:
    """Elements of a line: all columns under the windows of a row, with the padding."""
    return max(g.span(1, g.result[1]), 1)


def staged_lines(g: ConvolutionGeometry, is_convolution: bool, rows: int) -> int:
    """Lines staged for `rows` rows of results: those of the image, or one per row."""
    return g.span(0, rows) if is_convolution else rows


def lines_fit(
    g: ConvolutionGeometry, is_convolution: bool, dtype: DType, target: Target, rows: int = 1
) -> bool:
    """Return whether the lines staged for `rows` rows of results fit on the stack."""
    elements = staged_lines(g, is_convolution, rows) * line_elements(g)
    return elements * accumulator_of(dtype, dtype).size <= target.machine.max_local_bytes


def pick_row_blocking(
    g: ConvolutionGeometry, is_convolution: bool, target: Target, threads: int, dtype: DType = F32
) -> Schedule:
    """Return the number of rows that keep the staged lines in half of L1, in blocks of about equal size."""
    size = accumulator_of(dtype, dtype).size * line_elements(g)
    lines = max(target.l1_bytes // 2 // size, 1)
    rows = lines
    if is_convolution:
        rows = max((lines - g.span(0, 1)) // g.strides[0] + 1, 1)
    rows = min(rows, g.result[0])
    blocks = math.ceil(g.result[0] / rows)
    cycles = row_cycles(g, is_convolution, target, dtype)
    is_parallel = threads > 1 and cycles >= target.machine.parallel_cycles
    rows = math.ceil(g.result[0] / blocks)
    height = rows_at_once(g, target, rows) if is_convolution else 1
    split = "parallel" if is_parallel else "serial"
    return Schedule.of("row-windows", rows=rows, height=height, split=split)


def rows_at_once(g: ConvolutionGeometry, target: Target, rows: int) -> int:
    """Rows of a convolution at once, as many as there are registers beside the weights of a column of the window, an
    element and an address; groups of `rows` are about equal."""
    most = min(max(target.table.registers - g.kernel[0] - 2, 1), MAX_HEIGHT)
    return math.ceil(rows / math.ceil(rows / most))


def row_cycles(
    g: ConvolutionGeometry, is_convolution: bool, target: Target, dtype: DType = F32
) -> float:
    """Cycles on one core: vectors staged and combined, or the bytes of image and result."""
    machine, lanes = target.machine, target.lanes(accumulator_of(dtype, dtype))
    planes = g.batch * g.groups
    wide, narrow = math.ceil(line_elements(g) / lanes), math.ceil(g.result[1] / lanes)
    loads = 2 if g.strides[1] > 1 else 1  # an element apart: two loads and a shuffle
    if is_convolution:
        operations = g.image[0] * wide * STAGED_CYCLES + narrow * _sum_cycles(g, target, loads)
    else:
        step = NAN_OPERATIONS / machine.fma_per_cycle
        operations = g.result[0] * step * (wide * g.kernel[0] + narrow * g.kernel[1] * loads)
    moved = planes * dtype.size * (math.prod(g.image) + math.prod(g.result))
    return max(planes * operations, moved / machine.image_bytes_per_cycle)


def _sum_cycles(g: ConvolutionGeometry, target: Target, loads: int) -> float:
    """Cycles of one column of vectors of its results: multiply-adds, or loads, most of which cross lines."""
    machine, rows = target.machine, g.result[0]
    height = rows_at_once(g, target, rows)
    groups, lines = math.ceil(rows / height), (height - 1) * g.strides[0] + g.kernel[0]
    crossing = 1 + target.table.vector_bits / 8 / machine.cache_line
    loaded = math.prod(g.kernel) + min(lines, height * g.kernel[0]) * g.kernel[1] * loads * crossing
    multiplied = rows * math.prod(g.kernel) / machine.fma_per_cycle
    return max(multiplied, groups * loaded / machine.loads_per_cycle)


class WindowScheduleSpace(ScheduleSpace):
    """Schedules of windows of a depthwise convolution or a pool, in either layout."""

    words = ("split",)
    choices = {"split": ("parallel", "serial")}

    def __init__(
        self,
        op: DepthwiseConvolution | WindowReduce,
        geometry: ConvolutionGeometry,
        ctx: LowerContext,
    ) -> None:
        super().__init__(op.name, problem_of(op))
        self.geometry, self.dtype = geometry, op.inputs[0].details.dtype
        self.is_convolution = isinstance(op, DepthwiseConvolution)
        self.target, self.threads = ctx.target, ctx.options.threads


class RowWindowSpace(WindowScheduleSpace):
    """Blocks of windows over rows."""

    algorithm = "row-windows"
    meanings = {
        "rows": "rows of results staged together",
        "height": "rows of results computed at once",
        "split": "parallel or serial",
    }

    @cached_property
    def pick(self) -> Schedule:
        """The cost model's choice."""
        g, is_convolution = self.geometry, self.is_convolution
        return pick_row_blocking(g, is_convolution, self.target, self.threads, self.dtype)

    def ranked(self) -> list[Schedule]:
        """The pick, then other blocks, and more or fewer rows at once."""
        pick, rows = self.pick, self.geometry.result[0]
        size, at_once = pick.number("rows"), pick.number("height")
        counts = (1, max(size // 2, 1), min(size * 2, rows), rows)
        others = [pick, *(self._with(count, at_once) for count in counts)]
        if self.is_convolution:
            others += [self._with(size, height) for height in HEIGHTS]
        return [s for s in dict.fromkeys(others) if not self.invalid_reason(s)]

    def _with(self, rows: int, height: int) -> Schedule:
        return self.pick.replaced(rows=rows, height=min(height, rows))

    def invalid_reason(self, schedule: Schedule) -> str:
        """Require existing rows, whose lines fit on the stack."""
        g, rows = self.geometry, schedule.number("rows")
        if rows > g.result[0]:
            return f"rows must be at most {g.result[0]}"
        most = min(rows, HEIGHTS[-1]) if self.is_convolution else 1
        if schedule.number("height") > most:
            return f"height must be at most {most}"
        if not lines_fit(g, self.is_convolution, self.dtype, self.target, rows):
            return "rows is too large: the lines would not fit on the stack"
        return ""
