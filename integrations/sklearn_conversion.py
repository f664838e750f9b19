"""Estimators of scikit-learn as ONNX models, by skl2onnx, with labels and categories as numbers."""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..base.errors import UnsupportedError, UserError
from ..base.records import dataclass
from .sklearn_categories import Array, Categories, Key, number_categories


@dataclass(frozen=True)
class Converted:
    """An estimator as an ONNX model, and how its inputs are made of a table.

    Args:
        model: of `onnx`.
        columns: the column of each input; empty for one matrix.
        categories: numbers of categories, by column.
        unread: columns that nothing reads.
        is_whole: whether the matrix holds integers.
    """

    model: Any
    columns: Sequence[Key]
    categories: Mapping[Key, Categories]
    unread: Collection[Key]
    is_whole: bool


def converted(estimator: Any, sample: Any) -> Converted:
    """Return an estimator as an ONNX model. May raise UserError or UnsupportedError."""
    name, classes = type(estimator).__name__, getattr(estimator, "classes_", None)
    keys = _keys(estimator, name)
    made = copy.deepcopy(estimator)
    if classes is not None:
        _number_labels(made, list(classes) if isinstance(classes, list) else [classes])
    categories, integers, unread = number_categories(made, keys)
    whole = {*categories, *integers}
    is_table = hasattr(sample, "columns") or (_reads_names(made) and isinstance(keys[0], str))
    if not is_table and len(whole) in (0, len(keys)):
        columns, kinds = [], {"x": (len(keys), bool(whole))}
    else:
        columns = keys
        kinds = {key if isinstance(key, str) else f"x{key}": (1, key in whole) for key in keys}
    is_whole = bool(whole) and not columns
    return Converted(_to_onnx(made, kinds, name), columns, categories, unread, is_whole)


def _keys(estimator: Any, name: str) -> list[Key]:
    """The columns that an estimator was fitted on."""
    count = getattr(estimator, "n_features_in_", None)
    if count is None:
        raise UserError(f"{name} must be fitted before it is compiled; call fit")
    return list(getattr(estimator, "feature_names_in_", range(count)))


def _reads_names(estimator: Any) -> bool:
    return any(hasattr(part, "transformers_") for part in _parts(estimator, set()))


def _to_onnx(estimator: Any, kinds: Mapping[str, tuple[int, bool]], name: str) -> Any:
    """The ONNX model of an estimator; `kinds` are the columns of each input, and whether it holds integers."""
    try:
        from skl2onnx import to_onnx
        from skl2onnx.common.data_types import FloatTensorType, Int64TensorType
    except ImportError as error:
        raise UserError("graphc.sklearn needs skl2onnx; pip install skl2onnx") from error
    types = [
        (x, (Int64TensorType if is_whole else FloatTensorType)([None, count]))
        for x, (count, is_whole) in kinds.items()
    ]
    is_classifier = hasattr(estimator, "classes_")
    for choice in ({"zipmap": False}, None):
        try:
            chosen = {id(estimator): choice} if choice and is_classifier else None
            with _numbers_for_booleans():
                return to_onnx(
                    estimator,
                    initial_types=types,
                    options=chosen,
                    target_opset={"": 18, "ai.onnx.ml": 3},
                )
        except NameError as error:  # an estimator without that option
            if choice is None:
                raise UnsupportedError(
                    f"{name}: {error}", "convert it to ONNX and compile that"
                ) from error
        except Exception as error:  # skl2onnx raises various classes, and whatever converters raise
            raise UnsupportedError(
                f"{name}: skl2onnx does not convert it ({_shortened(error)})",
                "see its list of supported estimators",
            ) from error
    raise AssertionError


@contextmanager
def _numbers_for_booleans() -> Iterator[None]:
    """Let skl2onnx write lists with booleans, as of HistGradientBoosting, which protobuf 7 refuses among integers."""
    from skl2onnx.common import _container

    original = _container.make_node

    def make_node(*words: Any, **attributes: Any) -> Any:
        for key, value in attributes.items():
            if isinstance(value, list):
                attributes[key] = [int(x) if isinstance(x, bool | np.bool_) else x for x in value]
        return original(*words, **attributes)

    _container.make_node = make_node
    try:
        yield
    finally:
        _container.make_node = original


def _shortened(error: Exception) -> str:
    """The first line of a message, some of which print the whole model."""
    line = str(error).partition("\n")[0]
    return line if len(line) <= 200 else f"{line[:197]}..."


def _number_labels(estimator: Any, classes: Sequence[Array]) -> None:
    """Number the labels of a classifier and of those in it; `classes`: the labels of each output."""
    for part in _parts(estimator, set()):
        own = part.__dict__.get("classes_")
        if isinstance(own, list):
            part.classes_ = [np.arange(len(labels)) for labels in own]
        elif isinstance(own, np.ndarray):
            part.classes_ = _numbered(own, classes)
        if hasattr(part, "flatten_transform"):  # skl2onnx refuses it, and only `transform` reads it
            part.flatten_transform = False


def _numbered(own: Array, classes: Sequence[Array]) -> Array:
    """The numbers of labels among those of the output that has them; the labels themselves if none has."""
    equal = [labels for labels in classes if np.array_equal(own, labels)]
    for labels in (*equal, *classes):
        if np.isin(own, labels).all():
            return np.searchsorted(labels, own)
    return own


def _parts(value: Any, seen: set[int]) -> Iterator[Any]:
    """Yield an estimator and the estimators in it."""
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, list | tuple):
        items: Sequence[Any] = value
    elif isinstance(value, np.ndarray) and value.dtype == object:
        items = list(value.flat)
    elif isinstance(value, dict):
        items = list(value.values())
    elif hasattr(value, "__dict__") and type(value).__module__.partition(".")[0] == "sklearn":
        yield value
        items = list(value.__dict__.values())
    else:
        return
    for item in items:
        yield from _parts(item, seen)
