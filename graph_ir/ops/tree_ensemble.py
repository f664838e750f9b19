"""tree_ensemble: the sums of what many decision trees say of each row; masked_trees: with masks of their leaves."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from ...base.dtypes import S32
from ..ir.attributes import ChoiceAttr, IntAttr
from ..ir.axis_attributes import IntsAttr
from ..ir.graph import Array, Op
from ..ir.logical_tensor import LogicalTensor
from ..ir.operands import Operand
from ..ir.registry import register

GROUP = 16
"""Trees that are walked together, one in each lane of a vector."""

LEAVES = 32
"""Leaves of a piece of a tree that a mask holds."""

_COMBINE = {"add": np.add, "min": np.minimum, "max": np.maximum}
_START = {"add": 0.0, "min": np.inf, "max": -np.inf}


def _inside(at: Array, last: int) -> Array:
    """Numbers of nodes; the last one where there is none of that number."""
    return np.where((at < 0) | (at > last), last, at)


@register("tree_ensemble")
class TreeEnsemble(Op):
    """The combined leaf values that each row of x [rows, features] reaches in all trees: [rows, count].

    All nodes lie in one list. The lowest `feature_bits` of `ways[i]` are the feature that node i looks at, the others,
    signed, how far away the pair of nodes below it lies. A row goes to the second of the pair if its feature is at most
    `threshold[i]`, else (NaN too) to the first. If `feature_bits` hold twice the number of x's columns, features from
    that number on are those negated, so that NaN can go with small numbers too. A leaf goes to itself: its threshold is
    NaN, its pair 0 away. `roots` are the first nodes of the trees, in groups of 16 that are walked together, group g
    for `depths[g]` steps. `values[i]` is what leaf i adds to result `targets[g]`, or to each result, if that is -1 and
    `values` is [nodes, count]. Indices that lie outside of a list count as its last.
    """

    kind: ClassVar[str] = "loop"
    x = Operand("floats")
    ways = Operand("s32[nodes]")
    threshold = Operand("of x's type, [nodes]")
    values = Operand("[nodes] or [nodes, count]")
    roots = Operand("s32[16 * groups]")
    depths = IntsAttr("steps of each group")
    targets = IntsAttr("result that each group adds to")
    feature_bits = IntAttr("bits of a way that encode the feature", least=1)
    count = IntAttr("results per row", least=1)
    reduction = ChoiceAttr("how the results of trees are combined", *_COMBINE)

    def infer(self, inputs: list[LogicalTensor]) -> list[LogicalTensor]:
        """Values of the rows: [rows, count] of the type of `values`."""
        x, ways, threshold, values, roots = inputs
        nodes = ways.elements
        lists = (ways, threshold)
        dense = {-1} == set(self.targets)
        wanted = (nodes, self.count) if dense else (nodes,)
        if not nodes or not x.plain_dims[-1:] or not x.plain_dims[-1]:
            raise self.rule("there must be nodes and features", f"{ways} and {x}")
        if x.rank != 2 or not x.dtype.is_float or threshold.dtype != x.dtype:
            raise self.rule(
                "x must be floats [rows, features] of the thresholds' type", f"{x}, {threshold}"
            )
        if any(one.plain_dims != (nodes,) for one in lists) or values.plain_dims != wanted:
            raise self.rule("nodes must have one entry in every list", f"{lists}, {values}")
        if any(one.dtype != S32 for one in (ways, roots)):
            raise self.rule("indices must be s32", f"{ways.dtype}, {roots.dtype}")
        if self.feature_bits > 30:
            raise self.rule("feature_bits must be 30 or less", str(self.feature_bits))
        groups = len(self.depths)
        if roots.plain_dims != (groups * GROUP,) or len(self.targets) != groups:
            raise self.rule(f"there must be {GROUP} roots for each group", f"{roots}, {groups}")
        if not dense and not all(0 <= target < self.count for target in self.targets):
            raise self.rule(f"targets must be in [0, {self.count}) or all -1", str(self.targets))
        return [LogicalTensor(values.dtype, (x.plain_dims[0], self.count))]

    def reference(self, inputs: list[Array]) -> list[Array]:
        """Every row and tree walked step by step, group after group."""
        x, ways, threshold, values, roots = inputs
        rows, last = np.arange(len(x))[:, None], len(ways) - 1
        both = np.concatenate([x, -x], 1)[:, : self.planes]
        feature = np.minimum(ways & ((1 << self.feature_bits) - 1), both.shape[1] - 1)
        below = np.arange(len(ways), dtype=np.int32) + (ways >> self.feature_bits)
        result = np.full((len(x), self.count), _START[self.reduction])
        for group, (depth, target) in enumerate(zip(self.depths, self.targets, strict=True)):
            first = roots[group * GROUP : (group + 1) * GROUP]
            at = np.broadcast_to(_inside(first, last), (len(x), GROUP))
            for _ in range(depth):
                right = both[rows, feature[at]] <= threshold[at]
                at = _inside(below[at] + right, last)
            said = values[at].astype(np.float64)  # [rows, trees] or [rows, trees, count]
            combine = _COMBINE[self.reduction]
            total = combine.reduce(said, axis=1)
            where = slice(None) if target < 0 else target
            result[:, where] = combine(result[:, where], total)
        return [result.astype(values.dtype)]

    @property
    def planes(self) -> int:
        """The number of features, including their negations if nodes may read those."""
        columns = int(self.x.details.plain_dims[1])
        return 2 * columns if 1 << self.feature_bits >= 2 * columns else columns

    def get_gflop(self) -> float:
        """A comparison and a choice at each step."""
        return 2 * self.inputs[0].details.typical.plain_dims[0] * GROUP * sum(self.depths) / 1e9


@register("masked_trees")
class MaskedTrees(TreeEnsemble):
    """A tree_ensemble that many rows evaluate without walking: the same trees a second time, as pieces of 32 leaves.

    Each slot of piece p, from `begins[p]` to `begins[p + 1]`, is a condition x[feature] <= bound; where it holds, the
    piece keeps the leaves in `mask` only. The lowest leaf l that all conditions keep says `leaves[p, l]`, or
    `leaves[p, :, l]` to each result. `pieces[i]` pieces in a row are for result i.
    """

    x, ways, threshold = TreeEnsemble.x, TreeEnsemble.ways, TreeEnsemble.threshold
    values, roots = TreeEnsemble.values, TreeEnsemble.roots
    feature = Operand("s32[slots]")
    bound = Operand("of x's type, [slots]")
    mask = Operand("s32[slots]")
    begins = Operand("s32[pieces + 1]")
    leaves = Operand("[pieces, 32] or [pieces, count, 32], as values")
    few = IntAttr("rows behind the last vector are walked if they are fewer", default=4, least=1)
    pieces = IntsAttr(
        "how many pieces each result has; one number where each tree says all results"
    )

    def infer(self, inputs: list[LogicalTensor]) -> list[LogicalTensor]:
        """Infer the type of the walked trees."""
        results = super().infer(inputs[:5])
        feature, bound, mask, begins, leaves = inputs[5:]
        dense = {-1} == set(self.targets)
        count = sum(self.pieces)
        wanted = (count, self.count, LEAVES) if dense else (count, LEAVES)
        if leaves.plain_dims != wanted or begins.plain_dims != (count + 1,):
            raise self.rule(f"leaves must be {list(wanted)}", f"{leaves}, {begins}")
        if leaves.dtype != results[0].dtype or bound.dtype != inputs[0].dtype:
            raise self.rule("leaves must be of the type of values", f"{leaves}, {bound}")
        slots = (feature.plain_dims, bound.plain_dims, mask.plain_dims)
        if feature.rank != 1 or not feature.elements or len(set(slots)) > 1:
            raise self.rule("slots must have one entry in every list", str(slots))
        if any(one.dtype != S32 for one in (feature, mask, begins)):
            raise self.rule("features, masks and begins must be s32", f"{feature}, {mask}")
        if len(self.pieces) != (1 if dense else self.count):
            raise self.rule("pieces must have a number for each result", str(self.pieces))
        return results

    def reference(self, inputs: list[Array]) -> list[Array]:
        """The trees walked."""
        return super().reference(inputs[:5])
