"""Estimators of scikit-learn, compiled, beside the originals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphc
from graphc import UserError

pytest.importorskip("skl2onnx")
pytest.importorskip("sklearn")

from sklearn.cluster import KMeans
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import (
    AdaBoostClassifier,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    RandomForestClassifier,
    VotingClassifier,
)
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

X, Y = load_iris(return_X_y=True)
X = X.astype(np.float32)
LABELS: dict[str, np.ndarray] = {
    "numbers": Y * 10 - 5,
    "texts": np.array(["setosa", "versicolor", "virginica"])[Y],
    "two": np.array([False, True])[(Y > 0).astype(int)],
}

CLASSIFIERS: dict[str, Callable[[], Any]] = {
    "linear": lambda: LogisticRegression(max_iter=500),
    "tree": lambda: DecisionTreeClassifier(random_state=0),
    "forest": lambda: RandomForestClassifier(5, random_state=0),
    "boosting": lambda: GradientBoostingClassifier(n_estimators=3),
    "boosted trees": lambda: AdaBoostClassifier(n_estimators=3, random_state=0),
    "network": lambda: MLPClassifier((8,), max_iter=50, random_state=0),
    "votes": lambda: VotingClassifier(
        [("a", LogisticRegression(max_iter=500)), ("b", GaussianNB())],
        voting="soft",
    ),
    "pipeline": lambda: make_pipeline(StandardScaler(), PCA(3), LogisticRegression()),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("kind", "labels"),
    [*((kind, "texts") for kind in CLASSIFIERS), ("linear", "numbers"), ("forest", "two")],
)
def test_classifiers(kind: str, labels: str) -> None:
    estimator = CLASSIFIERS[kind]().fit(X, LABELS[labels])
    fast = graphc.sklearn.compile(estimator)
    expected = estimator.predict(X)
    assert fast.predict(X).dtype == expected.dtype and np.mean(fast.predict(X) == expected) > 0.99
    np.testing.assert_allclose(fast.predict_proba(X), estimator.predict_proba(X), atol=2e-5)
    assert np.array_equal(fast.predict(X[:1]), fast.predict(X)[:1])


def test_a_classifier_without_probabilities() -> None:
    estimator = LinearSVC().fit(X, LABELS["texts"])
    fast = graphc.sklearn.compile(estimator)
    assert np.array_equal(fast.predict(X), estimator.predict(X))
    with pytest.raises(UserError, match="LinearSVC, compiled, has no method predict_proba; it has"):
        fast.predict_proba(X)


def test_a_classifier_that_transforms_too() -> None:
    """`transform` is refused: the second result of a classifier is its probabilities."""
    estimator = LinearDiscriminantAnalysis().fit(X, LABELS["texts"])
    fast = graphc.sklearn.compile(estimator)
    np.testing.assert_allclose(fast.predict_proba(X), estimator.predict_proba(X), atol=2e-5)
    with pytest.raises(UserError, match="no method transform; it has predict, predict_proba"):
        fast.transform(X)


@pytest.mark.parametrize("targets", [1, 2])
def test_regressors(targets: int) -> None:
    y = X[:, :targets] if targets > 1 else X[:, 0]
    kinds = (
        LinearRegression(),
        Ridge(),
        *([GradientBoostingRegressor(n_estimators=4)] * (targets == 1)),
    )
    for estimator in kinds:
        estimator.fit(X, y)
        found, expected = graphc.sklearn.compile(estimator).predict(X), estimator.predict(X)
        assert found.shape == expected.shape
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", [StandardScaler, MinMaxScaler, lambda: PCA(2)])
def test_transformers(kind: Callable[[], Any]) -> None:
    estimator = kind().fit(X)
    found = graphc.sklearn.compile(estimator).transform(X.astype(np.float64))
    np.testing.assert_allclose(found, estimator.transform(X), rtol=1e-4, atol=1e-4)


def test_clusters() -> None:
    estimator = KMeans(3, random_state=0, n_init=1).fit(X)
    fast = graphc.sklearn.compile(estimator)
    assert np.array_equal(fast.predict(X), estimator.predict(X))
    np.testing.assert_allclose(fast.transform(X), estimator.transform(X), rtol=1e-3, atol=1e-3)


def test_columns_of_a_pipeline() -> None:
    steps = ColumnTransformer([("a", StandardScaler(), [0, 1]), ("b", MinMaxScaler(), [2, 3])])
    estimator = make_pipeline(steps, LogisticRegression()).fit(X, LABELS["texts"])
    assert np.array_equal(graphc.sklearn.compile(estimator).predict(X), estimator.predict(X))


def test_tables_have_an_input_for_each_column() -> None:
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(X, columns=list("abcd"))
    estimator = make_pipeline(StandardScaler(), LogisticRegression()).fit(table, LABELS["texts"])
    fast = graphc.sklearn.compile(estimator, sample=table[:1])
    assert np.array_equal(fast.predict(table), estimator.predict(table))
    with pytest.raises(UserError, match="needs a table with the column"):
        fast.predict(table.drop(columns="d"))


def test_what_is_no_fitted_estimator_is_refused() -> None:
    with pytest.raises(UserError, match="LinearRegression must be fitted before it is compiled"):
        graphc.sklearn.compile(LinearRegression())
    with pytest.raises(UserError, match="needs an estimator of scikit-learn, got int"):
        graphc.sklearn.compile(3)
