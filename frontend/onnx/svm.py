"""ai.onnx.ml: support vector machines, regressors and classifiers that let each pair of classes decide."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from ...base.dtypes import F32
from ...graph_ir.ir.graph import Array, GraphTensor
from ..correspondence.compositions.pairs import coupled_probabilities
from ..op_builder import Value
from .classes import labels_of, post_transform, winner
from .features import in_f32, numbers_of
from .scope import Handler, NodeContext


def _kernel(node: NodeContext, x: GraphTensor, vectors: Array) -> GraphTensor:
    """The kernel of each row with each support vector: [rows, vectors]."""
    gamma, shift, degree = (*numbers_of(node, "kernel_params"), 0.0, 0.0, 0.0)[:3]
    matrix = node.constant(vectors, F32)
    kind = node.attr_text("kernel_type", "LINEAR")
    if kind == "RBF":  # of differences: expanding the square would cancel
        rows, columns = x.details.plain_dims
        apart = node.helper("sub", node.reshaped(x, (rows, 1, columns)), matrix)
        distance = node.helper("reduce_sum_square", apart, axes=(2,), keep_dims=False)
        return node.helper("exp", node.helper("mul", distance, node.constant(-gamma, F32)))
    matmul = node.helper("matmul_core", x, matrix, transpose_b=True)
    if kind == "LINEAR":
        return matmul
    scaled = node.helper("mul", matmul, node.constant(gamma, F32))
    scaled = node.helper("add", scaled, node.constant(shift, F32))
    if kind == "SIGMOID":
        return node.helper("tanh", scaled)
    if kind == "POLY":
        return node.helper("pow", scaled, node.constant(degree, F32))
    raise node.rule("kernel_type must be LINEAR, POLY, RBF or SIGMOID", kind)


def _vectors(node: NodeContext, count: int, columns: int) -> Array:
    given = numbers_of(node, "support_vectors")
    if given.size != count * columns:
        raise node.rule(f"there must be {count} x {columns} numbers of vectors", str(given.size))
    return given.reshape(count, columns)


def _regressor(node: NodeContext) -> Value:
    x, weights = in_f32(node), numbers_of(node, "coefficients")
    count = node.attr_int("n_supports", 0)
    if count:
        x = _kernel(node, x, _vectors(node, count, x.details.plain_dims[-1]))
    if weights.size != x.details.plain_dims[-1]:
        raise node.rule(f"there must be {x.details.plain_dims[-1]} coefficients", str(weights.size))
    y = node.helper("matmul_core", x, node.constant(weights.reshape(-1, 1), F32))
    y = node.helper("add", y, node.constant(numbers_of(node, "rho")[:1], F32))
    if node.attr_int("one_class", 0):
        above = node.helper("gt", y, node.constant(0, F32))
        y = node.helper("select", above, node.constant(1, F32), node.constant(-1, F32))
    return post_transform(node, y, node.attr_text("post_transform", "NONE"))


def _classifier(node: NodeContext) -> list[Value]:
    """The labels, and a score for each class where there are probabilities, else for each pair of classes."""
    labels, kind = labels_of(node, "classlabels_ints"), node.attr_text("post_transform", "NONE")
    counts = node.attr_ints("vectors_per_class", None) or ()
    if not sum(counts):
        return _linear_classifier(node, labels, kind)
    if len(counts) != len(labels) or len(labels) < 2:
        rule = "there must be two classes or more, and a number of vectors for each"
        raise node.rule(rule, f"{len(labels)} labels and {len(counts)} numbers")
    x, vectors = in_f32(node), sum(counts)
    kernels = _kernel(node, x, _vectors(node, vectors, x.details.plain_dims[-1]))
    pairs = list(combinations(range(len(labels)), 2))
    matrix, shift = _pair_weights(node, counts), numbers_of(node, "rho")
    if shift.size != len(pairs):
        raise node.rule(f"rho must have {len(pairs)} numbers", str(shift.size))
    scores = node.helper("matmul_core", kernels, node.constant(matrix, F32))
    scores = node.helper("add", scores, node.constant(shift, F32))
    label = winner(node, _votes(node, scores, len(labels)), labels)
    if node.given("prob_a") and numbers_of(node, "prob_a").size:
        return [label, post_transform(node, _probabilities(node, scores, len(labels)), kind)]
    if len(pairs) == 1:
        scores = node.helper("concat", node.helper("neg", scores), scores, axis=1)
    return [label, post_transform(node, scores, kind)]


def _linear_classifier(node: NodeContext, labels: tuple[int, ...], kind: str) -> list[Value]:
    """One row of coefficients for each class."""
    if numbers_of(node, "rho").size == 1:  # ONNX Runtime then returns the labels 0 and 1
        raise node.unsupported("one rho for classes without support vectors")
    x, weights = in_f32(node), numbers_of(node, "coefficients")
    count, columns = len(labels), x.details.plain_dims[-1]
    if not count or weights.size != count * columns:
        raise node.rule(f"there must be {count} x {columns} coefficients", str(weights.size))
    matrix = node.constant(weights.reshape(count, columns), F32)
    scores = node.helper("matmul_core", x, matrix, transpose_b=True)
    scores = node.helper("add", scores, node.constant(numbers_of(node, "rho")[:1], F32))
    return [winner(node, scores, labels), post_transform(node, scores, kind)]


def _pair_weights(node: NodeContext, counts: tuple[int, ...]) -> Array:
    """[vectors, pairs of classes]: a pair sums over the vectors of both, each with a separate row of coefficients."""
    total, given = sum(counts), numbers_of(node, "coefficients")
    if given.size != total * (len(counts) - 1):
        raise node.rule(f"there must be {len(counts) - 1} x {total} coefficients", str(given.size))
    rows, ends = given.reshape(-1, total), np.cumsum([0, *counts])
    pairs = list(combinations(range(len(counts)), 2))
    matrix = np.zeros((total, len(pairs)), np.float32)
    for column, (i, j) in enumerate(pairs):
        for own, row in ((i, j - 1), (j, i)):
            part = slice(ends[own], ends[own + 1])
            matrix[part, column] = rows[row, part]
    return matrix


def _votes(node: NodeContext, scores: GraphTensor, classes: int) -> GraphTensor:
    """Count the pairs each class wins: the first of a pair if its score is positive, else the second."""
    pairs = list(combinations(range(classes), 2))
    matrix, base = np.zeros((len(pairs), classes)), np.zeros(classes)
    for row, (i, j) in enumerate(pairs):
        matrix[row, [i, j]] = 1, -1
        base[j] += 1
    first = node.converted(node.helper("gt", scores, node.constant(0, F32)), F32)
    won = node.helper("matmul_core", first, node.constant(matrix, F32))
    return node.helper("add", won, node.constant(base, F32))


def _probabilities(node: NodeContext, scores: GraphTensor, classes: int) -> GraphTensor:
    """Platt's: a logistic function of each pair's score, and probabilities of the classes that fit them best."""
    count = scores.details.plain_dims[1]
    factors = [numbers_of(node, name) for name in ("prob_a", "prob_b")]
    if {x.size for x in factors} != {count}:
        sizes = " and ".join(str(x.size) for x in factors)
        raise node.rule(f"prob_a and prob_b must have {count} numbers", sizes)
    a, b = (node.constant(x, F32) for x in factors)
    value = node.helper("neg", node.helper("add", node.helper("mul", scores, a), b))
    first = node.helper("clamp", node.helper("sigmoid", value), min=1e-7, max=1 - 1e-7)
    return coupled_probabilities(node, first, classes)


HANDLERS: dict[str, Handler] = {
    "ai.onnx.ml::SVMClassifier": _classifier,
    "ai.onnx.ml::SVMRegressor": _regressor,
}
