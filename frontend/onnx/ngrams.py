"""TfIdfVectorizer of numbers: how often each of some n-grams occurs."""

from __future__ import annotations

import numpy as np

from ...base.dtypes import F32, S64
from ...graph_ir.ir.graph import Array, GraphTensor
from ..op_builder import Value
from ..refusals import NUMBERS
from .scope import Handler, NodeContext


def _pools(node: NodeContext) -> list[tuple[int, Array, Array]]:
    """Length, n-grams [count, length] and their indices in the result, for each length that counts."""
    if node.attr_texts("pool_strings"):
        raise node.unsupported("n-grams of texts", NUMBERS)
    pool = np.array(node.attr_ints("pool_int64s", None) or (), np.int64)
    starts = (*(node.attr_ints("ngram_counts", None) or ()), pool.size)
    indices = np.array(node.attr_ints("ngram_indexes", None) or (), np.int64)
    found, used = [], 0
    for length, (first, last) in enumerate(zip(starts, starts[1:], strict=False), start=1):
        if not 0 <= first <= last <= pool.size or (last - first) % length:
            raise node.rule("ngram_counts must be where n-grams of each length begin", f"{starts}")
        count = (last - first) // length
        if node.attr_int("min_gram_length") <= length <= node.attr_int("max_gram_length") and count:
            grams = pool[first:last].reshape(count, length)
            found.append((length, grams, np.arange(used, used + count)))
        used += count
    if used != indices.size:
        raise node.rule("ngram_indexes must name each n-gram", f"{indices.size} of {used}")
    return found


def _occurrences(node: NodeContext, x: GraphTensor, grams: Array, skip: int) -> GraphTensor | None:
    """Count the occurrences of each n-gram in rows, f32[rows, count]; None if rows are too short."""
    length, step = grams.shape[1], skip + 1
    windows = x.details.plain_dims[1] - (length - 1) * step
    if windows < 1:
        return None
    rows, found = x.details.plain_dims[0], None
    for i in range(length):
        part = node.reshaped(node.sliced(x, 1, i * step, windows), (rows, windows, 1))
        same = node.helper("eq", part, node.constant(grams[:, i], S64))
        found = same if found is None else node.helper("and", found, same)
    assert found is not None
    return node.helper("reduce_sum", node.converted(found, F32), axes=(1,), keep_dims=False)


def _counts(node: NodeContext) -> Value:
    x = node.converted(node.tensor(0), S64)
    dims = x.details.plain_dims
    if len(dims) not in (1, 2):
        raise node.rule("there must be 1 or 2 axes", str(x.details))
    rows = node.reshaped(x, (1, *dims)) if len(dims) == 1 else x
    indices = np.array(node.attr_ints("ngram_indexes", None) or (), np.int64)
    width, mode = int(indices.max(initial=-1)) + 1, node.attr_text("mode")
    weights = np.ones(indices.size, np.float32)
    if mode != "TF" and node.given("weights"):
        weights = np.array(node.attr_floats("weights"), np.float32)
    total = node.constant(np.zeros((rows.details.plain_dims[0], width)), F32)
    for length, grams, which in _pools(node):
        skips = range(node.attr_int("max_skip_count") + 1 if length > 1 else 1)
        for count in (_occurrences(node, rows, grams, skip) for skip in skips):
            if count is not None:
                spread = np.zeros((len(which), width), np.float32)
                spread[np.arange(len(which)), indices[which]] = (
                    1 if mode == "IDF" else weights[which]
                )
                total = node.helper(
                    "add", total, node.helper("matmul_core", count, node.constant(spread, F32))
                )
    if mode == "IDF":
        own = np.zeros(width, np.float32)
        own[indices] = weights
        least = node.helper("min", total, node.constant(1.0, F32))
        total = node.helper("mul", least, node.constant(own, F32))
    return node.reshaped(total, (*dims[:-1], width))


HANDLERS: dict[str, Handler] = {"TfIdfVectorizer": _counts}
