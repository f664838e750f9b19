"""Decision trees of a file as the lists of nodes that the op `tree_ensemble` walks.

Every condition becomes `x <= threshold`: others swap their branches or take the number before; `==` becomes two nodes
and membership a chain of them. Trees of a similar depth are walked together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from ...base.errors import UserError
from ...base.records import dataclass
from ...graph_ir.ir.graph import Array, GraphTensor
from ...graph_ir.ops.tree_ensemble import GROUP
from ..op_builder import OpBuilder, like

Key = Any
"""A file's reference to a node."""


@dataclass(frozen=True)
class Branch:
    """A condition `x[feature] MODE value` and where it leads; `members` are the values of MEMBER."""

    feature: int
    mode: str
    value: float
    true: Key
    false: Key
    missing_is_true: bool = False
    members: Sequence[float] = ()


@dataclass(frozen=True)
class Leaf:
    """The output of a tree, by result."""

    values: Mapping[int, float]


@dataclass
class _Lists:
    """The records of all nodes."""

    feature: list[int] = field(default_factory=list)
    threshold: list[Any] = field(default_factory=list)
    below: list[int] = field(default_factory=list)
    values: list[Mapping[int, float]] = field(default_factory=list)

    def reserve(self, count: int) -> int:
        """Reserve `count` nodes, and return the number of the first; each is an empty leaf."""
        first = len(self.feature)
        for number in range(first, first + count):
            self.feature.append(0)
            self.threshold.append(np.nan)
            self.below.append(number)
            self.values.append({})
        return first

    def copy(self, source: int, target: int) -> None:
        """Replace a node by an equal one: the same condition, leading to the same nodes."""
        for part in (self.feature, self.threshold, self.below):
            part[target] = part[source]


class Forest:
    """The nodes of all trees. `nodes` by key; `dtype` is NumPy's of the features, `columns` their number."""

    def __init__(
        self, who: OpBuilder, nodes: Mapping[Key, Branch | Leaf], dtype: np.dtype[Any], columns: int
    ) -> None:
        self._who = who
        self._nodes = nodes
        self._dtype = dtype
        self._columns = columns
        self._lists = _Lists()
        self._trees: list[tuple[int, int, tuple[int, ...]]] = []  # depth, root, results

    def add_tree(self, root: Key) -> None:
        """Append a tree. Raise UserError if its nodes do not form one."""
        lists = self._lists
        results: set[int] = set()
        made: dict[
            int, int
        ] = {}  # nodes that several lead to, such as those of ==, have one pair below them
        first = lists.reserve(1)
        todo: list[tuple[int, Branch | Leaf]] = [(first, self._node(root))]
        kept: list[Branch | Leaf] = []  # so that no other object gets the id of one that is made
        while todo:
            number, node = todo.pop()
            if isinstance(node, Leaf):
                lists.values[number] = node.values
                results |= node.values.keys()
            elif id(node) in made:
                lists.copy(made[id(node)], number)
            else:
                feature, limit, left, right, missing = self._as_at_most(node)
                if not 0 <= feature < self._columns:
                    raise self._who.rule(f"features must be in [0, {self._columns})", str(feature))
                if (
                    missing
                ):  # NaN goes with small numbers: the opposite condition of the feature negated
                    feature += self._columns
                    limit, left, right = self._negated(limit), right, left
                pair = lists.reserve(2)
                lists.feature[number], lists.below[number] = feature, pair
                lists.threshold[number] = limit
                made[id(node)] = number
                kept.append(node)
                todo += [(pair, left), (pair + 1, right)]
        depth = self._depth(first)
        if depth is None:
            raise self._who.rule("nodes must form trees", f"a cycle below {root}")
        self._trees.append((depth, first, tuple(sorted(results))))

    def _depth(self, root: int) -> int | None:
        """The longest way from a root to a leaf; None if there is a cycle."""
        below, level = self._lists.below, {root}
        for depth in range(len(below)):
            level = {i for n in level if below[n] != n for i in (below[n], below[n] + 1)}
            if not level:
                return depth
        return None

    def _node(self, key: Key | Branch | Leaf) -> Branch | Leaf:
        if isinstance(key, (Branch, Leaf)):
            return key
        if key not in self._nodes:
            raise self._who.rule("branches must lead to nodes of the tree", str(key))
        return self._nodes[key]

    def _as_at_most(self, node: Branch) -> tuple[int, Any, Branch | Leaf, Branch | Leaf, bool]:
        """(feature, threshold, node if above or NaN, node if at most, whether NaN goes to the latter)."""
        true, false = self._node(node.true), self._node(node.false)
        limit: Any = self._dtype.type(node.value)
        before = np.nextafter(limit, self._dtype.type(-np.inf))
        nan = node.missing_is_true
        if node.mode in ("LEQ", "LT"):
            return node.feature, limit if node.mode == "LEQ" else before, false, true, nan
        if node.mode in ("GT", "GTE"):
            return node.feature, limit if node.mode == "GT" else before, true, false, not nan
        if node.mode in ("EQ", "NEQ"):
            hit, miss = (true, false) if node.mode == "EQ" else (false, true)
            nan_hits = nan == (node.mode == "EQ")
            # At most the value, and then above the number before it. NaN takes the side it has in both.
            inner = Branch(node.feature, "GT", float(before), hit, miss, nan_hits)
            return node.feature, limit, miss, inner, nan_hits
        if node.mode == "MEMBER":
            *others, last = node.members
            rest: Key = node.false
            for value in others:
                rest = Branch(node.feature, "EQ", value, true, rest, nan)
            return self._as_at_most(Branch(node.feature, "EQ", last, true, rest, nan))
        raise self._who.rule("a mode of a branch must be one of ONNX's", f"'{node.mode}'")

    def _negated(self, limit: Any) -> Any:
        """B such that -x <= b where x > limit."""
        if np.isnan(limit):
            return self._dtype.type(np.inf)
        infinity = self._dtype.type(np.inf)
        return np.nextafter(-limit, -infinity) if limit < infinity else self._dtype.type(np.nan)

    def build(
        self, x: GraphTensor, count: int, reduction: str, scale: float, dtype: np.dtype[Any]
    ) -> GraphTensor:
        """The op for these rows: `count` results of type `dtype`, each scaled."""
        who, lists = self._who, self._lists
        dense = any(len(results) > 1 for _, _, results in self._trees)
        roots, depths, targets = self._groups(dense)
        silent = {"add": 0.0, "min": np.inf, "max": -np.inf}[reduction]
        values = np.full((len(lists.values), count) if dense else len(lists.values), silent)
        for number, said in enumerate(lists.values):
            for target, value in said.items():
                values[(number, target) if dense else number] = value * scale
        planes = self._columns * (2 if max(lists.feature) >= self._columns else 1)
        bits = max(planes - 1, 1).bit_length()
        ways = self._ways(bits)
        limits, first = np.array(lists.threshold, self._dtype), np.array(roots, np.int32)
        arrays = [ways, limits, values.astype(dtype), first]
        tensors = [who.graph.make_constant(array, f"{who.name}.nodes") for array in arrays]
        groups = {"depths": depths, "targets": targets}
        attrs = {**groups, "feature_bits": bits, "count": count, "reduction": reduction}
        results = who.make("tree_ensemble", x, *tensors, **attrs)
        if reduction == "add":
            return results
        is_silent = who.helper("eq", results, like(who, silent, results))
        return who.helper("select", is_silent, like(who, 0, results), results)

    def _ways(self, bits: int) -> Array:
        """Feature and distance of the pair below, in one number for each node. Raise UnsupportedError for huge
        trees."""
        below = np.array(self._lists.below, np.int64)
        distance = below - np.arange(len(below))
        most = 1 << (31 - bits)
        if (np.abs(distance) >= most).any():
            raise self._who.unsupported(
                f"trees with {most} nodes or more of {1 << bits} features, whose numbers have 32 bits,"
            )
        return ((distance << bits) | np.array(self._lists.feature)).astype(np.int32)

    def _groups(self, dense: bool) -> tuple[list[int], list[int], list[int]]:
        """Roots, and depth and target of each group of trees; some trees that say nothing fill the last ones."""
        filler = self._lists.reserve(1)
        roots: list[int] = []
        depths: list[int] = []
        targets: list[int] = []
        kinds = {() if dense else results[:1] for _, _, results in self._trees}
        for kind in sorted(kinds):
            mine = sorted(
                (depth, root)
                for depth, root, results in self._trees
                if dense or results[:1] == kind
            )
            for begin in range(0, len(mine), GROUP):
                part = mine[begin : begin + GROUP]
                roots += [root for _, root in part] + [filler] * (GROUP - len(part))
                depths.append(part[-1][0])
                targets.append(-1 if dense else kind[0] if kind else 0)
        return roots, depths, targets


def check_lengths(who: OpBuilder, lists: Mapping[str, Sequence[Any]]) -> None:
    """Raise UserError for lists of nodes that are not equally long."""
    lengths = {name: len(values) for name, values in lists.items()}
    if len(set(lengths.values())) > 1:
        raise who.rule("lists of nodes must have one length", str(lengths))
    if not any(lengths.values()):
        raise UserError(f"{who.type} '{who.name}': there must be nodes, got none")
