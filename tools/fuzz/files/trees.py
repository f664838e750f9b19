"""Models of one tree ensemble: TreeEnsembleClassifier and TreeEnsembleRegressor in every class and weight form that
ONNX Runtime reads as the specification says (docs/reference/formats.md lists the others).

Weights are quarters, whose sums are exact in any order.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from onnx import ModelProto, TensorProto, helper

from ....base.records import dataclass

TRANSFORMS = ("NONE", "LOGISTIC", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO")
MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")
SIGNS = ((-8, 8), (0, 8), (-8, -1))
"""Ranges of weights, in quarters: of either sign, not negative, negative."""

MIN_TAKEN = 3
"""Quarters: the least positive score of two classes that ONNX Runtime takes for the second one."""

TREES, MAX_SPLITS = (1, 2, 4), 5
"""Numbers of trees are powers of two, so that averages are exact; splits of one tree."""

Lists = dict[str, list[Any]]


@dataclass(frozen=True)
class _Form:
    """The options of an ensemble. `named`: the results that have weights ("one" of them, "each" leaf another
    one, "all")."""

    is_classifier: bool
    results: int
    named: str
    only: int
    transform: str
    low: int
    high: int
    has_base: bool

    @property
    def is_binary(self) -> bool:
        """Return whether one score stands for two classes."""
        return self.is_classifier and self.results == 2 and self.named == "one"


def _form(source: random.Random) -> _Form:
    """Draw a form, without what ONNX Runtime reads in another way."""
    is_classifier = source.random() < 0.75
    results = source.choice((2, 2, 2, 2, 3, 5) if is_classifier else (1, 2, 4))
    named, only = source.choice(("one", "one", "each", "all")), source.randrange(results)
    transform, (low, high) = source.choice(TRANSFORMS), source.choice(SIGNS)
    has_base = source.random() < 0.4
    if not is_classifier:
        transform = "NONE" if results == 1 else transform  # not applied to one target
        named = "all" if results > 1 else "one"  # a target without a leaf gets no base value
    elif results > 2:
        low, high = (1, 8) if named != "all" else (low, high)  # a class without a leaf never wins
    elif named == "one":
        low = MIN_TAKEN if transform == "LOGISTIC" and low == 0 else low
        has_base = has_base and only == 0  # ignored for the second class
    else:
        named = "all"  # a row of one class alone is read as one of all
        has_base = False  # the score of one class is added to the base value of the other
    return _Form(is_classifier, results, named, only, transform, low, high, has_base)


def random_trees(source: random.Random) -> ModelProto:
    """Return a classifier or a regressor over rows of features."""
    rows, features, form = source.randint(1, 9), source.randint(1, 5), _form(source)
    nodes, leaves = _trees(source, features)
    what = "class" if form.is_classifier else "target"
    attrs: dict[str, Any] = {f"nodes_{name}": values for name, values in nodes.items()}
    attrs |= {f"{what}_{name}": v for name, v in _weights(source, leaves, form).items()}
    attrs["post_transform"] = form.transform
    if form.has_base:
        count = 1 if form.is_binary else form.results
        attrs["base_values"] = [source.randint(-8, 8) / 4 for _ in range(count)]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [rows, features])
    scores = helper.make_tensor_value_info("scores", TensorProto.FLOAT, [rows, form.results])
    label = helper.make_tensor_value_info("label", TensorProto.INT64, [rows])
    if form.is_classifier:
        attrs["classlabels_int64s"] = source.sample(range(-3, 9), form.results)
        is_label_taken = form.results > 2 or form.is_binary  # else it is not the higher score's
        infos, names = [label] * is_label_taken + [scores], ["label", "scores"]
    else:
        attrs["n_targets"] = form.results
        attrs["aggregate_function"] = source.choice(("SUM", "SUM", "AVERAGE", "MIN", "MAX"))
        infos, names = [scores], ["scores"]
    op = "TreeEnsembleClassifier" if form.is_classifier else "TreeEnsembleRegressor"
    node = helper.make_node(op, ["x"], names, domain="ai.onnx.ml", **attrs)
    graph = helper.make_graph([node], "trees", [x], infos)
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def _trees(source: random.Random, features: int) -> tuple[Lists, list[tuple[int, int]]]:
    """The lists of nodes, and (tree, node) of each leaf."""
    names = ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids")
    lists: Lists = {name: [] for name in (*names, "missing_value_tracks_true")}
    leaves: list[tuple[int, int]] = []
    for tree in range(source.choice(TREES)):
        splits, pending, count = source.randint(1, MAX_SPLITS), [0], 1
        while pending:
            node = pending.pop(source.randrange(len(pending)))
            below = [count, count + 1] if splits else [0, 0]
            row: list[Any] = [tree, node, source.randrange(features), source.randint(-16, 16) / 4]
            row += [source.choice(MODES) if splits else "LEAF", *below, source.randint(0, 1)]
            for values, value in zip(lists.values(), row, strict=True):
                values.append(value)
            if splits:
                pending, count, splits = pending + below, count + 2, splits - 1
            else:
                leaves.append((tree, node))
    _sort(lists)
    return lists, leaves


def _sort(lists: Lists) -> None:
    """The root of a tree comes first."""
    order = sorted(
        range(len(lists["nodeids"])), key=lambda i: (lists["treeids"][i], lists["nodeids"][i])
    )
    for name, values in lists.items():
        lists[name] = [values[i] for i in order]


def _weights(source: random.Random, leaves: Sequence[tuple[int, int]], form: _Form) -> Lists:
    """The lists of weights. Those of either sign have a negative one, as ONNX Runtime looks at all of them."""
    lists: Lists = {name: [] for name in ("treeids", "nodeids", "ids", "weights")}
    for tree, node in leaves:
        every = range(form.results)
        named = {"one": [form.only], "each": [source.choice(every)], "all": [*every]}[form.named]
        for one in named:
            row = (tree, node, one, source.randint(form.low, form.high) / 4)
            for values, value in zip(lists.values(), row, strict=True):
                values.append(value)
    if form.low < 0:
        lists["weights"][0] = form.low / 4
    return lists
