"""The steps that a band and a blocking of a convolution stand for."""

from __future__ import annotations

import re

from ...targets.isa import Target
from ..ir.schedule import Schedule
from ..nest.problem import Contraction
from .cost import MatmulBlocking
from .matmul_steps import kept_bytes, parallel_step, tile_text


def band_of(schedule: Schedule) -> str:
    """Return the band that a request is for, "" if it leaves that out."""
    if not schedule.steps:
        return str(schedule.settings.get("band", ""))
    if "[iy,k0," in schedule.steps:
        return "blocks"
    return "rows" if "[iy," in schedule.steps else "image"


def terms_of(steps: str, columns: int, channels: int, terms: int) -> int:
    """Return the terms that register tiles sum at once."""
    tiled = steps.partition("tensorize")[2]
    if (match := re.search(r"split (k[yx]?) (\d+)", steps)) is None:
        return terms // (1 if " ky" in tiled else terms // (columns * channels))
    count = int(match[2])
    of_one = {"ky": columns * channels, "kx": channels}
    return count * of_one.get(match[1], columns if " kx" in tiled else 1)


def convolution_steps(
    problem: Contraction, blocking: MatmulBlocking, target: Target, joined: bool
) -> str:
    """Return the schedule that a blocking stands for, as text; `joined`: lines of pixels are one GEMM."""
    return "; ".join(_Steps(problem, blocking, target, joined).steps())


class _Steps:
    def __init__(
        self, problem: Contraction, blocking: MatmulBlocking, target: Target, joined: bool
    ) -> None:
        self.problem, self.blocking, self.target, self.joined = problem, blocking, target, joined
        self.sizes, self.axes = problem.sizes, tuple(problem.reduced)
        group = problem.kernel.k_group if problem.a.windows else 1
        self.channels = -(-self.sizes["k"] // group) * group

    def steps(self) -> list[str]:
        """Return the steps of the schedule."""
        problem, tile, target = self.problem, self.blocking.tile, self.target
        columns = tile.columns(target, problem.kernel.accumulator)
        splits, outer, inner = self._sum()
        rows, lines = ([], ["y1"]) if self.joined else (["y1"], [])
        panels = -(-self.sizes["n"] // columns)
        chunked = self.blocking.n_groups > 1 and panels > 1
        around = ["b0", "b1", *(["n0_chunk"] if chunked else []), "y0"]
        waits = bool(outer) and problem.c.buffer.dtype != problem.kernel.accumulator
        middle = ["n0", *rows, *outer] if waits else ["n0", *outer, *rows]
        tiled = [*lines, "m", "n1", *inner]
        steps = [f"split n {columns}", f"split y {self._rows()}", *splits]
        steps += [f"chunk n0 {self.blocking.n_groups}"] if chunked else []
        steps.append(" ".join(["reorder", *around, *middle, *tiled]))
        if dimensions := problem.a.dimensions:
            steps.append(f"stage A at {around[-1]} as band[{','.join(dimensions)}]")
        if waits:
            steps.append(f"stage C at {middle[middle.index('n0') + len(rows)]} as sums")
        steps.append(f"tensorize {tile_text(tile, problem.kernel)} over {' '.join(tiled)}")
        if not problem.lets and self._weights_are_far(columns):
            steps.append("prefetch B 1")
        return [*steps, *parallel_step(problem, target, around)]

    def _weights_are_far(self, columns: int) -> bool:
        """Return whether the weights of a group do not stay near."""
        b, outputs = self.problem.b, self.sizes["n"]
        of_output = b.blocks["n"][1] // columns * b.buffer.dtype.size
        return bool(of_output * outputs > kept_bytes(self.problem.kernel, self.target))

    def _rows(self) -> int:
        rows = self.sizes["y"]
        return min(self.blocking.m_block, rows) if isinstance(rows, int) else self.blocking.m_block

    def _sum(self) -> tuple[list[str], list[str], list[str]]:
        """(splits, loops around the register tiles, loops inside) of the reduced axes, in steps of `k_block`."""
        g, channels, block = self.sizes, self.channels, self.blocking.k_block
        group, taps = self.problem.kernel.k_group, g["kx"]
        if self.problem.a.blocks:
            width = self.problem.a.blocks["k"][0]
            depth = min(channels // width, max(1, block // width)) * width
            return [f"split k {depth} {width}"], ["ky", "kx", "k0"], ["k1", "k2"]
        block = block * channels // g["k"]
        whole = taps == 1 or self._is_even()
        if whole and block >= taps * channels:
            return self._split("ky", min(g["ky"], block // (taps * channels)))
        if whole and block >= channels:
            return self._split("kx", block // channels)
        depth = max(group, (block if whole else min(channels, block // taps)) // group * group)
        splits, outer, inner = self._split("k", depth)
        if not whole:  # all taps of a row at once
            outer, inner = [x for x in outer if x != "kx"], ["kx", *inner]
        return splits, outer, inner

    def _split(self, axis: str, count: int) -> tuple[list[str], list[str], list[str]]:
        """The axes before `axis` outside, those after it inside, `axis` itself in parts of `count`."""
        axes = self.axes
        at = axes.index(axis)
        if count >= (self.channels if axis == "k" else self.sizes[axis]):
            return [], list(axes[:at]), list(axes[at:])
        if count == 1 and axis != axes[-1]:
            return [], list(axes[: at + 1]), list(axes[at + 1 :])
        return [f"split {axis} {count}"], [*axes[:at], f"{axis}0"], [f"{axis}1", *axes[at + 1 :]]

    def _is_even(self) -> bool:
        """Return whether the taps of a row are contiguous, in the image or its copy."""
        a, channels = self.problem.a, self.channels
        distance = a.windows["ix"].steps["kx"] * channels if a.windows else a.strides["kx"]
        return distance == channels and channels % self.problem.kernel.k_group == 0
