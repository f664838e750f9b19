"""tree_ensemble: the sums of what many decision trees say of each row."""

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

_COMBINE = {"add": np.add, "min": np.minimum, "max": np.maximum}
_START = {"add": 0.0, "min": np.inf, "max": -np.inf}


@register("tree_ensemble")
class TreeEnsemble(Op):
    """For each row of x [rows, features], what the leaves it reaches in all trees say, combined: [rows, count].

    All nodes lie in one list. The lowest `feature_bits` of `ways[i]` are the feature that node i looks at, the others,
    signed, how far away the pair of nodes below it lies. A row goes to the second of the pair if its feature is at most
    `threshold[i]`, else (NaN too) to the first. A leaf goes to itself: its threshold is NaN, its pair 0 away. `roots`
    are the first nodes of the trees, in groups of 16 that are walked together, group g for `depths[g]` steps.
    `values[i]` is what leaf i adds to result `targets[g]`, or to each result, if that is -1 and `values` is [nodes,
    count]. `missing` names, by 1, nodes at which NaN goes to the second; it has no elements where there are none.
    Indices that lie outside of a list count as its first or last.
    """

    kind: ClassVar[str] = "loop"
    x = Operand("floats")
    ways = Operand("s32[nodes]")
    threshold = Operand("of x's type, [nodes]")
    values = Operand("[nodes] or [nodes, count]")
    roots = Operand("s32[16 * groups]")
    missing = Operand("s32[nodes] or s32[0]")
    depths = IntsAttr("steps of each group")
    targets = IntsAttr("which result each group is for")
    feature_bits = IntAttr("how many bits of ways say the feature", least=1)
    count = IntAttr("number of results of a row", least=1)
    reduction = ChoiceAttr("how trees are combined", *_COMBINE)

    def infer(self, inputs: list[LogicalTensor]) -> list[LogicalTensor]:
        """Values of the rows: [rows, count] of the type of `values`."""
        x, ways, threshold, values, roots, missing = inputs
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
        if any(one.dtype != S32 for one in (ways, roots, missing)):
            raise self.rule("indices must be s32", f"{ways.dtype}, {roots.dtype}, {missing.dtype}")
        if self.feature_bits > 30:
            raise self.rule("feature_bits must be 30 or less", str(self.feature_bits))
        groups = len(self.depths)
        if roots.plain_dims != (groups * GROUP,) or len(self.targets) != groups:
            raise self.rule(f"there must be {GROUP} roots for each group", f"{roots}, {groups}")
        if missing.plain_dims not in ((nodes,), (0,)):
            raise self.rule("missing must have an entry for all nodes or none", str(missing))
        if not dense and not all(0 <= target < self.count for target in self.targets):
            raise self.rule(f"targets must be in [0, {self.count}) or all -1", str(self.targets))
        return [LogicalTensor(values.dtype, (x.plain_dims[0], self.count))]

    def reference(self, inputs: list[Array]) -> list[Array]:
        """Every row and tree walked step by step, group after group."""
        x, ways, threshold, values, roots, missing = inputs
        rows, last = np.arange(len(x))[:, None], len(ways) - 1
        feature = np.clip(ways & ((1 << self.feature_bits) - 1), 0, x.shape[1] - 1)
        below = np.arange(len(ways), dtype=np.int32) + (ways >> self.feature_bits)
        result = np.full((len(x), self.count), _START[self.reduction])
        for group, (depth, target) in enumerate(zip(self.depths, self.targets, strict=True)):
            first = roots[group * GROUP : (group + 1) * GROUP]
            at = np.broadcast_to(np.clip(first, 0, last), (len(x), GROUP))
            for _ in range(depth):
                seen = x[rows, feature[at]]
                right = seen <= threshold[at]
                if missing.size:
                    right |= np.isnan(seen) & (missing[at] != 0)
                at = np.clip(below[at] + right, 0, last)
            said = values[at].astype(np.float64)  # [rows, trees] or [rows, trees, count]
            combine = _COMBINE[self.reduction]
            total = combine.reduce(said, axis=1)
            where = slice(None) if target < 0 else target
            result[:, where] = combine(result[:, where], total)
        return [result.astype(values.dtype)]

    def get_gflop(self) -> float:
        """A comparison and a choice at each step."""
        return 2 * self.inputs[0].details.typical.plain_dims[0] * GROUP * sum(self.depths) / 1e9
