"""The steps that a blocking of a matmul stands for."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...base.dims import bounds, is_known
from ...targets.isa import GemmTile, Microkernel, Target
from ..nest.nest import Nest, contraction
from ..nest.problem import Contraction
from ..nest.schedule_text import apply
from .cost import MatmulBlocking, worth_threads
from .panels import BLOCK
from .taken_steps import steps_to_take

MIN_COPIED_COLUMNS = 128
"""Columns that must share a copy of A whose rows do not begin with a cache line."""


def inner_nest(
    name: str,
    problem: Contraction,
    tile: GemmTile,
    target: Target,
    block: int = 0,
    exact: bool = False,
    stages: Sequence[str] = (),
    cut: tuple[str, int] | None = None,
) -> Nest:
    """Return the nest `name` of a matmul in other loops: all rows, or each `block` of them, a panel of B after the
    other; `stages` are steps. `cut`: an axis, n or k, and the size of its blocks around the panels."""
    columns = problem.b.block_of_columns or tile.columns(target, problem.kernel.accumulator)
    rows, panels, lanes, depth, blocks = "m1" if block else "m", "n0", "n1", "k", []
    if cut is not None and cut[0] == "k":
        depth, blocks = "k1", [f"split k {cut[1]}"]
    elif cut is not None:
        panels, lanes, blocks = "n10", "n11", [f"split n {max(cut[1], columns)}"]
    around = [f"{cut[0]}0"] if cut else []
    outer = [*problem.batch, *(["m0"] if block else []), *around, panels]
    steps = [
        *([f"split m {block}"] if block else []),
        *blocks,
        f"split {panels[:-1]} {columns}",
        " ".join(["reorder", *outer, rows, lanes, depth]),
        *stages,
        f"tensorize {tile_text(tile, problem.kernel)} over {rows} {lanes} {depth}{' exact' * exact}",
    ]
    return apply(contraction(problem), "; ".join(steps_to_take(name, steps)))


def matmul_steps(
    problem: Contraction, blocking: MatmulBlocking, target: Target, exact: bool = False
) -> str:
    """Return the schedule that a blocking stands for, as text."""
    return "; ".join(_Steps(problem, blocking, target, exact).steps())


def parallel_step(problem: Contraction, target: Target, loops: list[str]) -> list[str]:
    """Return the step that shares `loops` with other threads; nothing where waking them costs more than it saves."""
    work = bounds(math.prod(problem.sizes.values()))[1]
    is_dynamic = not is_known(*(problem.sizes[axis] for axis in ("m", "n", "k")))
    return [f"parallelize {' '.join(loops)}"] if is_dynamic or worth_threads(work, target) else []


def kept_bytes(kernel: Microkernel, target: Target) -> int:
    """Return the largest B whose panels are not fetched ahead.

    Two-dimensional registers multiply faster than L2 is filled; what other kernels of the model left of it is unknown.
    Convolutions of 14 x 14 pixels in ResNet-50 in bytes take 0.85 to 0.95 of the time on Sapphire Rapids.
    """
    return target.l1_bytes if kernel.uses_tiles else target.l2_bytes // 2


def tile_text(tile: GemmTile, kernel: Microkernel) -> str:
    """Return a register tile and its instruction, as in `8x3` and `8x3 dot4`."""
    text = f"{tile.rows}x{tile.vectors}"
    return text if kernel.instruction == "fma" else f"{text} {kernel.instruction}"


class _Steps:
    def __init__(
        self, problem: Contraction, blocking: MatmulBlocking, target: Target, exact: bool
    ) -> None:
        self.problem, self.blocking, self.target, self.exact = problem, blocking, target, exact
        self.kernel, self.tile = problem.kernel, blocking.tile
        self.m, self.n, self.k = (problem.sizes[axis] for axis in ("m", "n", "k"))
        self.is_dynamic = not is_known(self.m, self.n, self.k)
        self.columns = self.tile.columns(target, self.kernel.accumulator)
        # Accumulators and a panel lie beside the rows of A.
        self.max_a_bytes = target.machine.max_local_bytes // 2
        self.m_block = self._rows_of_block()
        group = self.kernel.k_group
        self.k_block = -(-blocking.k_block // group) * group

    def _rows_of_block(self) -> int:
        rows = self.blocking.m_block
        if not self.kernel.converts_a:
            return rows
        tile_bytes = self.k * self.kernel.copied_a.size * self.tile.rows
        return min(rows, max(1, self.max_a_bytes // tile_bytes) * self.tile.rows)

    def steps(self) -> list[str]:
        """Return the steps of the schedule."""
        if "m" in self.problem.c.blocks:
            return self._of_blocks()
        waits = self._accumulators_wait()
        depth = ["k0", "k1"] if is_known(self.k) else ["k"]
        outer = [*self.problem.batch, *(["n0_chunk"] if self._is_chunked() else []), "m0"]
        middle = ["n0", *depth[:-1]] if waits else [*depth[:-1], "n0"]
        tile = f"{tile_text(self.tile, self.kernel)} over m1 n1 {depth[-1]}"
        steps = [f"split n {self.columns}", f"split m {'even ' * self.is_dynamic}{self.m_block}"]
        steps += [f"split k {self._depth_of_block()}"] if is_known(self.k) else []
        steps += [self._chunk()] if self._is_chunked() else []
        steps.append(" ".join(["reorder", *outer, *middle, "m1", "n1", depth[-1]]))
        steps += self._stages(middle[-1], waits)
        steps.append(f"tensorize {tile}{' exact' * self.exact}")
        steps += self._prefetch()
        return steps + parallel_step(self.problem, self.target, outer)

    def _of_blocks(self) -> list[str]:
        """The blocks of B become a panel in every run; a block of A or C is contiguous, so that depth is a batch.

        Blocks of k are whole ones, or all of k where C cannot hold sums.
        """
        is_cast = self.problem.c.buffer.dtype != self.kernel.accumulator
        depth = self.k if is_cast else self.k_block
        outer = [*self.problem.batch, *(["n0_chunk"] if self._is_chunked() else []), "m0"]
        return [
            f"split n {BLOCK}",
            f"split m {-(-self.m_block // BLOCK) * BLOCK} {BLOCK}",
            f"split k {-(-depth // BLOCK) * BLOCK} {BLOCK}",
            *([self._chunk()] if self._is_chunked() else []),
            " ".join(["reorder", *outer, "k0", "n0", "m1", "m2", "n1", "k1", "k2"]),
            "stage B at n0 as b_panel",
            f"tensorize {tile_text(self.tile, self.kernel)} over m2 n1 k1 k2 exact",
            *parallel_step(self.problem, self.target, outer),
        ]  # fmt: skip

    def _depth_of_block(self) -> int:
        """A narrow panel with dynamic columns waits in a local for one block of k only."""
        return self.k_block if is_known(self.n) else max(self.k, self.k_block)

    def _accumulators_wait(self) -> bool:
        """Return whether C cannot hold accumulators between blocks of k."""
        is_cast = self.problem.c.buffer.dtype != self.kernel.accumulator
        return is_cast and is_known(self.k) and self._depth_of_block() < self.k

    def _is_chunked(self) -> bool:
        return self.is_dynamic or self.blocking.n_groups > 1

    def _chunk(self) -> str:
        return "chunk n0" if self.is_dynamic else f"chunk n0 {self.blocking.n_groups}"

    def _fills_registers(self) -> bool:
        """Return whether registers load whole cache lines of A in place, or few columns share a copy of it.

        Rows that cross lines take three times as long; a copy takes as long as the multiplication of 32 columns.
        """
        kernel, line = self.kernel, self.target.machine.cache_line
        size = self.k * kernel.a.size
        is_whole = self.k == kernel.padded_groups(self.k) * kernel.k_group
        in_lines = self.problem.a.is_aligned and size % line == 0
        return is_whole and (in_lines or self.n < MIN_COPIED_COLUMNS)

    def _stages(self, inner: str, waits: bool) -> list[str]:
        b, kernel = self.problem.b, self.kernel
        rows = min(self.m_block, self.m) if is_known(self.m) else self.m_block
        steps = ["stage B at root as panels"] if b.blocks else []
        is_short = kernel.uses_tiles and not self._fills_registers()
        fits = is_known(self.k) and rows * self.k * kernel.copied_a.size <= self.max_a_bytes
        if is_short or (kernel.converts_a and fits):
            steps.append("stage A at m0 as a_block")
        if not b.blocks and is_known(self.k):
            in_place = kernel.k_group == 1 and b.strides["n"] == 1
            limit = 4 * self.tile.rows if in_place else 0
            steps.append(f"stage B at {inner} as b_panel above {limit}")
        if waits:
            steps.append("stage C at n0 as sums")
        return steps

    def _prefetch(self) -> list[str]:
        """Prefetch the next panel where B is not in L2, for tiles high enough to have the time."""
        b = self.problem.b
        if self.exact or not b.blocks or not is_known(self.n, self.k):
            return []
        if self.k * self.n * b.buffer.dtype.size <= kept_bytes(self.kernel, self.target):
            return []
        # Half a tile where rows are dynamic: the rows after the full tiles are split into two lower ones.
        rows = -(-self.tile.rows // 2) if self.is_dynamic else self.tile.rows
        return [f"prefetch B {rows}"]
