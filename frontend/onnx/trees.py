"""ai.onnx.ml: ensembles of decision trees."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ...base.dtypes import F32, F64
from ...graph_ir.ir.graph import GraphTensor
from ..op_builder import Value
from .classes import labels_of, post_transform, two_scores, winner
from .forest import Branch, Forest, Key, Leaf, check_lengths
from .scope import Handler, NodeContext

_REDUCTIONS = {"SUM": "add", "AVERAGE": "add", "MIN": "min", "MAX": "max"}
_MODES = ("LEQ", "LT", "GTE", "GT", "EQ", "NEQ", "MEMBER")  # as opset 5 numbers them


def _floats(node: NodeContext, name: str) -> Sequence[float]:
    """A list of floats, maybe of doubles in a tensor."""
    if node.given(f"{name}_as_tensor"):
        return [float(value) for value in node.attr_array(f"{name}_as_tensor").reshape(-1)]
    return node.attr_floats(name) if node.given(name) else ()


def _ints(node: NodeContext, name: str) -> tuple[int, ...]:
    return node.attr_ints(name, None) or ()


def _rows(node: NodeContext) -> GraphTensor:
    """x as floats [rows, features]."""
    x = node.tensor(0)
    x = x if x.details.dtype in (F32, F64) else node.converted(x, F32)
    if x.details.rank == 1:
        x = node.reshaped(x, (1, *x.details.plain_dims))
    if x.details.rank != 2:
        raise node.rule("the input must be rows of features", str(x.details))
    return x


def _read_nodes(node: NodeContext, kind: str) -> dict[Key, Branch | Leaf]:
    """The nodes of the form that opsets 1 to 4 have, by (tree, node); leaves are what weights of `kind` name."""
    names = ("treeids", "nodeids", "featureids", "truenodeids", "falsenodeids")
    lists: dict[str, Any] = {name: _ints(node, f"nodes_{name}") for name in names}
    lists["modes"], lists["values"] = node.attr_texts("nodes_modes"), _floats(node, "nodes_values")
    check_lengths(node, lists)
    missing = _ints(node, "nodes_missing_value_tracks_true") or (0,) * len(lists["modes"])
    said: dict[Key, dict[int, float]] = {}
    weights = {name: _ints(node, f"{kind}_{name}") for name in ("treeids", "nodeids", "ids")}
    values = _floats(node, f"{kind}_weights")
    check_lengths(node, {**weights, "weights": values})
    for tree, at, target, weight in zip(*weights.values(), values, strict=True):
        leaf = said.setdefault((tree, at), {})
        leaf[target] = leaf.get(target, 0.0) + weight
    found: dict[Key, Branch | Leaf] = {}
    columns = (*(lists[name] for name in (*names, "modes", "values")), missing)
    for tree, at, feature, true, false, mode, value, nan in zip(*columns, strict=True):
        kind, ways = mode.removeprefix("BRANCH_"), ((tree, true), (tree, false))
        found[tree, at] = (
            Leaf(said.get((tree, at), {}))
            if mode == "LEAF"
            else Branch(feature, kind, value, *ways, bool(nan))
        )
    return found


def _sums(node: NodeContext, nodes: Mapping[Key, Branch | Leaf], count: int) -> GraphTensor:
    """Return the output of all trees: [rows, count]."""
    x = _rows(node)
    how = node.attr_text("aggregate_function", "SUM")
    if how not in _REDUCTIONS:
        raise node.rule(f"aggregate_function must be one of {', '.join(_REDUCTIONS)}", how)
    forest = Forest(node, nodes, x.details.dtype.numpy, x.details.plain_dims[1])
    trees: dict[Any, Key] = {}
    for key in nodes:  # the first node of a tree is its root
        trees.setdefault(key[0], key)
    for root in trees.values():
        forest.add_tree(root)
    scale = 1 / len(trees) if how == "AVERAGE" else 1.0
    return forest.build(x, count, _REDUCTIONS[how], scale, np.dtype(np.float32))


def _with_base(node: NodeContext, scores: GraphTensor) -> GraphTensor:
    base = _floats(node, "base_values")
    if not any(base):
        return scores
    return node.helper("add", scores, node.constant(list(base), scores.details.dtype))


def _regressor(node: NodeContext) -> Value:
    count = node.attr_int("n_targets", 1)
    scores = _with_base(node, _sums(node, _read_nodes(node, "target"), count))
    return post_transform(node, scores, node.attr_text("post_transform", "NONE"))


def _classifier(node: NodeContext) -> list[Value]:
    labels = labels_of(node, "classlabels_int64s")
    nodes = _read_nodes(node, "class")
    ids = set(_ints(node, "class_ids"))
    transform = node.attr_text("post_transform", "NONE")
    if len(labels) == 2 and len(ids) == 1:
        moved = {
            key: Leaf({0: sum(one.values.values())}) if isinstance(one, Leaf) else one
            for key, one in nodes.items()
        }
        score = _sums(node, moved, 1)
        if base := _floats(node, "base_values"):
            own = base[-1] if ids == {1} else base[0]
            score = node.helper("add", score, node.constant([own], F32))
        positive = all(weight >= 0 for weight in _floats(node, "class_weights"))
        return two_scores(node, score, labels, transform, positive, of_second=ids == {1})
    scores = _with_base(node, _sums(node, nodes, len(labels)))
    return [winner(node, scores, labels), post_transform(node, scores, transform)]


def _ensemble(node: NodeContext) -> Value:
    """The form of opset 5: branches and leaves in lists of their own."""
    splits = node.attr_array("nodes_splits")
    modes = [_named(node, _MODES, int(mode)) for mode in node.attr_array("nodes_modes")]
    names = ("featureids", "truenodeids", "trueleafs", "falsenodeids", "falseleafs")
    lists: dict[str, Any] = {name: _ints(node, f"nodes_{name}") for name in names}
    check_lengths(node, {**lists, "modes": modes, "splits": splits.tolist()})
    missing = _ints(node, "nodes_missing_value_tracks_true") or (0,) * len(modes)
    members = _members(node)
    nodes: dict[Key, Branch | Leaf] = {}
    columns = (*(lists[name] for name in names), modes, splits.tolist(), missing)
    for at, (feature, true, leaf1, false, leaf0, mode, value, nan) in enumerate(
        zip(*columns, strict=True)
    ):
        ways = [
            ("leaf", way) if is_leaf else way for way, is_leaf in ((true, leaf1), (false, leaf0))
        ]
        group = next(members, ()) if mode == "MEMBER" else ()
        nodes[at] = Branch(feature, mode, value, ways[0], ways[1], bool(nan), group)
    weights = node.attr_array("leaf_weights")
    for at, (target, weight) in enumerate(
        zip(_ints(node, "leaf_targetids"), weights.tolist(), strict=True)
    ):
        nodes[("leaf", at)] = Leaf({target: weight})
    x = _rows(node)
    forest = Forest(node, nodes, x.details.dtype.numpy, x.details.plain_dims[1])
    roots = _ints(node, "tree_roots")
    for root in roots:
        forest.add_tree(root)
    how = _named(node, ("AVERAGE", "SUM", "MIN", "MAX"), node.attr_int("aggregate_function", 1))
    scale = 1 / len(roots) if how == "AVERAGE" else 1.0
    count = node.attr_int("n_targets", 1)
    scores = forest.build(x, count, _REDUCTIONS[how], scale, x.details.dtype.numpy)
    kinds = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
    return post_transform(node, scores, _named(node, kinds, node.attr_int("post_transform", 0)))


def _named(node: NodeContext, names: Sequence[str], number: int) -> str:
    """Return the name that belongs to a number."""
    if not 0 <= number < len(names):
        raise node.rule(f"numbers must be below {len(names)} ({', '.join(names)})", str(number))
    return names[number]


def _members(node: NodeContext) -> Iterator[Sequence[float]]:
    """The sets of the nodes that test membership, in order: in the file they end with NaN."""
    given = node.given("membership_values")
    values: list[float] = node.attr_array("membership_values").tolist() if given else []
    one: list[float] = []
    for value in map(float, values):
        if np.isnan(value):
            yield one
            one = []
        else:
            one.append(value)


HANDLERS: dict[str, Handler] = {
    "ai.onnx.ml::TreeEnsemble": _ensemble,
    "ai.onnx.ml::TreeEnsembleClassifier": _classifier,
    "ai.onnx.ml::TreeEnsembleRegressor": _regressor,
}
