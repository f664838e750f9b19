"""A convolution as an instance of the nest: its views, and the schedule that a band and a blocking stand for.

    C[b0, b1, y, m, n] = epilogue(sum over ky, kx, k of A[b0, b1, y, m, ky, kx, k] * B[b1, n, ky, kx, k])

b0 are images, b1 groups, y rows and m pixels of a row of the result, n outputs of a group, ky and kx taps of the
window, k channels of a group. A is a view of the image in which windows overlap; B are weights in panels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ...base.records import dataclass
from ...targets.isa import Microkernel, Target
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Buffer, Stmt
from ..schedule.convolution_geometry import ConvolutionGeometry
from ..schedule.matmul_tile import MatmulBlocking
from .epilogue import EpilogueValue, storing
from .matmul import parallel_step
from .problem import Contraction, View, Window

REDUCED = {"planes": ("ky", "k", "kx")}
"""The order of the axes that are summed, where it is not that of a window in an image with channels last."""

LAYOUTS = {
    "rows": "band[iy,ix,k]",
    "planes": "band[iy,k,ix]",
    "blocks": "band[iy,k0,ix,k1]",
    "im2col": "patches[y,m,ky,kx,k]",
}
"""The layouts of what is copied of an image, by band."""


@dataclass(frozen=True)
class ImageOperand:
    """An image in a flat buffer: element (n, c, y, x) is at n * image + c * channel + y * row + x * column.

    With channels in blocks of `block`, c is the first of one, and the others follow it.
    """

    buffer: Buffer
    image: Any
    row: Any
    column: int
    channel: int
    block: int = 0


@dataclass(frozen=True)
class ConvolutionOperands:
    """Image, weights and result. `w` holds panels of `columns` outputs, group by group; panels hold the axes that are
    summed in the order of `REDUCED`, groups of `k_group` channels innermost."""

    x: ImageOperand
    w: Buffer
    y: ImageOperand
    columns: int


def convolution(
    g: ConvolutionGeometry,
    operands: ConvolutionOperands,
    band: str,
    kernel: Microkernel,
    epilogue: EpilogueValue | None,
    lets: tuple[Stmt, ...] = (),
) -> Contraction:
    """Return the problem of a convolution; the epilogue gets the index (image, group, y, m, n)."""
    free = {"b0": g.batch, "b1": g.groups, "y": g.result[0], "m": g.result[1], "n": g.outputs}
    sizes = {"ky": g.kernel[0], "kx": g.kernel[1], "k": g.channels}
    reduced = {axis: sizes[axis] for axis in REDUCED.get(band, tuple(sizes))}
    y = operands.y
    blocks = {"n": (y.block, y.block * y.channel)} if y.block else {}
    of_result = {"b0": y.image, "b1": g.outputs * y.channel, "y": y.row, "m": y.column, "n": 1}
    c = View(y.buffer, of_result, blocks)
    a = image_view(g, operands.x)
    if band == "image":  # without padding
        a = replace(a, windows={})
    views = a, weights_view(operands, g, reduced, kernel.k_group), c
    epilogue = storing(epilogue, kernel.accumulator, y.buffer.dtype)
    return Contraction(free, reduced, *views, kernel, epilogue, lets)


def image_view(g: ConvolutionGeometry, x: ImageOperand) -> View:
    """Return the view of an image in which windows overlap."""
    windows = {
        name: Window({a: g.strides[i], tap: g.dilations[i]}, g.before[i], g.image[i], stride)
        for i, (name, a, tap, stride) in enumerate(
            (("iy", "y", "ky", x.row), ("ix", "m", "kx", x.column))
        )
    }
    strides: dict[str, Any] = {"b0": x.image, "b1": g.channels * x.channel}
    for window in windows.values():
        strides |= {axis: step * window.stride for axis, step in window.steps.items()}
    strides["k"] = 1 if x.block else x.channel
    blocks = {"k": (x.block, x.block * x.channel)} if x.block else {}
    base = t.as_expr(0)
    for window in windows.values():
        base = base - window.stride * window.before
    return View(x.buffer, strides, blocks, base, windows)


def weights_view(
    operands: ConvolutionOperands, g: ConvolutionGeometry, reduced: Mapping[str, int], group: int
) -> View:
    """Return the view of weights in panels."""
    columns, block = operands.columns, operands.x.block
    strides: dict[str, Any] = {}
    size = columns
    for axis in reversed(tuple(reduced)):
        count = block if axis == "k" and block else reduced[axis]
        if axis == "k":
            count = -(-count // group) * group
        strides[axis], size = size, size * count
    blocks = {"n": (columns, size)}
    if block:
        blocks, size = {"k": (block, size)}, size * (g.channels // block)
        blocks["n"] = (columns, size)
    panels = -(-g.outputs // columns)
    return View(operands.w, {**strides, "n": 1, "b1": panels * size}, blocks)


def convolution_schedule(
    problem: Contraction, band: str, blocking: MatmulBlocking, target: Target
) -> str:
    """Return the schedule that a band and a blocking stand for, as text."""
    return "; ".join(_Steps(problem, band, blocking, target).steps())


class _Steps:
    def __init__(
        self, problem: Contraction, band: str, blocking: MatmulBlocking, target: Target
    ) -> None:
        self.problem, self.band, self.blocking, self.target = problem, band, blocking, target
        self.sizes = problem.sizes
        group = problem.kernel.k_group
        self.channels = (
            self.sizes["k"] if band in ("image", "im2col") else -(-self.sizes["k"] // group) * group
        )

    def steps(self) -> list[str]:
        """Return the steps of the schedule."""
        problem, tile, target = self.problem, self.blocking.tile, self.target
        columns = tile.columns(target, problem.kernel.accumulator)
        splits, outer, inner = self._sum()
        flat = self.band == "im2col"
        rows = [] if flat else ["y1"]
        panels = -(-self.sizes["n"] // columns)
        chunked = self.blocking.n_groups > 1 and panels > 1
        around = ["b0", "b1", *(["n0_chunk"] if chunked else []), *([] if flat else ["y0"])]
        waits = bool(outer) and problem.c.buffer.dtype != problem.kernel.accumulator
        middle = ["n0", *rows, *outer] if waits else ["n0", *outer, *rows]
        tiled = [*(["y"] if flat else []), "m", "n1", *inner]
        steps = [f"split n {columns}", *([] if flat else [f"split y {self._rows()}"]), *splits]
        steps += [f"chunk n0 {self.blocking.n_groups}"] if chunked else []
        steps.append(" ".join(["reorder", *around, *middle, *tiled]))
        if self.band in LAYOUTS:
            steps.append(f"stage A at {around[-1]} as {LAYOUTS[self.band]}")
        if waits:
            steps.append(f"stage C at {middle[middle.index('n0') + len(rows)]} as sums")
        steps.append(f"tensorize {tile.rows}x{tile.vectors} over {' '.join(tiled)}")
        if not problem.lets and self._weights_are_far(columns):
            steps.append("prefetch B 1")
        return [*steps, *parallel_step(problem, target, around)]

    def _weights_are_far(self, columns: int) -> bool:
        """Return whether the weights of a group do not stay in L2."""
        b, outputs = self.problem.b, self.sizes["n"]
        of_output = b.blocks["n"][1] // columns * b.buffer.dtype.size
        return bool(of_output * outputs > self.target.l2_bytes // 2)

    def _rows(self) -> int:
        rows = self.sizes["y"]
        return min(self.blocking.m_block, rows) if isinstance(rows, int) else self.blocking.m_block

    def _sum(self) -> tuple[list[str], list[str], list[str]]:
        """(splits, loops around the register tiles, loops inside) of the reduced axes, in steps of `k_block`."""
        g, channels, block = self.sizes, self.channels, self.blocking.k_block
        group = self.problem.kernel.k_group
        taps, axes = g["kx"], tuple(self.problem.reduced)
        if self.band == "blocks":
            width = self.problem.a.blocks["k"][0]
            depth = min(channels // width, max(1, block // width)) * width
            return [f"split k {depth} {width}"], ["ky", "kx", "k0"], ["k1", "k2"]
        block = block * channels // g["k"]
        if self.band == "planes":
            at_once = min(g["ky"], max(1, block // (taps * channels)))
            is_even = self.problem.a.windows["iy"].steps["ky"] == 1
            return self._split("ky", at_once if is_even else 1, axes)
        whole = self.band == "im2col" or taps == 1 or self._is_even()
        if whole and block >= taps * channels:
            return self._split("ky", min(g["ky"], block // (taps * channels)), axes)
        if whole and block >= channels:
            return self._split("kx", block // channels, axes)
        depth = max(group, (block if whole else min(channels, block // taps)) // group * group)
        splits, outer, inner = self._split("k", depth, axes)
        if not whole:  # all taps of a row at once
            outer, inner = [x for x in outer if x != "kx"], ["kx", *inner]
        return splits, outer, inner

    def _split(
        self, axis: str, count: int, axes: tuple[str, ...]
    ) -> tuple[list[str], list[str], list[str]]:
        """The axes before `axis` outside, those after it inside, `axis` itself in parts of `count`."""
        at = axes.index(axis)
        if count >= (self.channels if axis == "k" else self.sizes[axis]):
            return [], list(axes[:at]), list(axes[at:])
        if count == 1 and axis != axes[-1]:
            return [], list(axes[: at + 1]), list(axes[at + 1 :])
        return [f"split {axis} {count}"], [*axes[:at], f"{axis}0"], [f"{axis}1", *axes[at + 1 :]]

    def _is_even(self) -> bool:
        """Return whether the taps of a row are contiguous, in the image or its copy."""
        a, channels = self.problem.a, self.channels
        if not a.windows:
            distance = a.strides["kx"]
        else:
            distance = a.windows["ix"].steps["kx"] * channels
        return distance == channels and channels % self.problem.kernel.k_group == 0
