"""ai.onnx.ml: features made, scaled and looked up, and linear models over them."""

from __future__ import annotations

import numpy as np

from ...base.dtypes import BOOL, F32, S64
from ...graph_ir.ir.graph import Array, GraphTensor
from ..op_builder import Value
from ..refusals import NUMBERS
from .classes import labels_of, post_transform, winner
from .scope import Handler, NodeContext


def numbers_of(node: NodeContext, name: str) -> Array:
    """A list of floats; an empty one if it is not given."""
    return np.array(node.attr_floats(name) if node.given(name) else (), np.float32)


def _columns(node: NodeContext, name: str) -> GraphTensor:
    """A list with a number for each feature, or one for all."""
    values, columns = numbers_of(node, name), node.details(0).plain_dims[-1:]
    if len(values) not in (1, *columns):
        raise node.rule(f"{name} must have 1 or {columns} numbers", str(len(values)))
    return node.constant(values, F32)


def in_f32(node: NodeContext, index: int = 0) -> GraphTensor:
    """An input in the type that all of these compute in."""
    return node.converted(node.tensor(index), F32)


def _scaler(node: NodeContext) -> Value:
    moved = node.helper("sub", in_f32(node), _columns(node, "offset"))
    return node.make("mul", moved, _columns(node, "scale"))


def _normalizer(node: NodeContext) -> Value:
    """Rows divided by their norm; rows of zeros stay."""
    x, kind = in_f32(node), node.attr_text("norm", "MAX")
    ops = {"MAX": "reduce_max", "L1": "reduce_l1", "L2": "reduce_l2"}
    if kind not in ops:
        raise node.rule(f"norm must be one of {', '.join(ops)}", kind)
    norm = node.helper(ops[kind], x, axes=(-1,), keep_dims=True)
    one = node.constant(1, F32)
    is_zero = node.helper("eq", norm, node.constant(0, F32))
    return node.make("div", x, node.helper("select", is_zero, one, norm))


def _binarizer(node: NodeContext) -> Value:
    x = node.tensor(0)
    dtype = x.details.dtype
    hit = node.helper("gt", x, node.constant(node.attr_float("threshold", 0.0), dtype))
    return node.make("cast", hit, dtype=dtype.name)


def _imputer(node: NodeContext) -> Value:
    """Missing features replaced; missing ones are NaN or a number."""
    x = node.tensor(0)
    if x.details.dtype.is_float:
        values, old = (
            numbers_of(node, "imputed_value_floats"),
            node.attr_float("replaced_value_float", 0.0),
        )
    else:
        values = np.array(node.attr_ints("imputed_value_int64s", None) or (), np.int64)
        old = node.attr_int("replaced_value_int64", 0)
    if values.size not in (1, x.details.plain_dims[-1]):
        raise node.rule("there must be a value for each feature, or one", f"{values.size}")
    dtype = x.details.dtype
    is_nan = isinstance(old, float) and np.isnan(old)
    missing = node.helper("isnan", x) if is_nan else node.helper("eq", x, node.constant(old, dtype))
    return node.make("select", missing, node.constant(values, dtype), x)


def _one_hot(node: NodeContext) -> Value:
    """A new last axis with 1 at the category, f32; no 1 for what is none of them, or an error of the run (zeros=0)."""
    if node.given("cats_strings") and node.attr_texts("cats_strings"):
        raise node.unsupported("categories that are texts", NUMBERS)
    cats, x = node.attr_ints("cats_int64s"), node.converted(node.tensor(0), S64)
    wide = node.reshaped(x, (*x.details.plain_dims, 1))
    found = node.helper("eq", wide, node.constant(list(cats), S64))
    if not node.attr_int("zeros", 1):
        holds = node.helper("reduce_any", found, axes=(x.details.rank,), keep_dims=False)
        axes = tuple(range(x.details.rank))
        message = f"each value must be one of the categories {list(cats)} (`zeros` is 0)"
        node.require(node.helper("reduce_all", holds, axes=axes, keep_dims=False), message)
    return node.make("cast", found, dtype="f32")


def _extractor(node: NodeContext) -> Value:
    """Columns of the last axis by their numbers."""
    x, indices = node.tensor(0), node.tensor(1)
    if x.details.rank == 1:
        x = node.reshaped(x, (1, *x.details.plain_dims))
    flat = node.reshaped(indices, (indices.details.elements,))
    return node.make("gather", x, flat, axis=x.details.rank - 1)


def _table(node: NodeContext, name: str, what: str) -> Array:
    """Keys or values of a label encoder, in whichever attribute they are."""
    if node.given(f"{name}_strings"):
        raise node.unsupported(f"{what} that are texts", NUMBERS)
    if node.given(f"{name}_tensor"):
        return node.attr_array(f"{name}_tensor").reshape(-1)
    if node.given(f"{name}_int64s"):
        return np.array(node.attr_ints(f"{name}_int64s"), np.int64)
    return numbers_of(node, f"{name}_floats")


def _label_encoder(node: NodeContext) -> Value:
    """The value of the last key that is equal, else a default; NaN equals NaN."""
    x, keys, values = node.tensor(0), _table(node, "keys", "keys"), _table(node, "values", "values")
    if len(keys) != len(values) or not len(keys):
        raise node.rule("there must be a value for each key", f"{len(keys)}, {len(values)}")
    default: Array | float = node.attr_float("default_float", -0.0)
    if values.dtype == np.int64:
        default = node.attr_int("default_int64", -1)
    if node.given("default_tensor"):
        default = node.attr_array("default_tensor").reshape(())
    wide = node.reshaped(x, (*x.details.plain_dims, 1))
    hit = node.helper("eq", wide, node.constant(keys, x.details.dtype))
    if x.details.dtype.is_float and np.isnan(keys).any():
        both = node.helper("and", node.helper("isnan", wide), node.constant(np.isnan(keys), BOOL))
        hit = node.helper("or", hit, both)
    index = node.converted(node.helper("arg_max", hit, axis=-1, keep_dims=False, last=True), S64)
    table = node.graph.make_constant(values, f"{node.name}.values")
    found = node.helper("gather", table, index, axis=0)
    other = node.graph.make_constant(np.array(default, values.dtype), f"{node.name}.default")
    known = node.helper("reduce_any", hit, axes=(-1,), keep_dims=False)
    return node.make("select", known, found, other)


def _vectorizer(node: NodeContext) -> Value:
    parts = [node.converted(x, F32) for x in node.tensors()]
    rows = [x if x.details.rank > 1 else node.reshaped(x, (1, x.details.elements)) for x in parts]
    return rows[0] if len(rows) == 1 else node.make("concat", *rows, axis=1)


def _linear(node: NodeContext, outputs: int) -> GraphTensor:
    """x times the coefficients, and intercepts: [rows, outputs]."""
    x, weights = in_f32(node), numbers_of(node, "coefficients")
    if x.details.rank == 1:
        x = node.reshaped(x, (1, x.details.elements))
    columns = x.details.plain_dims[-1]
    if weights.size != outputs * columns:
        raise node.rule(f"there must be {outputs} x {columns} coefficients", str(weights.size))
    matrix = node.constant(weights.reshape(outputs, columns), F32)
    y = node.helper("matmul_core", x, matrix, transpose_b=True)
    shift = numbers_of(node, "intercepts")
    return node.helper("add", y, node.constant(shift, F32)) if shift.any() else y


def _linear_classifier(node: NodeContext) -> list[Value]:
    labels = labels_of(node, "classlabels_ints")
    kind = node.attr_text("post_transform", "NONE")
    outputs = numbers_of(node, "coefficients").size // node.details(0).plain_dims[-1] or 1
    scores = _linear(node, outputs)
    if outputs == 1 and len(labels) == 2:
        scores = node.helper("concat", node.helper("neg", scores), scores, axis=1)
    return [winner(node, scores, labels), post_transform(node, scores, kind)]


def _zip_map(node: NodeContext) -> Value:
    """The scores: a result is an array, not a map from labels."""
    labels = node.attr_texts("classlabels_strings") or node.attr_ints("classlabels_int64s", None)
    scores = node.tensor(0)
    if labels and scores.details.plain_dims[-1:] not in ((len(labels),), ()):
        raise node.rule(
            f"there must be {len(labels)} scores, one of each label", str(scores.details)
        )
    return scores


_READ: dict[str, Handler] = {
    "ArrayFeatureExtractor": _extractor, "Binarizer": _binarizer, "FeatureVectorizer": _vectorizer,
    "Imputer": _imputer, "LabelEncoder": _label_encoder, "LinearClassifier": _linear_classifier,
    "Normalizer": _normalizer, "OneHotEncoder": _one_hot, "Scaler": _scaler, "ZipMap": _zip_map,
    "LinearRegressor": lambda node: post_transform(
        node, _linear(node, node.attr_int("targets", 1)), node.attr_text("post_transform", "NONE")
    ),
}  # fmt: skip
HANDLERS: dict[str, Handler] = {f"ai.onnx.ml::{name}": read for name, read in _READ.items()}
