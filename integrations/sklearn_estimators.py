"""`graphc.sklearn`: fitted estimators and pipelines of scikit-learn, compiled.

    fast = graphc.sklearn.compile(pipeline)
    labels = fast.predict(x)

skl2onnx converts the estimator to ONNX. Labels and categories become numbers for that, so that any type works.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..base.errors import UnsupportedError, UserError
from ..driver.compiler import compile as compile_model
from ..runtime.executor import CompiledModel
from .sklearn_categories import Array, Key
from .sklearn_conversion import Converted, converted

__all__ = ["CompiledEstimator", "compile"]

_METHODS = ("predict", "predict_proba", "transform")


def compile(estimator: Any, sample: Any = None, **options: Any) -> CompiledEstimator:
    """Compile a fitted estimator, or a pipeline of them.

    Args:
        estimator: An estimator of scikit-learn that skl2onnx converts.
        sample: A table: the model gets an input for each of its columns. One that a `ColumnTransformer` reads by
            names needs no sample.
        **options: Arguments of `graphc.compile`.

    Raises:
        UserError: The estimator is not fitted, or skl2onnx is missing.
        UnsupportedError: skl2onnx does not convert the estimator, or graphc does not compile the result.
    """
    if not any(hasattr(estimator, name) for name in _METHODS):
        raise UserError(
            f"graphc.sklearn.compile needs an estimator of scikit-learn, got {type(estimator).__name__}"
        )
    made = converted(estimator, sample)
    return CompiledEstimator(compile_model(made.model, **options), estimator, made)


class CompiledEstimator:
    """A compiled estimator with the methods that it had, for numbers in f32.

    `model` is the compiled model, `classes_` the labels of a classifier: for several outputs a list.
    """

    def __init__(self, model: CompiledModel, estimator: Any, made: Converted) -> None:
        self.model = model
        self.classes_ = getattr(estimator, "classes_", None)
        self._has_indicators = _has_indicators(self.classes_, model)
        self._kind = type(estimator).__name__
        self._methods = [name for name in _METHODS if self._has(estimator, name)]
        self._columns, self._categories, self._unread = made.columns, made.categories, made.unread
        self._dtype = np.int64 if made.is_whole else np.float32
        if self._methods == ["transform"]:
            self._check_width(estimator)
        else:
            self._check_rows()

    def predict(self, x: Any) -> Array:
        """Return the label, the labels of all outputs, the cluster, or the value of each row."""
        first = self._run(x)[0]
        if isinstance(self.classes_, list):
            labels = [own.take(column) for own, column in zip(self.classes_, first.T, strict=True)]
            return np.stack(labels, 1)
        if self.classes_ is not None and not self._has_indicators:
            return self.classes_.take(first.reshape(-1))
        return first.reshape(-1) if first.ndim == 2 and first.shape[1] == 1 else first

    def predict_proba(self, x: Any) -> Any:
        """Return the probabilities of all classes, a row for each row; a list of them for several outputs."""
        _, *found = self._run(x)
        if not isinstance(self.classes_, list):
            return found[0]
        several = found if len(found) == len(self.classes_) else found[0]
        return [own[:, : len(labels)] for own, labels in zip(several, self.classes_, strict=True)]

    def transform(self, x: Any) -> Array:
        """Return the transformed rows."""
        return self._run(x)[-1]

    def __getattribute__(self, name: str) -> Any:
        """Raise AttributeError for a method that the estimator does not have, so that `hasattr` says so."""
        if name in _METHODS and name not in (methods := object.__getattribute__(self, "_methods")):
            kind = object.__getattribute__(self, "_kind")
            raise AttributeError(
                f"{kind}, compiled, has no method {name}; it has {', '.join(methods)}"
            )
        return object.__getattribute__(self, name)

    def __repr__(self) -> str:
        return f"<CompiledEstimator of {self._kind}: {', '.join(self._methods)}>"

    def _has(self, estimator: Any, name: str) -> bool:
        """Return whether a result of the model is that of a method."""
        if hasattr(estimator, "get_support"):  # selects features by the estimator in it
            return name == "transform"
        is_alone = name == "transform" and hasattr(estimator, "predict")
        # A classifier's second result is its probabilities, that of clusters their distances.
        is_absent = is_alone and (self.classes_ is not None or len(self.model.outputs) == 1)
        return hasattr(estimator, name) and not is_absent

    def _check_width(self, estimator: Any) -> None:
        """Raise UnsupportedError if the model has other columns than the estimator."""
        try:
            expected = len(estimator.get_feature_names_out())
        except (AttributeError, ValueError):  # an estimator that does not know
            return
        width = self.model.outputs[-1].shape[-1]
        if isinstance(width, int) and width != expected:
            raise UnsupportedError(
                f"{self._kind}: must give {expected} columns, and skl2onnx converts it to {width}",
                "compile the steps that it converts",
            )

    def _check_rows(self) -> None:
        """Raise UnsupportedError if the model has another number of results than rows, and leave out probabilities of
        other labels than it has."""
        first, rows = self.model.outputs[0], self.model.inputs[0].shape[0]
        if "predict" in self._methods and rows not in first.shape:
            raise UnsupportedError(
                f"{self._kind}: must give a result for each row, and skl2onnx converts it to {first}",
                "fit an estimator for each output",
            )
        probabilities = self.model.outputs[-1].shape[1:]
        if self._has_indicators and probabilities != first.shape[1:]:
            self._methods = [name for name in self._methods if name != "predict_proba"]

    def _run(self, x: Any) -> list[Array]:
        if not self._columns:
            return self.model.run(None, {self.model.inputs[0].name: self._matrix(x)})
        feeds = {}
        rows = len(next(iter(x.values())) if isinstance(x, Mapping) else x)
        for number, (key, spec) in enumerate(zip(self._columns, self.model.inputs, strict=True)):
            column = np.zeros(rows) if key in self._unread else self._column(x, key, number)
            if key in self._categories:
                column = self._categories[key].encoded(column, key)
            feeds[spec.name] = _dense(column, spec.dtype.numpy).reshape(-1, 1)
        return self.model.run(None, feeds)

    def _matrix(self, x: Any) -> Array:
        if not self._categories:
            return _dense(x, self._dtype)
        columns = np.asarray(x, object).T
        found = [
            self._categories[key].encoded(column, key)
            for key, column in zip(self._categories, columns, strict=True)
        ]
        return np.ascontiguousarray(np.stack(found, 1))

    def _column(self, x: Any, key: Key, number: int) -> Any:
        """A column of a table by its name, or of an array by its number."""
        try:
            if hasattr(x, "iloc") or isinstance(x, Mapping):
                return x[key] if isinstance(key, str) else x.iloc[:, key]
            names = getattr(getattr(x, "dtype", None), "names", None)
            return x[key] if names else np.asarray(x)[:, number]
        except (KeyError, IndexError, TypeError) as error:
            raise UserError(f"{self._kind} needs a table with the column '{key}'") from error


def _has_indicators(classes: Any, model: CompiledModel) -> bool:
    """Return whether the first result has a column of 0 and 1 for each label, as rows may have several."""
    if classes is None or isinstance(classes, list):
        return False
    return len(classes) > 1 and model.outputs[0].shape[1:] == (len(classes),)


def _dense(x: Any, dtype: Any) -> Array:
    """Rows as a dense array, also those of a sparse matrix. Raise UserError for what is not a number."""
    rows = x.toarray() if hasattr(x, "toarray") else x
    try:
        return np.ascontiguousarray(rows, dtype)
    except (TypeError, ValueError) as error:
        raise UserError(
            f"columns of numbers must hold numbers ({error}); encode texts by an encoder in the pipeline"
        ) from error
