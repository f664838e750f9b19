"""Estimators of scikit-learn, compiled, beside the originals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphc
from graphc import UnsupportedError, UserError

pytest.importorskip("skl2onnx")
pytest.importorskip("sklearn")

from sklearn.calibration import CalibratedClassifierCV
from sklearn.cluster import KMeans
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import (
    LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
)
from sklearn.ensemble import (
    AdaBoostClassifier,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    VotingClassifier,
    VotingRegressor,
)
from sklearn.feature_selection import RFE
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, OrdinalEncoder, StandardScaler
from sklearn.svm import SVC, LinearSVC
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
    "histograms": lambda: HistGradientBoostingClassifier(max_iter=3),
    "support vectors": lambda: SVC(probability=True, random_state=0),
    "calibrated": lambda: CalibratedClassifierCV(LinearSVC(), cv=3),
    "quadratic": lambda: QuadraticDiscriminantAnalysis(),
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
    assert not hasattr(fast, "predict_proba") and hasattr(fast, "predict")
    with pytest.raises(AttributeError, match="LinearSVC, compiled, has no method predict_proba"):
        fast.predict_proba(X)


def test_a_classifier_that_transforms_too() -> None:
    """`transform` is refused: the second result of a classifier is its probabilities."""
    estimator = LinearDiscriminantAnalysis().fit(X, LABELS["texts"])
    fast = graphc.sklearn.compile(estimator)
    np.testing.assert_allclose(fast.predict_proba(X), estimator.predict_proba(X), atol=2e-5)
    with pytest.raises(AttributeError, match="no method transform; it has predict, predict_proba"):
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


TABLE_TEXTS = ["red", "green", "blue", "red", "blue"] * 30


def table(**more: Any) -> Any:
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame({"a": X[:, 0], "b": X[:, 1], "color": TABLE_TEXTS, **more})


ENCODERS: dict[str, Callable[[], Any]] = {
    "one-hot": lambda: OneHotEncoder(handle_unknown="ignore"),
    "numbers": lambda: OrdinalEncoder(),
    "filled": lambda: make_pipeline(
        SimpleImputer(strategy="constant", fill_value="blue"), OneHotEncoder()
    ),
}


@pytest.mark.parametrize("kind", ENCODERS)
def test_categories_of_tables(kind: str) -> None:
    given = table(**{"my size": np.arange(150) % 4, "unread": TABLE_TEXTS})
    if kind == "filled":
        given.loc[3, "color"] = None
    texts, numbers = ("t", ENCODERS[kind](), ["color"]), ("n", StandardScaler(), ["a", "b"])
    steps = ColumnTransformer([numbers, texts, ("s", OneHotEncoder(), ["my size"])])
    estimator = make_pipeline(steps, LogisticRegression(max_iter=500))
    fast = graphc.sklearn.compile(estimator.fit(given, LABELS["texts"]))
    np.testing.assert_allclose(fast.predict_proba(given), estimator.predict_proba(given), atol=2e-5)
    arrays = {name: given[name].to_numpy() for name in given.columns}
    assert np.array_equal(fast.predict(arrays), estimator.predict(given))
    given.loc[0, "color"] = "pink"
    if kind == "one-hot":
        np.testing.assert_allclose(
            fast.predict_proba(given), estimator.predict_proba(given), atol=2e-5
        )
    else:
        with pytest.raises(
            UserError, match=r"column 'color' must hold one of \['blue', .*got 'pink'"
        ):
            fast.predict(given)


def test_categories_of_arrays() -> None:
    texts = np.array([TABLE_TEXTS, TABLE_TEXTS[::-1]], object).T
    mixed = np.concatenate([texts[:, :1], X[:, :2].astype(object)], 1)
    columns = ColumnTransformer([("t", OneHotEncoder(), [0]), ("n", StandardScaler(), [1, 2])])
    for rows, first in ((texts, OneHotEncoder()), (mixed, columns), (X > 2, OneHotEncoder())):
        estimator = make_pipeline(first, LogisticRegression(max_iter=500)).fit(rows, Y)
        fast = graphc.sklearn.compile(estimator)
        np.testing.assert_allclose(
            fast.predict_proba(rows), estimator.predict_proba(rows), atol=2e-5
        )
        assert np.array_equal(fast.predict(rows[:1]), estimator.predict(rows[:1]))
    with pytest.raises(UserError, match="columns of numbers must hold numbers"):
        graphc.sklearn.compile(make_pipeline(StandardScaler()).fit(X)).transform(texts)


def test_a_column_of_categories_that_others_read_is_refused() -> None:
    steps = ColumnTransformer([("o", OneHotEncoder(), [0]), ("n", StandardScaler(), [0, 1])])
    with pytest.raises(
        UnsupportedError, match="columns of categories must be read by encoders alone, got 0"
    ):
        graphc.sklearn.compile(steps.fit(X.round()))


SEVERAL: dict[str, Callable[[], Any]] = {
    "forest": lambda: RandomForestClassifier(4, random_state=0),
    "an estimator each": lambda: MultiOutputClassifier(LogisticRegression(max_iter=500)),
}


@pytest.mark.parametrize("kind", SEVERAL)
def test_several_outputs(kind: str) -> None:
    labels = np.stack([LABELS["texts"], np.where(Y > 1, "yes", "no")], 1)
    estimator = SEVERAL[kind]().fit(X, labels)
    fast = graphc.sklearn.compile(estimator)
    assert np.array_equal(fast.predict(X), estimator.predict(X))
    for own, expected in zip(fast.predict_proba(X), estimator.predict_proba(X), strict=True):
        assert own.shape == expected.shape
        assert np.isclose(own, expected, atol=2e-5).mean() > 0.99  # thresholds of trees are f32


def test_several_labels_of_a_row() -> None:
    labels = np.stack([Y > 0, Y > 1, X[:, 0] > 6], 1).astype(int)
    estimator = OneVsRestClassifier(LogisticRegression(max_iter=500)).fit(X, labels)
    fast = graphc.sklearn.compile(estimator)
    for rows in (X, X[:1]):
        assert np.array_equal(fast.predict(rows), estimator.predict(rows))
        np.testing.assert_allclose(
            fast.predict_proba(rows), estimator.predict_proba(rows), atol=2e-5
        )


def test_results_that_the_model_lacks_are_refused() -> None:
    y = X[:, 0]
    votes = VotingRegressor([("a", Ridge()), ("b", LinearRegression())]).fit(X, y)
    with pytest.raises(AttributeError, match="no method transform; it has predict"):
        graphc.sklearn.compile(votes).transform(X)
    chosen = RFE(LogisticRegression(max_iter=500), n_features_to_select=2).fit(X, Y)
    assert np.array_equal(graphc.sklearn.compile(chosen).transform(X), chosen.transform(X))
    gaps = np.where(X > 7, np.nan, X)
    with pytest.raises(UnsupportedError, match="must give 5 columns, and skl2onnx converts it"):
        graphc.sklearn.compile(SimpleImputer(add_indicator=True).fit(gaps))


def test_networks_of_several_outputs() -> None:
    """skl2onnx flattens the values of all outputs, and doubles the probabilities of labels."""
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((40, 5)), rng.standard_normal((40, 2))
    with pytest.raises(UnsupportedError, match="MLPRegressor: must give a result for each row"):
        graphc.sklearn.compile(
            MLPRegressor(hidden_layer_sizes=(4,), max_iter=2000, solver="lbfgs", alpha=1.0).fit(
                x, y
            )
        )
    network = MLPClassifier((4,), max_iter=2000, solver="lbfgs", alpha=1.0).fit(x, y > 0)
    compiled = graphc.sklearn.compile(network)
    np.testing.assert_array_equal(compiled.predict(x), network.predict(x))
    with pytest.raises(AttributeError, match="has no method predict_proba"):
        compiled.predict_proba(x)


def test_what_is_no_fitted_estimator_is_refused() -> None:
    with pytest.raises(UserError, match="LinearRegression must be fitted before it is compiled"):
        graphc.sklearn.compile(LinearRegression())
    with pytest.raises(UserError, match="needs an estimator of scikit-learn, got int"):
        graphc.sklearn.compile(3)
