"""`graphc.sklearn`: fitted estimators and pipelines of scikit-learn, compiled.

    fast = graphc.sklearn.compile(pipeline)
    labels = fast.predict(x)

skl2onnx converts the estimator to ONNX. Labels become numbers for that, so that any type of label works.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..base.errors import UnsupportedError, UserError
from ..driver.compiler import compile as compile_model
from ..runtime.executor import CompiledModel

__all__ = ["CompiledEstimator", "compile"]

Array = np.ndarray[Any, Any]

_METHODS = ("predict", "predict_proba", "transform")


def compile(estimator: Any, sample: Any = None, **options: Any) -> CompiledEstimator:
    """Compile a fitted estimator, or a pipeline of them.

    Args:
        estimator: An estimator of scikit-learn that skl2onnx converts.
        sample: A few rows of input, for estimators that take tables with columns of several types.
        **options: Arguments of `graphc.compile`.

    Raises:
        UserError: The estimator is not fitted, or skl2onnx is missing.
        UnsupportedError: skl2onnx does not convert the estimator, or graphc does not compile the result.
    """
    if not any(hasattr(estimator, name) for name in _METHODS):
        raise UserError(
            f"graphc.sklearn.compile needs an estimator of scikit-learn, got {type(estimator).__name__}"
        )
    classes = getattr(estimator, "classes_", None)
    if isinstance(classes, list):
        raise UnsupportedError(
            "classifiers with several outputs are not supported", "compile one for each output"
        )
    model = compile_model(_converted(estimator, classes, sample), **options)
    return CompiledEstimator(model, estimator, classes)


class CompiledEstimator:
    """A compiled estimator with the methods that it had, for inputs in f32.

    `model` is the compiled model, `classes_` the labels of a classifier.
    """

    def __init__(self, model: CompiledModel, estimator: Any, classes: Array | None) -> None:
        self.model = model
        self.classes_ = classes
        self._kind = type(estimator).__name__
        # A classifier's second result is its probabilities, whatever else its `transform` gives.
        methods = _METHODS if classes is None else _METHODS[:2]
        self._methods = [name for name in methods if hasattr(estimator, name)]
        self._columns = [spec.name for spec in model.inputs] if len(model.inputs) > 1 else []
        self._predicts_labels = len(model.outputs) > 1

    def predict(self, x: Any) -> Array:
        """Return the label, the cluster, or the value of each row."""
        self._check("predict")
        first = self._run(x)[0]
        if self.classes_ is not None:
            return self.classes_.take(first.reshape(-1))
        return first.reshape(-1) if first.ndim == 2 and first.shape[1] == 1 else first

    def predict_proba(self, x: Any) -> Array:
        """Return the probabilities of all classes, a row for each row."""
        self._check("predict_proba")
        return self._run(x)[1]

    def transform(self, x: Any) -> Array:
        """Return the transformed rows."""
        self._check("transform")
        return self._run(x)[-1]

    def __repr__(self) -> str:
        return f"<CompiledEstimator of {self._kind}: {', '.join(self._methods)}>"

    def _check(self, name: str) -> None:
        if name not in self._methods:
            raise UserError(
                f"{self._kind}, compiled, has no method {name}; it has {', '.join(self._methods)}"
            )

    def _run(self, x: Any) -> list[Array]:
        if not self._columns:
            return self.model.run(None, {self.model.inputs[0].name: _dense(x, np.float32)})
        feeds = {}
        for spec in self.model.inputs:
            try:
                column = x[spec.name]
            except (KeyError, IndexError, TypeError) as error:
                raise UserError(
                    f"{self._kind} needs a table with the column '{spec.name}'"
                ) from error
            feeds[spec.name] = _dense(column, spec.dtype.numpy).reshape(-1, 1)
        return self.model.run(None, feeds)


def _dense(x: Any, dtype: Any) -> Array:
    """Rows as a dense array, also those of a sparse matrix."""
    rows = x.toarray() if hasattr(x, "toarray") else x
    return np.ascontiguousarray(rows, dtype)


def _converted(estimator: Any, classes: Array | None, sample: Any) -> Any:
    """The estimator as an ONNX model. May raise UserError or UnsupportedError."""
    try:
        from skl2onnx import to_onnx
        from skl2onnx.common.data_types import FloatTensorType
    except ImportError as error:
        raise UserError("graphc.sklearn needs skl2onnx; pip install skl2onnx") from error
    name = type(estimator).__name__
    if sample is None:
        count = getattr(estimator, "n_features_in_", None)
        if count is None:
            raise UserError(f"{name} must be fitted before it is compiled; call fit")
        given: dict[str, Any] = {"initial_types": [("x", FloatTensorType([None, count]))]}
    else:
        given = {"X": sample if hasattr(sample, "columns") else _dense(sample, np.float32)[:1]}
    numbered = estimator if classes is None else _numbered(estimator, classes)
    for choice in ({"zipmap": False}, None):
        try:
            chosen = {id(numbered): choice} if choice and classes is not None else None
            return to_onnx(
                numbered, options=chosen, target_opset={"": 18, "ai.onnx.ml": 3}, **given
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


def _shortened(error: Exception) -> str:
    """The first line of a message, some of which print the whole model."""
    line = str(error).partition("\n")[0]
    return line if len(line) <= 200 else f"{line[:197]}..."


def _numbered(estimator: Any, classes: Array) -> Any:
    """A copy of a classifier whose labels are the numbers of its classes."""
    made = copy.deepcopy(estimator)
    for part in _parts(made, set()):
        own = part.__dict__.get("classes_")
        if isinstance(own, np.ndarray) and np.isin(own, classes).all():
            part.classes_ = np.searchsorted(classes, own)
        if hasattr(part, "flatten_transform"):  # skl2onnx refuses it, and only `transform` reads it
            part.flatten_transform = False
    return made


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
    elif hasattr(value, "get_params") and hasattr(value, "__dict__"):
        yield value
        items = list(value.__dict__.values())
    else:
        return
    for item in items:
        yield from _parts(item, seen)
