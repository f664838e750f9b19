"""The nest of a matmul whose weights stay packed: unpacked in registers for few rows, into panels for many.

    registers   for each panel: for each group of k: sums of X * Q, then acc += (sums - zero * sum of X) * scale
    panel       for each panel, block of k: a local panel of (Q - zero) * scale, then register tiles for all rows;
                in two-dimensional registers the panel and the rows, which are bytes, become bf16
    bytes       for each panel: a local panel of Q, then as in registers; or blocks of it for two-dimensional registers

In registers each word of weights is read once, so that few rows take as long as memory takes to deliver it. Rows of
bytes, and rows of f32 as three digits of bytes, are multiplied by dot products, and the sums of a group are exact;
where one zero point serves all weights, they begin at -zero * sum of X, so that nothing is subtracted from them.
"""

from __future__ import annotations

import itertools
import math

from ...base.dims import is_known
from ...base.dtypes import F32, U8
from ...base.packed_words import WORD_BYTES
from ...targets.isa import Target
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Buffer, Const, Expr, Stmt, Var
from ..nest.lower import Lowering
from ..nest.nest import Nest, Sharing, Stage, contraction
from ..nest.packing import padded_view
from ..nest.position import Position
from ..nest.problem import Contraction, View
from ..nest.schedule_text import apply
from ..nest.stages import Staged, epilogue_value, max_depth, max_rows, tile_columns
from ..nest.tile import register_tiles
from ..schedule.cost import MatmulBlocking
from ..schedule.matmul_steps import parallel_step, tile_text
from ..schedule.nbits_instructions import words_in_pairs
from .expert_runs import Run
from .fixed_point_rows import FixedPointRows
from .nbits_byte_tiles import ByteTiles, SignedRows
from .nbits_rows import CenteredRows, GivenRows, WideRows
from .nbits_tile import DotTile, FixedPointTile, FloatTile, RegisterTile, row_runs
from .packed_weights import PackedWeights, WeightPanel


class NBitsLowering(Lowering):
    """Lowers the nest; B of the problem is `weights`, and `x_scale` that of `x_group` neighboring bytes of rows.

    `run`: the rows and panels that it multiplies, where weights are those of several experts.
    """

    def __init__(
        self,
        problem: Contraction,
        weights: PackedWeights,
        x_scale: Buffer | None,
        x_group: int,
        blocking: MatmulBlocking,
        sharing: Sharing,
        target: Target,
        unpack: str,
        use: str,
        run: Run | None = None,
    ) -> None:
        nest = contraction(problem).changed(sharing=sharing)
        steps = _schedule(problem, blocking, target, unpack, weights, run is not None)
        super().__init__(apply(nest, steps), target)
        self.run = run
        self.problem, self.weights, self.x_scale, self.x_group = problem, weights, x_scale, x_group
        self.unpack, self.use = unpack, use
        self.lanes = target.lanes(F32)
        self.columns = tile_columns(self.nest, target)
        self.depth = problem.sizes["k"]
        # The weights of a decoder are not in L2 when its next token needs them, those of a layer alone might be.
        self.fetches = weights.words.elements * weights.words.dtype.size > target.l1_bytes
        self.step = max(x_group, weights.group) if weights.has_integer_scales else weights.group
        self.step = min(self.step, x_group)
        self.level_bits = weights.max_level.bit_length()

    def statement(self) -> Stmt:
        """Return the whole nest, or that of a run."""
        if self.run is None:
            return super().statement()
        position, rows = Position.outermost(self.problem), self.problem.sizes["m"]
        rows = rows if is_known(rows) else self.run.rows
        position = position.enter("m", self.run.first, 1, rows)
        return self.task(0, position.chunked("n0", self.run.panels))

    def stage(self, stage: Stage, position: Position) -> Staged | None:
        """The weights of a panel, unpacked; or what dot products need of rows of A: sums of groups, digits."""
        if self.unpack == "panel" and stage.operand == "B":
            return self._panel(stage, position)
        if self.unpack == "panel":
            return self._wide_rows(stage, position)
        b, rows = t.LoopBuilder(), position.extents["m"]
        self._x(position).prepare(b, rows)
        if self.use == "tile4":
            self._byte_tiles(b, position).copy_rows(rows)
        return Staged(None, position, b.statements(), [])

    def _wide_rows(self, stage: Stage, position: Position) -> Staged:
        """Rows of bytes, times their scales, as two-dimensional registers take them."""
        kernel, k, first = self.problem.kernel, position.extents["k"], _first_k(position)
        local = padded_view(max_rows(self.nest), max_depth(self.nest), kernel, stage.name)
        b, x, size = t.LoopBuilder(), self._x(position), min(self.x_group, k)
        with b.loop("xr", 0, position.extents["m"]) as row, b.loop("xg", 0, k // size) as group:
            scale = b.let("x_factor", x.factor(row, (group * size + first) // self.step))
            with b.loop("xi", 0, size, "vector") as i:
                value = t.cast(x.number(row, first + group * size + i), F32) * scale
                at = local.base + row * local.step("m") + group * size + i
                b.store(local.buffer, (at,), t.cast(value, local.buffer.dtype))
        return Staged(local.buffer, position.staged("A", local), b.statements(), [])

    def _panel(self, stage: Stage, position: Position) -> Staged:
        """A panel is unpacked once for all rows of the block."""
        size, dtype = max_depth(self.nest) * self.columns, self.problem.kernel.copied_b
        local = Buffer(stage.name, dtype, (size,), "local")
        b = t.LoopBuilder()
        weights, vectors = self._weights(b, position)
        unpack = weights.unpack if dtype == F32 else weights.unpack_pairs
        unpack(_first_k(position), position.extents["k"], local, vectors)
        view = View(local, {"k": self.columns, "n": 1}, {"n": (self.columns, 0)})
        return Staged(local, position.staged("B", view), b.statements(), [])

    def _weights(self, b: t.LoopBuilder, position: Position) -> tuple[WeightPanel, int]:
        """Return the panel at a position, and its vectors; one where their number is not needed yet."""
        panel, columns = position.iteration("n"), position.extents["n"]
        if self.run is not None:
            panel = self.run.expert * math.ceil(self.problem.sizes["n"] / self.columns) + panel
        weights = WeightPanel(
            b, self.weights, panel, self.columns, self.depth, self.lanes, self.fetches
        )
        return weights, -(-columns // self.lanes) if isinstance(columns, int) else 1

    def tiles(self, position: Position) -> list[Stmt]:
        """Return the register tiles of a panel: of floats, or of weights that are unpacked in registers."""
        if self.unpack == "panel":
            return register_tiles(self._high_nest, position, self.target, self.locals)
        b, columns, rows = t.LoopBuilder(), position.extents["n"], position.extents["m"]
        if self.use == "tile4":
            self._in_registers(b, position)
            return b.statements()
        weights, vectors = self._weights(b, position)
        if self.unpack == "bytes":
            if weights.weights.has_minima:
                floats = Buffer("w_floats", F32, (weights.floats_size,), "local")
                self.locals[floats.name] = floats
                weights = weights.as_floats(floats, vectors)
            local = Buffer("w_bytes", U8, (self.depth * self.columns,), "local")
            self.locals[local.name] = local
            weights = weights.as_bytes(local, vectors, self.step)
        assert self.nest.tile is not None
        for first, end, height in row_runs(rows, self.nest.tile.shape.rows):
            with b.loop("wr", first, end, step=height) as row:
                tile = self._tile(position, row, height, weights, vectors)
                tile.sums()
                for r, v in itertools.product(range(height), range(vectors)):
                    at = position.enter("m", row + r, 1, 1)
                    self._store(b, at, t.as_expr(r), v, tile.acc, columns)
        return b.statements()

    @property
    def _high_nest(self) -> Nest:
        """The nest, whose copied rows are read as if there were a whole two-dimensional register of them: all
        registers of the function then have one shape."""
        registers = self.problem.kernel.registers
        if registers is None or is_known(self.problem.sizes["m"]):
            return self.nest
        return self.nest.changed(problem=self.problem.of_sizes(m=registers.rows))

    def _byte_tiles(self, b: t.LoopBuilder, position: Position) -> ByteTiles:
        weights, vectors = self._weights(b, position)
        return ByteTiles(self._x(position), weights, vectors, self.target)

    def _in_registers(self, b: t.LoopBuilder, position: Position) -> None:
        """The rows of a block times a panel, in two-dimensional registers."""
        tiles = self._byte_tiles(b, position)
        rows, columns = position.extents["m"], position.extents["n"]
        self.locals |= {one.name: one for one in tiles.buffers}
        tiles.multiply(rows)
        with b.loop("wr", 0, rows) as row:
            for v in range(tiles.vectors):
                self._store(b, position.enter("m", row, 1, 1), row, v, tiles.acc, columns)

    def _x(self, position: Position) -> GivenRows:
        """The rows of a block, in the form that the instruction takes."""
        a, weights, rows = self.problem.a, self.weights, max_rows(self.nest)
        in_pairs = words_in_pairs(self.level_bits) if self.use == "dot2" else 0
        make = SignedRows if self.use == "tile4" else GivenRows
        if self.use != "fma" and self.x_scale is None:
            make = FixedPointRows
        elif weights.is_centered and self.use == "dot2":  # sums of a group stay in 16 bits
            make, in_pairs = CenteredRows, min(self.step, weights.group) // WORD_BYTES
        elif self.use == "dot2" and not in_pairs:
            make = WideRows
        return make(
            a, self.x_scale, weights, self.depth, self.step, self.depth // self.x_group, rows,
            position.start("m"), in_pairs,
        )  # fmt: skip

    def _tile(
        self, position: Position, row: Var, rows: int, weights: WeightPanel, vectors: int
    ) -> RegisterTile:
        x = self._x(position)
        if isinstance(x, FixedPointRows):
            return FixedPointTile(x, row, rows, weights, vectors)
        return (FloatTile if self.x_scale is None else DotTile)(x, row, rows, weights, vectors)

    def _store(
        self, b: t.LoopBuilder, row: Position, r: Expr, v: int, sums: Buffer, columns: int
    ) -> None:
        """Store a vector of sums through the epilogue to C."""
        with b.loop("fc", v * self.lanes, min((v + 1) * self.lanes, columns), "vector") as col:
            at, acc = row.enter("n", col, 1, 1), b.let("sum", sums[r, col])
            lets, value = epilogue_value(self.nest, at, acc)
            b.emit(*lets)
            b.store(at.view("C").buffer, (at.offset("C"),), value)


def _first_k(position: Position) -> int:
    """Return the first k of a block."""
    first = position.start("k")
    assert isinstance(first, Const) and isinstance(first.value, int)
    return first.value


def _schedule(
    problem: Contraction,
    blocking: MatmulBlocking,
    target: Target,
    unpack: str,
    weights: PackedWeights,
    is_task: bool,
) -> str:
    """Return the schedule of a blocking: weights become panels once per block of rows, or are unpacked in registers.

    `is_task`: whether it is part of a task, whose loops are not shared again.
    """
    is_dynamic = not is_known(problem.sizes["m"])
    chunks = "" if is_dynamic else f" {blocking.n_groups}"
    is_chunked = not is_task and (is_dynamic or blocking.n_groups > 1)
    chunk = [f"chunk n0{chunks}"] if is_chunked else []
    outer = ["n0_chunk", "m0"] if chunk else ["m0"]
    columns, tile = blocking.tile.columns(target), blocking.tile
    steps = [f"split n {columns}", f"split m {'even ' * is_dynamic}{blocking.m_block}", *chunk]
    if unpack == "panel":
        steps.append(f"split k {aligned_block(blocking.k_block, weights)}")
        steps.append(" ".join(["reorder", *outer, "k0 n0 m1 n1 k1"]))
        if problem.kernel.uses_tiles:
            steps.append("stage A at k0 as x_rows")
        steps.append("stage B at n0 as b_panel")
    else:
        steps.append(" ".join(["reorder", *outer, "n0 m1 n1 k"]))
        steps.append("stage A at m0 as x_rows")
    steps.append(
        f"tensorize {tile_text(tile, problem.kernel)} over m1 n1 {'k1' if unpack == 'panel' else 'k'}"
    )
    return "; ".join([*steps, *([] if is_task else parallel_step(problem, target, outer))])


def aligned_block(k_block: int, weights: PackedWeights) -> int:
    """A block of whole groups, or one that divides a group into whole words."""
    group, numbers = weights.group, weights.numbers
    if k_block >= group:
        return k_block - k_block % group
    fits = (d for d in range(k_block, numbers, -1) if not (group % d or d % numbers))
    return next(fits, numbers)
