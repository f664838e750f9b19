"""Assign offsets to every intermediate tensor in one arena, and to every constant in one section.

before   tensors without an address
after the note `MEMORY_PLAN`: byte offsets, 64-byte aligned; tensors that are never live together share bytes
Requires: the op order is final. Ensures: live ranges of tensors that overlap in the arena do not overlap in time.

A control op has its own block while it runs: a second copy of the loop-carried values, then the arenas of
its subgraphs, which share memory as they never run at the same time. So has a kernel that needs a
workspace (`schedule.workspaces`).

Largest tensors are placed first, each at the lowest offset that is free during its lifetime (greedy by size). With
`in-place`, an elementwise op overwrites an input that dies there.

Sizes that are known at run time are multiples of an expression: bytes of each unit times units, such as 256
times B*S. Blocks with the same units are planned like numbers, in bytes of a unit; the arena is one such plan after the
other, and offsets are expressions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import field, replace
from typing import Any

import numpy as np

from ...base.dims import Size, floor_quotient, is_known
from ...base.records import dataclass
from ...base.size_limits import at_most
from ...base.size_queries import factored, typical
from ..ir.graph import Graph, GraphTensor, Op, subgraphs_of
from ..ir.note import Note
from ..ops.control import ControlOp, While
from ..ops.dynamic_sizes import Count, largest_counts
from ..rewriting.groups import is_elementwise, is_view, storage_root
from ..schedule.context import LowerContext
from ..schedule.workspaces import workspace_of

ALIGNMENT = 64


@dataclass(frozen=True)
class Life:
    """One block of memory: which tensor roots it holds, its size, and the ops (positions) it lives between.

    It holds no tensors if it is the workspace of the op `owner`, or its block number `part`.
    """

    tensors: tuple[GraphTensor, ...]
    size: Any
    begin: int
    end: int
    owner: Op
    part: int = 0

    @property
    def name(self) -> str:
        """The block's contents, for display."""
        return " then ".join(x.name for x in self.tensors) or f"workspace of {self.owner.name}"


@dataclass(frozen=True)
class Workspace:
    """The block of a control op: a second buffer for each loop-carried value, then the subgraphs' arena.

    None for a value that is updated in place.
    """

    spares: tuple[Any, ...]
    arena: Any
    size: Any


@dataclass(frozen=True)
class MemoryPlan:
    """Offsets in the arena by storage root; `lower_bound` is the peak of live bytes, which no plan can beat.

    Of sizes that are known at run time, `lower_bound` is for typical ones; the others are expressions.
    """

    offsets: dict[GraphTensor, Any]
    arena_bytes: Any
    lower_bound: int
    lives: tuple[Life, ...]
    workspaces: dict[tuple[Op, int], Any] = field(default_factory=dict)

    def offset(self, life: Life) -> Any:
        """Return the offset of a block."""
        return (
            self.offsets[life.tensors[0]]
            if life.tensors
            else self.workspaces[life.owner, life.part]
        )


MEMORY_PLAN: Note[MemoryPlan] = Note("memory_plan")


def plan_memory(graph: Graph, ctx: LowerContext) -> bool:
    """Compute the plan and make it the note `MEMORY_PLAN` of the graph. The ops do not change."""
    lives = [*_lives(graph, ctx.options.enabled("in-place")), *_workspaces(graph, ctx)]
    offsets: dict[GraphTensor, Size] = {}
    workspaces: dict[tuple[Op, int], Size] = {}
    begin: Size = 0
    most = largest_counts(graph)
    if most:
        lives = [replace(life, size=_aligned(at_most(life.size, most))) for life in lives]
    for units, blocks in _by_units(lives).items():
        arena = _Arena(len(blocks))
        for life, size in sorted(blocks, key=lambda block: (-block[1], block[0].begin)):
            offset = begin + arena.allocate(replace(life, size=size)) * units
            offsets.update((tensor, offset) for tensor in life.tensors)
            if not life.tensors:
                workspaces[life.owner, life.part] = offset
        begin = begin + arena.size * units
    plan = MemoryPlan(offsets, begin, _peak(lives), tuple(lives), workspaces)
    MEMORY_PLAN.set(graph, plan)
    return False


def _by_units(lives: Iterable[Life]) -> dict[Size, list[tuple[Life, int]]]:
    """The blocks that are multiples of the same units, each with its bytes of a unit; 1 for those of a fixed size."""
    found: dict[Size, list[tuple[Life, int]]] = {}
    for life in lives:
        bytes_, units = factored(life.size)
        found.setdefault(units, []).append((life, bytes_))
    return found


def control_workspace(op: ControlOp) -> Workspace:
    """Return the layout of a control op's block; its subgraphs must have been planned."""
    spares: list[Size | None] = []
    at: Size = 0
    if isinstance(op, While):
        same = op.in_place_state
        for i, tensor in enumerate(op.outputs):
            spares.append(None if i in same else at)
            at += 0 if i in same else _aligned(tensor.details.size_bytes)
    plans: list[MemoryPlan] = [MEMORY_PLAN.of(graph) for graph in subgraphs_of(op)]
    arenas = [plan.arena_bytes for plan in plans]
    # One at a time needs its arena, but of dynamic sizes none may be the largest for all.
    return Workspace(tuple(spares), at, at + (max(arenas) if is_known(*arenas) else sum(arenas)))


class _Arena:
    """The blocks placed so far. They are columns of an array, sorted by offset: a graph may have 100,000 of them."""

    def __init__(self, most: int) -> None:
        self._columns = np.zeros((4, most), np.int64)
        self._count = 0
        self.size = 0

    def allocate(self, life: Life) -> int:
        """Take the lowest offset at which a block overlaps none that lives at the same time."""
        offsets, tops, begins, ends = self._columns[:, : self._count]
        rivals = np.flatnonzero((begins <= life.end) & (ends >= life.begin))
        free_from = np.maximum.accumulate(np.append(0, tops[rivals]))
        is_wide_enough = offsets[rivals] - free_from[:-1] >= life.size
        gap = int(np.argmax(is_wide_enough)) if is_wide_enough.any() else -1
        offset = int(free_from[gap])
        self._insert(offset, life)
        return offset

    def _insert(self, offset: int, life: Life) -> None:
        count = self._count
        row = int(np.searchsorted(self._columns[0, :count], offset, side="right"))
        self._columns[:, row + 1 : count + 1] = self._columns[:, row:count]
        self._columns[:, row] = offset, offset + life.size, life.begin, life.end
        self._count += 1
        self.size = max(self.size, offset + life.size)


def _peak(lives: list[Life]) -> int:
    events = sorted(
        [(life.begin, 1, typical(life.size)) for life in lives]
        + [(life.end + 1, 0, -typical(life.size)) for life in lives]
    )
    now = peak = 0
    for _, _, change in events:
        now += change
        peak = max(peak, now)
    return peak


def _lives(graph: Graph, in_place: bool) -> list[Life]:
    """Blocks of memory in the arena. Constants, what belongs to the caller (inputs, outputs) and counts have none."""
    callers = {storage_root(op.inputs[0]) for op in graph.outputs}
    last_use: dict[GraphTensor, int] = {}
    for position, op in enumerate(graph.ops):
        for tensor in op.inputs:
            last_use[storage_root(tensor)] = position
    blocks: dict[GraphTensor, list[GraphTensor]] = {}
    spans: dict[GraphTensor, tuple[int, int]] = {}
    hosts: dict[GraphTensor, GraphTensor] = {}  # the last tensor of a block -> the first
    for position, op in enumerate(graph.ops):
        if op.kind in ("source", "sink") or is_view(op):
            continue
        for tensor in op.outputs:
            if tensor in callers or isinstance(op, Count):
                continue
            end = last_use.get(tensor, position)
            host = _overwritten(op, tensor, position, hosts, spans) if in_place else None
            if host is None:
                host, blocks[tensor], spans[tensor] = tensor, [tensor], (position, end)
            else:
                del hosts[blocks[host][-1]]
                blocks[host].append(tensor)
                spans[host] = (spans[host][0], end)
            hosts[tensor] = host
    return [
        Life(
            tuple(members),
            _aligned(members[0].details.size_bytes),
            *spans[first],
            first.producer_owner,
        )
        for first, members in blocks.items()
    ]


def _workspaces(graph: Graph, ctx: LowerContext) -> Iterator[Life]:
    for position, op in enumerate(graph.ops):
        if isinstance(op, ControlOp):
            yield Life((), control_workspace(op).size, position, position, op)
        for part, block in enumerate(workspace_of(op, ctx)):
            yield Life((), _aligned(block.size_bytes), position, position, op, part)


def _overwritten(
    op: Op,
    tensor: GraphTensor,
    position: int,
    hosts: dict[GraphTensor, GraphTensor],
    spans: dict[GraphTensor, tuple[int, int]],
) -> GraphTensor | None:
    """The block an elementwise op may write over: that of an input of the same layout that dies here."""
    if not _is_elementwise_kernel(op):
        return None
    for source in op.inputs:
        same = (source.details.physical_dims, source.details.format, source.details.dtype.size)
        if same != (tensor.details.physical_dims, tensor.details.format, tensor.details.dtype.size):
            continue
        host = hosts.get(storage_root(source))
        if host is not None and spans[host][1] == position:
            return host
    return None


def _is_elementwise_kernel(op: Op) -> bool:
    """Return whether the kernel reads element i of the same-shaped input only to write element i."""
    if op.kind == "fused":
        body = [inner for inner in op.attr("graph").ops if inner.kind not in ("source", "sink")]
        return all(map(is_elementwise, body))
    return is_elementwise(op)


def _aligned(size: Any) -> Any:
    """Rounded up to whole cache lines; of an expression each unit, or 64 units where these are smaller than a line."""
    bytes_, units = factored(size)
    if bytes_ < ALIGNMENT and not is_known(units):
        return bytes_ * ALIGNMENT * floor_quotient(units + ALIGNMENT - 1, ALIGNMENT)
    return -(-bytes_ // ALIGNMENT) * ALIGNMENT * units
