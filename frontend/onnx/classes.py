"""Scores and labels of the classifiers and regressors of ai.onnx.ml."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...base.dtypes import F32, S64
from ...graph_ir.ir.graph import GraphTensor
from ..correspondence.compositions.special import inverse_erf
from ..op_builder import Value, like
from .scope import NodeContext

TRANSFORMS = ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO", "PROBIT")


def labels_of(node: NodeContext, name: str) -> tuple[int, ...]:
    """The classes. Raise UnsupportedError if they are texts and the result says which."""
    if node.given("classlabels_strings") and node.attr_texts("classlabels_strings"):
        texts = ", ".join(node.attr_texts("classlabels_strings")[:3])
        raise node.unsupported(f"labels that are texts ({texts})", "train with numbers as labels")
    return node.attr_ints(name, None) or ()


def post_transform(node: NodeContext, scores: GraphTensor, kind: str) -> GraphTensor:
    """Scores as the attribute of this name wants them."""
    if kind not in TRANSFORMS:
        raise node.rule(f"post_transform must be one of {', '.join(TRANSFORMS)}", kind)
    if kind == "NONE":
        return scores
    if kind == "LOGISTIC":
        return node.helper("sigmoid", scores)
    if kind == "SOFTMAX":
        return node.helper("softmax", scores, axis=-1)
    if kind == "PROBIT":
        doubled = node.helper("add", scores, scores)
        y = inverse_erf(node, node.helper("sub", doubled, like(node, 1, scores)))
        return node.helper("mul", y, like(node, math.sqrt(2), y))
    is_zero = node.helper("eq", scores, like(node, 0, scores))
    # Zeros stay zeros, and count for nothing.
    low = node.helper("select", is_zero, like(node, -math.inf, scores), scores)
    return node.helper("softmax", low, axis=-1)


def winner(node: NodeContext, scores: GraphTensor, labels: Sequence[int]) -> GraphTensor:
    """The label of the highest score of each row, s64[rows]."""
    if not labels or scores.details.plain_dims[1] != len(labels):
        raise node.rule("there must be a label for each score", f"{labels}, {scores.details}")
    best = node.converted(node.helper("arg_max", scores, axis=1, keep_dims=False), S64)
    return node.helper("gather", node.constant(list(labels), S64), best, axis=0)


def two_scores(
    node: NodeContext,
    score: GraphTensor,
    labels: Sequence[int],
    kind: str,
    positive: bool,
    of_second: bool = False,
) -> list[Value]:
    """Return the label and both scores of two classes, given one score s, [rows, 1].

    LOGISTIC gives the probabilities of -s and s, so the label is the second one where s > 0. Otherwise, with PROBIT or
    if no weight is negative (`positive`), s is a probability already: the scores are 1 - s and s, the label changes at
    a half. With `of_second` the weights name the second class alone, so that the score of the first one is 0.
    """
    rows = score.details.plain_dims[0]
    positive = kind == "PROBIT" or (positive and kind != "LOGISTIC")
    limit = node.constant(0.5 if positive else 0, F32)
    first, second = (node.constant(label, S64) for label in labels)
    label = node.helper("select", node.helper("gt", score, limit), second, first)
    if of_second:
        other = node.helper("sub", score, score)
    elif positive:
        other = node.helper("sub", node.constant(1, F32), score)
    else:
        other = node.helper("neg", score)
    both = node.helper("concat", other, score, axis=1)
    if of_second or kind in ("LOGISTIC", "PROBIT"):
        both = post_transform(node, both, kind)
    return [node.reshaped(label, (rows,)), both]
