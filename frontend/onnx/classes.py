"""Scores and labels of the classifiers and regressors of ai.onnx.ml."""

from __future__ import annotations

from collections.abc import Sequence

from ...base.dtypes import F32, S64
from ...graph_ir.ir.graph import GraphTensor
from ..op_builder import Value
from .scope import NodeContext

TRANSFORMS = ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO")


def labels_of(node: NodeContext, name: str) -> tuple[int, ...]:
    """The classes. Raise UnsupportedError if they are texts and the result says which."""
    if node.given("classlabels_strings") and node.attr_texts("classlabels_strings"):
        texts = node.attr_texts("classlabels_strings")
        raise node.unsupported(
            f"labels that are texts ({', '.join(texts[:3])})", "train with numbers as labels"
        )
    return node.attr_ints(name, None) or ()


def post_transform(node: NodeContext, scores: GraphTensor, kind: str) -> GraphTensor:
    """Scores as the attribute of this name wants them."""
    if kind not in TRANSFORMS:
        raise node.unsupported(f"post_transform {kind}")
    if kind == "NONE":
        return scores
    if kind == "LOGISTIC":
        return node.helper("sigmoid", scores)
    if kind == "SOFTMAX":
        return node.helper("softmax", scores, axis=-1)
    zero = node.constant(0, scores.details.dtype)
    is_zero = node.helper("eq", scores, zero)  # zeros stay zeros and count for nothing
    low = node.constant(float("-inf"), scores.details.dtype)
    return node.helper("softmax", node.helper("select", is_zero, low, scores), axis=-1)


def winner(node: NodeContext, scores: GraphTensor, labels: Sequence[int]) -> GraphTensor:
    """The label of the highest score of each row, s64[rows]."""
    if not labels or scores.details.plain_dims[1] != len(labels):
        raise node.rule("there must be a label for each score", f"{labels}, {scores.details}")
    best = node.helper("arg_max", scores, axis=1, keep_dims=False)
    return node.helper(
        "gather", node.constant(list(labels), S64), node.converted(best, S64), axis=0
    )


def two_scores(
    node: NodeContext,
    score: GraphTensor,
    labels: Sequence[int],
    kind: str,
    positive: bool,
    of_second: bool = False,
) -> list[Value]:
    """Return the label and both scores of two classes, given one score s, [rows, 1].

    LOGISTIC gives the probabilities of -s and s, so the label is the second one where s > 0. Otherwise, if no weight is
    negative (`positive`), s is a probability already: the scores are 1 - s and s, and the label changes at a half.
    With `of_second` the weights name the second class alone, so that the score of the first one is 0.
    """
    rows = score.details.plain_dims[0]
    positive = positive and kind != "LOGISTIC"
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
    if of_second or kind == "LOGISTIC":
        both = post_transform(node, both, kind)
    elif kind not in TRANSFORMS:
        raise node.unsupported(f"post_transform {kind}")
    return [node.reshaped(label, (rows,)), both]
