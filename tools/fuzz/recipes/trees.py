"""Ensembles of decision trees; now and then of any nodes, whatever they lead to."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ....base.dtypes import F32, F64, S32
from ....base.records import dataclass
from ....graph_ir.ir.graph import Array
from ....graph_ir.ops.tree_ensemble import GROUP
from ..scope import Scope

_REDUCTIONS = ("add", "add", "min", "max")
_MAX_SPLITS = 9
_MAX_NODES = 300
"""Both as far as a tensor may have that many elements."""


@dataclass
class _Nodes:
    """Node attributes of a `tree_ensemble`: their ways and thresholds, the roots, and the steps of each group."""

    ways: Array
    threshold: Array
    roots: Array
    depths: tuple[int, ...]


def tree_ensemble(scope: Scope) -> None:
    """Leaves are integers, whose sums are exact."""
    dtype = scope.random.choice((F32, F32, F64))
    features, groups = max(scope.size(), 1), scope.random.randint(1, 3)
    bits = max((features - 1).bit_length(), 1) + scope.chance(0.3)  # negated features too
    nodes = (_any_nodes if scope.chance(0.3) else _trees)(scope, groups, bits, features)
    count, is_dense = scope.random.randint(1, 3), scope.chance(0.4)
    shape = (len(nodes.ways), count) if is_dense else (len(nodes.ways),)
    leaves = scope.rng.integers(-4, 5, shape).astype(scope.random.choice((F32, dtype)).numpy)
    lists = (nodes.ways, nodes.threshold.astype(dtype.numpy), leaves, nodes.roots)
    attrs: dict[str, Any] = {
        "depths": nodes.depths,
        "targets": tuple(-1 if is_dense else scope.random.randrange(count) for _ in range(groups)),
        "feature_bits": bits,
        "count": count,
        "reduction": scope.random.choice(_REDUCTIONS),
    }
    x = scope.like(dtype, scope.fitting((scope.size(), features)))
    made = scope.given if scope.chance(0.2) and not scope.closed else scope.constant
    scope.make("tree_ensemble", [x, *(made(array) for array in lists)], **attrs)


def _trees(scope: Scope, groups: int, bits: int, features: int) -> _Nodes:
    """A root for each lane of each group, and what grows from it: leaves are split one at a time."""
    ways: list[int] = []
    threshold: list[float] = []
    roots: list[int] = []
    depths: list[int] = []
    max_splits = min(_MAX_SPLITS, scope.plan.max_elements // (2 * groups * GROUP))
    for _ in range(groups * GROUP):
        roots.append(len(ways))
        leaves = [(len(ways), 0)]
        ways.append(0)
        threshold.append(math.nan)
        for _ in range(scope.random.randint(0, max_splits)):
            at, depth = leaves.pop(scope.random.randrange(len(leaves)))
            leaves += [(len(ways) + side, depth + 1) for side in (0, 1)]
            ways[at] = (len(ways) - at) << bits | scope.random.randrange(features)
            threshold[at] = scope.random.randint(-8, 8) / 2
            ways += [0, 0]
            threshold += [math.nan] * 2
        depths.append(max(depth for _, depth in leaves))
    most = tuple(max(depths[i * GROUP : (i + 1) * GROUP]) for i in range(groups))
    return _Nodes(np.array(ways, S32.numpy), np.array(threshold), np.array(roots, S32.numpy), most)


def _any_nodes(scope: Scope, groups: int, bits: int, features: int) -> _Nodes:
    """Some lead nowhere in particular, some indices lie outside."""
    draw = scope.rng.integers
    nodes = scope.random.randint(1, min(_MAX_NODES, scope.plan.max_elements))
    ways = draw(-nodes, nodes + 1, nodes) << bits | draw(0, 1 << bits, nodes)
    roots = draw(-1, nodes + 2, GROUP * groups)
    depths = tuple(scope.random.randint(0, 6) for _ in range(groups))
    threshold = draw(-8, 9, nodes) / 2
    return _Nodes(ways.astype(S32.numpy), threshold, roots.astype(S32.numpy), depths)


RECIPES: dict[str, Callable[[Scope], None]] = {"tree_ensemble": tree_ensemble}
