"""Evaluate all conditions of small trees, each for a vector of rows, instead of walking."""

from __future__ import annotations

import math

import numpy as np

from ...base.dtypes import F32
from ...base.records import dataclass
from ..ir.graph import Array, Graph, GraphTensor
from ..ops.compose import Composer
from ..ops.tree_ensemble import GROUP, LEAVES, TreeEnsemble
from ..rewriting.decisions import record
from ..rewriting.rewrite import rewrite
from ..rewriting.values import constant_values
from ..schedule.context import LowerContext

_STEP, _SLOT, _PIECE = 4.7, 0.08, 0.5
"""Cycles per row of a step of one tree, of a condition, and of a piece's leaves, in vectors of 16 lanes."""
_LONE_STEP, _LONE_SLOT, _LONE_PIECE = 90, 3.4, 20
"""Cycles of a step of 16 trees of one row, and of a condition and a piece's leaves for one vector."""
_MAX_FEW = 16
"""Rows behind the last whole vector that may be walked."""
_MAX_FEATURES = 512
"""Maximum number of features of which a block of rows is transposed into the first cache."""
_MAX_NODES = 1 << 23
"""Maximum number of nodes of all trees without sharing: the limit of what compiling may unfold."""


def mask_trees(graph: Graph, ctx: LowerContext) -> bool:
    """Give trees of few leaves the masks that many rows are evaluated with.

    %y = tree_ensemble(%x, %ways, %threshold, ...)
    ->
    %y = masked_trees(%x, %ways, %threshold, ..., %feature, %bound, %mask, %begins, %leaves)

    A condition that holds removes the leaves of its first branch; the lowest leaf left is the one a walk would reach.
    Requires: plain formats. Ensures: topological order.
    """
    return rewrite(graph, {"tree_ensemble": (_masked,)})


def _masked(graph: Graph, op: TreeEnsemble) -> GraphTensor | None:
    lists = constant_values(op.inputs[1:])
    rows, columns = op.x.details.plain_dims
    if lists is None or columns > _MAX_FEATURES or op.values.details.dtype != F32:
        return None
    forest = _unfolded(op, lists)
    if forest is None:
        return None
    pieces = _Pieces(forest)
    if not pieces.fits or not len(pieces.piece):
        return None
    walked = _STEP * GROUP * sum(op.depths)
    cost = _SLOT * len(pieces.piece) + _PIECE * len(pieces.first)
    vector = _LONE_SLOT * len(pieces.piece) + _LONE_PIECE * len(pieces.first)
    few = min(math.ceil(vector / (_LONE_STEP * sum(op.depths))), _MAX_FEW)
    if cost > walked or (isinstance(rows, int) and rows < few):
        return None
    results = 1 if op.targets[0] < 0 else op.count
    counts = np.bincount(forest.targets[pieces.tree], minlength=results)
    at = pieces.condition
    lists = [
        forest.feature[at].astype(np.int32),
        forest.bound[at],
        pieces.masks(),
        pieces.begins(),
        pieces.leaves(),
    ]
    make = Composer(graph, op)
    attrs = {**op.attrs, "pieces": counts.tolist(), "few": few}
    made = make("masked_trees", *op.inputs, *map(make.constant, lists), **attrs)
    text = f"about {cost:.0f} cycles per row, {walked:.0f} if the trees were walked"
    record(graph, "form", [op.name], [made.producer_owner.name], text)
    return made


@dataclass(frozen=True)
class _Forest:
    """All trees without sharing, their leaves in order, first branches before second ones.

    Condition i is between leaves i and i + 1; `low[i]` to i are the leaves of its first branch. `turns` are the second
    branches on the way to it, `leaf_turns` those on the way to a leaf.
    """

    low: Array
    turns: Array
    branches: Array
    """[2, leaves]: the conditions at the ends of both branches; -1 for a leaf."""
    feature: Array
    bound: Array
    leaf_turns: Array
    said: Array
    """[leaves] or [leaves, count]."""
    root: Array
    """The first condition of each tree; -1 for a leaf."""
    starts: Array
    """The first leaf of each tree, and the end."""
    targets: Array
    silent: float
    """The leaf value that adds nothing."""


class _Nodes:
    """The lists of a tree_ensemble."""

    def __init__(self, op: TreeEnsemble, lists: list[Array]) -> None:
        ways, self.bound, self.values, roots = lists
        self.count = len(ways)
        below = np.arange(self.count) + (ways >> op.feature_bits)
        self.is_leaf = (below == np.arange(self.count)) & np.isnan(self.bound)
        self.branches = np.stack([below, below + 1])
        self.feature = ways & ((1 << op.feature_bits) - 1)
        self.silent = {"add": 0.0, "min": np.inf, "max": -np.inf}[op.reduction]
        self.depth = max(op.depths)
        said = self.values.reshape(self.count, -1)
        self.is_silent = self.is_leaf & (said == self.silent).all(1)
        inner = self.branches[:, ~self.is_leaf]
        self.is_valid = not (inner < 0).any() and not (inner >= self.count).any()
        self.is_valid &= bool((self.feature < op.planes).all() and (roots >= 0).all())
        self.is_valid &= bool((roots < self.count).all())
        target = np.repeat(np.maximum(op.targets, 0), GROUP)
        order = np.argsort(target, kind="stable")
        self.roots, self.targets = roots[order].astype(np.int64), target[order]


def _unfolded(op: TreeEnsemble, lists: list[Array]) -> _Forest | None:
    """The trees in order. None where they are too many or do not end after the steps of a walk."""
    nodes = _Nodes(op, lists)
    if not nodes.is_valid:
        return None
    is_said = ~nodes.is_silent[nodes.roots]
    levels, total = [nodes.roots[is_said]], 0
    while len(levels[-1]):
        total += len(levels[-1])
        inner = levels[-1][~nodes.is_leaf[levels[-1]]]
        if total > _MAX_NODES or len(levels) > nodes.depth + 1:
            return None
        levels.append(nodes.branches[:, inner].T.ravel())
    return _in_order(nodes, levels[:-1], nodes.targets[is_said])


def _in_order(nodes: _Nodes, levels: list[Array], targets: Array) -> _Forest | None:
    """Number leaves and conditions: how many leaves there are is counted from below, where they begin from above."""
    if not levels:
        return None
    inner = [~nodes.is_leaf[level] for level in levels]
    sizes = [np.ones(len(level), np.int64) for level in levels]
    for size, deeper, is_inner in reversed(list(zip(sizes, sizes[1:], inner, strict=False))):
        size[is_inner] = deeper.reshape(-1, 2).sum(1)
    starts = np.concatenate([[0], np.cumsum(sizes[0])])
    count = int(starts[-1])
    low, turns, leaf_turns, node = (np.zeros(count, np.int64) for _ in range(4))
    leaf, branches = np.zeros(count, np.int64), np.full((2, count), -1)
    first, inverted, above = starts[:-1], np.zeros(len(levels[0]), np.int64), None
    root = np.full(len(levels[0]), -1)
    for depth, (level, is_inner) in enumerate(zip(levels, inner, strict=True)):
        leaf[first[~is_inner]], leaf_turns[first[~is_inner]] = level[~is_inner], inverted[~is_inner]
        pairs = sizes[depth + 1].reshape(-1, 2) if is_inner.any() else np.zeros((0, 2), np.int64)
        begins, at = first[is_inner], np.full(len(level), -1)
        at[is_inner] = begins + pairs[:, 0] - 1
        here = at[is_inner]
        low[here], turns[here], node[here] = begins, inverted[is_inner], level[is_inner]
        if above is None:
            root = at
        else:
            branches[:, above] = at.reshape(-1, 2).T
        above = here
        first = np.stack([begins, begins + pairs[:, 0]], 1).ravel()
        inverted = np.stack([inverted[is_inner], inverted[is_inner] + 1], 1).ravel()
    return _Forest(
        low, turns, branches, nodes.feature[node], nodes.bound[node], leaf_turns, nodes.values[leaf],
        root, starts, targets, nodes.silent,
    )  # fmt: skip


class _Pieces:
    """Runs of leaves of one tree, at most 32 with those that stand for what lies before and after them.

    The lowest bits of a mask are branches before the piece, one for each second branch on the way to it; then come its
    leaves, then one that no condition removes, for all behind it.
    """

    def __init__(self, forest: _Forest) -> None:
        self.forest = forest
        found: list[tuple[int, int, int]] = []
        turns = forest.leaf_turns.tolist()
        edges = forest.starts.tolist()
        for tree, (first, end) in enumerate(zip(edges, edges[1:], strict=False)):
            while first < end:
                room = max(1, LEAVES - turns[first] - 1)
                last = end if end - first <= room + 1 else first + room
                found.append((first, last, tree))
                first = last
        self.first, self.end, self.tree = np.array(found, np.int64).T
        self.turns = forest.leaf_turns[self.first]
        self.fits = bool((self.turns + self.end - self.first <= LEAVES).all())
        parts = [self._between(), self._ancestors(self.first, 1), self._ancestors(self.end - 1, 0)]
        piece, condition = np.concatenate(parts, 1)
        order = np.argsort(piece, kind="stable")
        self.piece, self.condition = piece[order], condition[order]

    def _between(self) -> Array:
        """(piece, condition) of those between its leaves."""
        sizes = self.end - self.first - 1
        piece = np.repeat(np.arange(len(sizes)), sizes)
        return np.stack([piece, np.arange(len(piece)) + (self.first - _starts(sizes))[piece]])

    def _ancestors(self, leaf: Array, side: int) -> Array:
        """(piece, condition) of those whose branch `side` leads to the leaf."""
        piece, found = np.arange(len(leaf)), [np.zeros((2, 0), np.int64)]
        at = self.forest.root[self.tree]
        while len(piece := piece[at >= 0]):
            at = at[at >= 0]
            second = (leaf[piece] > at).astype(np.int64)
            found.append(np.stack([piece, at])[:, second == side])
            at = self.forest.branches[second, at]
        return np.concatenate(found, 1)

    def masks(self) -> Array:
        """The leaves that each condition keeps, as s32."""
        piece, at = self.piece, self.condition
        turns, first = self.turns[piece], self.first[piece]
        before = at < first
        low = self.forest.low[at]
        begin = np.where(before | (low < first), self.forest.turns[at], turns + low - first)
        end = np.where(before, begin + 1, turns + np.minimum(at + 1, self.end[piece]) - first)
        removed = ((1 << (end - begin)) - 1) << begin
        return (~removed).astype(np.uint32).view(np.int32)

    def begins(self) -> Array:
        """The offsets of the conditions of each piece, and the end."""
        counts = np.bincount(self.piece, minlength=len(self.first))
        return np.append(_starts(counts), len(self.piece)).astype(np.int32)

    def leaves(self) -> Array:
        """The leaf values of each piece, [pieces, 32] or [pieces, count, 32]."""
        said = self.forest.said
        table = np.full((len(self.first), LEAVES, *said.shape[1:]), self.forest.silent, said.dtype)
        sizes = self.end - self.first
        piece = np.repeat(np.arange(len(sizes)), sizes)
        leaf = np.arange(len(said))
        table[piece, self.turns[piece] + leaf - self.first[piece]] = said
        return np.ascontiguousarray(np.moveaxis(table, 1, -1))


def _starts(sizes: Array) -> Array:
    return np.cumsum(sizes) - sizes
