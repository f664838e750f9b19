"""ai.onnx.ml: trees, linear models and features, against the onnx package's own evaluator."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

import graphc
from graphc.base.errors import UnsupportedError, UserError
from graphc.frontend import load
from support.onnx_models import Array, expected, model, node

ML = "ai.onnx.ml"
X = np.random.default_rng(3).standard_normal((7, 5)).astype(np.float32)
X[2, 1] = np.nan


def ml(
    op_type: str, feeds: Mapping[str, Array], outputs: str = "y", version: int = 3, **attrs: Any
) -> ModelProto:
    """A model of one node."""
    made = node(op_type, " ".join(feeds), outputs, domain=ML, **attrs)
    dims = {name: list(x.shape) for name, x in feeds.items()}
    kinds = {name: helper.np_dtype_to_tensor_dtype(x.dtype) for name, x in feeds.items()}
    names = outputs.split()
    proto = model([made], dims, outputs=names, dtypes=kinds)
    proto.opset_import.append(helper.make_opsetid(ML, version))
    return proto


def check(proto: ModelProto, feeds: Mapping[str, Array], native: bool = False) -> list[Array]:
    """The results, which must be those of the onnx package."""
    graph = load(proto)
    arrays = [feeds[op.name] for op in graph.inputs]
    results = graph.evaluate(arrays)
    for result, wanted in zip(results, expected(proto, feeds), strict=True):
        assert result.shape == wanted.shape and result.dtype == wanted.dtype
        np.testing.assert_allclose(result, wanted, rtol=2e-5, atol=2e-6)
    if native:
        with graphc.compile(graph, threads=2) as compiled:
            for got, result in zip(compiled.run(None, dict(feeds)), results, strict=True):
                np.testing.assert_allclose(got, result, rtol=2e-5, atol=2e-6)
    return results


def forest(
    rng: np.random.Generator, kind: str, trees: int, results: int, mode: str = "BRANCH_LEQ"
) -> dict[str, Any]:
    """Attributes of trees of various depths, whose leaves speak of each result."""
    nodes: dict[str, list[Any]] = {key: [] for key in (
        "treeids", "nodeids", "featureids", "truenodeids", "falsenodeids", "modes", "values",
        "missing_value_tracks_true",
    )}  # fmt: skip
    said: dict[str, list[Any]] = {key: [] for key in ("treeids", "nodeids", "ids", "weights")}

    def grow(tree: int, depth: int) -> int:
        number = nodes["treeids"].count(tree)
        is_leaf = depth == 0 or rng.random() < 0.2
        row = (
            tree, number, int(rng.integers(5)), 0, 0, "LEAF" if is_leaf else mode,
            float(np.float32(rng.standard_normal())), int(rng.integers(2)),
        )  # fmt: skip
        for values, value in zip(nodes.values(), row, strict=True):
            values.append(value)
        at = len(nodes["treeids"]) - 1
        if is_leaf:
            for result in range(results):
                for values, value in zip(
                    said.values(),
                    (tree, number, result, float(np.float32(rng.random()))),
                    strict=True,
                ):
                    values.append(value)
        else:
            nodes["truenodeids"][at] = grow(tree, depth - 1)
            nodes["falsenodeids"][at] = grow(tree, depth - 1)
        return number

    for tree in range(trees):
        grow(tree, 1 + tree % 5)
    named = {f"nodes_{key}": values for key, values in nodes.items()}
    return named | {f"{kind}_{key}": values for key, values in said.items()}


@pytest.mark.exhaustive
@pytest.mark.parametrize("mode", ["LEQ", "LT", "GT", "GTE", "EQ", "NEQ"])
def test_regressors(mode: str) -> None:
    rng = np.random.default_rng(5)
    attrs = forest(rng, "target", 20, 1, f"BRANCH_{mode}")
    if mode.endswith("EQ") and mode != "LEQ":
        attrs["nodes_values"] = [float(X[i % 7, 0]) for i in range(len(attrs["nodes_values"]))]
    for how in ("SUM", "AVERAGE", "MIN", "MAX"):
        proto = ml("TreeEnsembleRegressor", {"x": X}, n_targets=1, aggregate_function=how, **attrs)
        check(proto, {"x": X}, native=how in ("SUM", "MIN"))


def test_one_model_for_every_number_of_rows() -> None:
    attrs = forest(np.random.default_rng(5), "target", 3, 1)
    proto = ml("TreeEnsembleRegressor", {"x": X}, n_targets=1, **attrs)
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "rows"
    x = np.random.default_rng(7).standard_normal((700, X.shape[1]), dtype=np.float32)
    fixed = graphc.compile(proto, inputs={"x": "f32[700,5]"}, threads=1)(x)
    for threads in (1, 2):
        model = graphc.compile(proto, threads=threads)
        for rows in (1, 3, 4, 5, 64, 129, 513, 700):
            assert np.array_equal(model(x[:rows]), fixed[:rows])


def test_regressors_of_several_targets_and_doubles() -> None:
    attrs = forest(np.random.default_rng(6), "target", 9, 3)
    proto = ml("TreeEnsembleRegressor", {"x": X}, n_targets=3, base_values=[1.0, 2.0, 3.0], **attrs)
    check(proto, {"x": X}, native=True)
    check(ml("TreeEnsembleRegressor", {"x": X}, n_targets=3, **attrs), {"x": X})
    wide = X.astype(np.float64)
    (y,) = load(ml("TreeEnsembleRegressor", {"x": wide}, n_targets=3, **attrs)).evaluate([wide])
    assert y.dtype == np.float32


def test_each_target_with_its_own_trees() -> None:
    """Trees of gradient boosting: each is about one class."""
    attrs = forest(np.random.default_rng(7), "class", 30, 1)
    attrs["class_ids"] = [tree % 3 for tree in attrs["class_treeids"]]
    proto = ml(
        "TreeEnsembleClassifier", {"x": X}, "label y", classlabels_int64s=[4, 5, 9],
        post_transform="SOFTMAX", **attrs,
    )  # fmt: skip
    check(proto, {"x": X}, native=True)


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX"])
def test_classifiers(transform: str) -> None:
    attrs = forest(np.random.default_rng(8), "class", 12, 3)
    check(
        ml(
            "TreeEnsembleClassifier", {"x": X}, "label y", classlabels_int64s=[0, 1, 2],
            post_transform=transform, **attrs,
        ),
        {"x": X},
    )  # fmt: skip


BINARY_CASES = [
    (scale, transform, base, 0)
    for scale in (1, -1)
    for transform in ("NONE", "LOGISTIC")
    for base in (0.0, 0.125)
] + [(1, "LOGISTIC", 0.0, 1), (-1, "NONE", 0.0, 1), (1, "SOFTMAX", 0.0, 1), (1, "NONE", 0.0, 1)]


@pytest.mark.parametrize(("scale", "transform", "base", "of_class"), BINARY_CASES)
def test_two_classes_of_one_score(scale: int, transform: str, base: float, of_class: int) -> None:
    """Scores as ONNX Runtime gives them: the probabilities of -s and s by LOGISTIC, else 1 - s and s if no weight is
    negative; 0 for the first class where the weights belong to the second. The label fits the probabilities, as in
    LightGBM; ONNX Runtime 1.32 gives the first class for 0 < s <= 0.5 if no weight is negative."""
    attrs = forest(np.random.default_rng(9), "class", 3, 1)
    attrs["class_weights"] = [
        scale * (0.25 * w - (0.125 if scale < 0 else 0)) for w in attrs["class_weights"]
    ]
    single = load(
        ml(
            "TreeEnsembleRegressor", {"x": X}, n_targets=1,
            **{k.replace("class_", "target_"): v for k, v in attrs.items()},
        )
    ).evaluate([X])[0][:, 0] + np.float32(base)  # fmt: skip
    attrs["class_ids"] = [of_class] * len(attrs["class_ids"])
    proto = ml(
        "TreeEnsembleClassifier", {"x": X}, "label y", classlabels_int64s=[3, 7],
        post_transform=transform, **({"base_values": [base]} if base else {}), **attrs,
    )  # fmt: skip
    label, scores = load(proto).evaluate([X])
    is_probability = scale > 0 and transform != "LOGISTIC"
    first = 0 * single if of_class else 1 - single if is_probability else -single
    wanted: Any = np.stack([first, single], 1)
    if transform == "LOGISTIC":
        wanted = 1 / (1 + np.exp(-wanted))
    elif transform == "SOFTMAX":
        wanted = np.exp(wanted) / np.exp(wanted).sum(1, keepdims=True)
    np.testing.assert_allclose(scores, wanted, rtol=1e-5, atol=1e-6)
    assert label.tolist() == [7 if s > 0.5 * is_probability else 3 for s in single]
    assert ((single > 0) & (single < 0.5)).any()


@pytest.mark.parametrize("how", ["MIN", "MAX"])
def test_targets_without_a_leaf_are_zero(how: str) -> None:
    """A target of which no tree says anything is 0, as in ONNX Runtime."""
    attrs = forest(np.random.default_rng(3), "target", 4, 2)
    kept = [i for i, target in enumerate(attrs["target_ids"]) if target == 0 or i % 3 == 0]
    for name in ("treeids", "nodeids", "ids", "weights"):
        attrs[f"target_{name}"] = [attrs[f"target_{name}"][i] for i in kept]
    proto = ml("TreeEnsembleRegressor", {"x": X}, n_targets=2, aggregate_function=how, **attrs)
    (y,) = load(proto).evaluate([X])
    assert np.isfinite(y).all() and (y[:, 1] == 0).any() and (y[:, 1] != 0).any()
    np.testing.assert_array_equal(graphc.compile(proto)(X), y)


def test_probits() -> None:
    """The normal distribution's quantiles; ONNX Runtime's approximation has errors up to 0.003."""
    attrs = forest(np.random.default_rng(3), "target", 2, 2)
    attrs |= {"n_targets": 2, "aggregate_function": "AVERAGE"}
    plain = ml("TreeEnsembleRegressor", {"x": X}, **attrs)
    probit = ml("TreeEnsembleRegressor", {"x": X}, post_transform="PROBIT", **attrs)
    (shares,), (y,) = load(plain).evaluate([X]), load(probit).evaluate([X])
    below = [0.5 * (1 + math.erf(value / math.sqrt(2))) for value in y.reshape(-1)]
    np.testing.assert_allclose(below, shares.reshape(-1), rtol=1e-5)


def test_ensembles_of_opset_5() -> None:
    def tensor(values: Any, dtype: Any) -> TensorProto:
        return numpy_helper.from_array(np.array(values, dtype))

    x = np.array([1.2, 3.4, -0.12, 1.66, 4.14, 1.77], np.float32).reshape(3, 2)
    members = [1.2, 3.7, 8.0, 9.0, np.nan, 12.0, 7.0, np.nan]
    proto = ml(
        "TreeEnsemble", {"x": x}, version=5, n_targets=4, aggregate_function=1, tree_roots=[0],
        membership_values=tensor(members, np.float32), nodes_featureids=[0, 0, 0],
        nodes_modes=tensor([0, 6, 6], np.uint8), nodes_splits=tensor([11, 232344.0, np.nan], np.float32),
        nodes_trueleafs=[0, 1, 1], nodes_truenodeids=[1, 0, 1], nodes_falseleafs=[1, 0, 1],
        nodes_falsenodeids=[2, 2, 3], leaf_targetids=[0, 1, 2, 3],
        leaf_weights=tensor([1.0, 10.0, 1000.0, 100.0], np.float32), post_transform=0,
    )  # fmt: skip
    assert check(proto, {"x": x}, native=True)[0].tolist()[0] == [1, 0, 0, 0]


@pytest.mark.parametrize(
    ("op_type", "feeds", "attrs"),
    [
        ("Scaler", {"x": X}, {"offset": [0.5], "scale": [2.0]}),
        ("Scaler", {"x": X}, {"offset": [1.0] * 5, "scale": [1.0, 2.0, 3.0, 4.0, 5.0]}),
        ("Normalizer", {"x": np.abs(X[:2])}, {"norm": "MAX"}),
        ("Normalizer", {"x": X[:2]}, {"norm": "L1"}),
        ("Normalizer", {"x": X[:2]}, {"norm": "L2"}),
        ("Binarizer", {"x": X}, {"threshold": 0.3}),
        (
            "Imputer", {"x": X},
            {"imputed_value_floats": [9.0], "replaced_value_float": float("nan")},
        ),
        (
            "Imputer", {"x": np.arange(4).reshape(2, 2)},
            {"imputed_value_int64s": [7, 8], "replaced_value_int64": 3},
        ),
        ("OneHotEncoder", {"x": np.array([[1, 5], [2, 1]])}, {"cats_int64s": [1, 2, 3]}),
        ("ArrayFeatureExtractor", {"x": X, "i": np.array([[4, 0]])}, {}),
        (
            "LabelEncoder", {"x": np.array([3, 1, 2])},
            {"keys_int64s": [1, 3], "values_floats": [0.5, 2.5], "default_float": -1.0},
        ),
        ("FeatureVectorizer", {"x": X, "z": X[:, :2]}, {"inputdimensions": [5, 2]}),
        (
            "LinearRegressor", {"x": X[:2]},
            {"coefficients": [0.5, 1.0, -1.0, 2.0, 0.0] * 2, "intercepts": [1.0, 2.0], "targets": 2},
        ),
        (
            "SVMRegressor", {"x": X[:2]},
            {
                "coefficients": [1.0, -2.0], "rho": [0.5], "n_supports": 2, "kernel_type": "RBF",
                "kernel_params": [0.2, 0.0, 3.0], "support_vectors": X[3:5].reshape(-1).tolist(),
            },
        ),
        (
            "SVMRegressor", {"x": X[:2]},
            {
                "coefficients": [1.0, -2.0], "rho": [0.5], "n_supports": 2, "kernel_type": "POLY",
                "kernel_params": [0.2, 1.0, 3.0], "support_vectors": X[3:5].reshape(-1).tolist(),
            },
        ),
    ],
)  # fmt: skip
def test_features_and_linear_models(
    op_type: str, feeds: dict[str, Array], attrs: dict[str, Any]
) -> None:
    check(ml(op_type, feeds, version=2 if op_type == "LabelEncoder" else 1, **attrs), feeds)


def test_a_run_with_a_value_of_no_category_is_an_error_where_the_model_says_so() -> None:
    feeds = {"x": np.array([[1, 3], [2, 1]])}
    proto = ml("OneHotEncoder", feeds, version=1, cats_int64s=[1, 2, 3], zeros=0)
    check(proto, feeds, native=True)
    with pytest.raises(UserError, match=r"each value must be one of the categories \[1, 2, 3\]"):
        load(proto).evaluate([np.array([[1, 4], [2, 1]])])


def test_nan_is_a_label_like_others() -> None:
    keys = [float("nan"), float(X[0, 1])]
    proto = ml("LabelEncoder", {"x": X[:, 1]}, keys_floats=keys, values_int64s=[4, 5])
    assert load(proto).evaluate([X[:, 1]])[0].tolist() == [5, -1, 4, -1, -1, -1, -1]


def test_the_last_of_equal_keys_counts() -> None:
    x = np.array([1, 3, np.nan, 2], np.float32)
    keys = [1.0, 3.0, float("nan"), 1.0, float("nan")]
    proto = ml("LabelEncoder", {"x": x}, keys_floats=keys, values_int64s=[4, 5, 6, 7, 8], version=4)
    np.testing.assert_array_equal(load(proto).evaluate([x])[0], [7, 5, 8, -1])


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"])
def test_one_row_of_coefficients_for_two_classes(transform: str) -> None:
    """The scores -s and s, transformed, as in onnx's reference evaluator (ONNX Runtime: for LOGISTIC alone)."""
    proto = ml(
        "LinearClassifier", {"x": X}, "label y", coefficients=[0.5, -1.0, 2.0, 0.25, 1.0],
        intercepts=[0.125], classlabels_ints=[4, 2], post_transform=transform,
    )  # fmt: skip
    check(proto, {"x": X})


def test_attributes_that_may_be_absent() -> None:
    """Intercepts of linear classifiers, and parameters of a kernel that has none."""
    x = np.nan_to_num(X)
    coefficients = np.arange(15, dtype=np.float32).reshape(3, 5) - 7
    proto = ml(
        "LinearClassifier", {"x": x}, "label y", coefficients=coefficients.reshape(-1).tolist(),
        classlabels_ints=[4, 2, 9],
    )  # fmt: skip
    label, scores = load(proto).evaluate([x])
    np.testing.assert_allclose(scores, x @ coefficients.T, rtol=1e-5, atol=1e-5)
    assert label.tolist() == np.array([4, 2, 9])[scores.argmax(axis=1)].tolist()
    proto = ml(
        "SVMRegressor", {"x": x}, kernel_type="LINEAR", n_supports=1, rho=[0.5], coefficients=[2.0],
        support_vectors=[1.0, 0.0, 0.0, 0.0, 0.0],
    )  # fmt: skip
    np.testing.assert_allclose(load(proto).evaluate([x])[0], 2 * x[:, :1] + 0.5, rtol=1e-6)


def test_linear_classifiers() -> None:
    weights = np.random.default_rng(1).standard_normal(15).astype(np.float32).tolist()
    for transform in ("NONE", "SOFTMAX", "LOGISTIC"):
        proto = ml(
            "LinearClassifier", {"x": X[:2]}, "label y", coefficients=weights, version=1,
            intercepts=[0.1, 0.2, 0.3], classlabels_ints=[2, 4, 6], post_transform=transform,
        )  # fmt: skip
        check(proto, {"x": X[:2]})


@pytest.mark.parametrize(
    ("classes", "kernel"), [(2, "RBF"), (3, "POLY"), (3, "SIGMOID"), (4, "LINEAR")]
)
@pytest.mark.parametrize("has_probabilities", [False, True])
def test_support_vector_classifiers(classes: int, kernel: str, has_probabilities: bool) -> None:
    """Each pair of classes decides; the labels are those of most pairs, not of the highest probability."""
    rng, pairs = np.random.default_rng(classes), classes * (classes - 1) // 2
    counts = [2, 1, 3, 2][:classes]

    def numbers(count: int) -> list[float]:
        return rng.standard_normal(count).astype(np.float32).tolist()

    attrs: dict[str, Any] = {
        "coefficients": numbers((classes - 1) * sum(counts)), "rho": numbers(pairs),
        "support_vectors": numbers(5 * sum(counts)), "vectors_per_class": counts,
        "kernel_type": kernel, "kernel_params": [0.25, 0.5, 2.0],
        "classlabels_ints": [7, 3, 9, 1][:classes],
    }  # fmt: skip
    if has_probabilities:
        attrs |= {"prob_a": [-abs(x) - 0.5 for x in numbers(pairs)], "prob_b": numbers(pairs)}
    x = rng.standard_normal((7, 5)).astype(np.float32)
    proto = ml("SVMClassifier", {"x": x}, "label y", version=1, **attrs)
    if has_probabilities and classes > 2:
        label = load(proto).evaluate([x])[0]
        np.testing.assert_array_equal(label, expected(proto, {"x": x})[0])
    else:
        check(proto, {"x": x}, native=kernel == "POLY")


def test_linear_support_vectors() -> None:
    attrs = {
        "coefficients": X[3:6].reshape(-1).tolist(),
        "rho": [0.5, 0, 0],
        "kernel_type": "LINEAR",
    }
    proto = ml(
        "SVMClassifier", {"x": X[:2]}, "label y", version=1, classlabels_ints=[2, 4, 6], **attrs,
    )  # fmt: skip
    check(proto, {"x": X[:2]})
    with pytest.raises(UserError, match="there must be 4 x 5 coefficients, got 15"):
        load(
            ml("SVMClassifier", {"x": X}, "l y", version=1, classlabels_ints=[1, 2, 3, 4], **attrs)
        )


def test_maps_from_labels_are_scores() -> None:
    proto = ml("ZipMap", {"x": X}, classlabels_int64s=[0, 1, 2, 3, 4])
    np.testing.assert_array_equal(load(proto).evaluate([X])[0], X)
    with pytest.raises(UserError, match="there must be 1 scores, one of each label, got f32"):
        load(ml("ZipMap", {"x": X}, classlabels_strings=["a"]))


def test_what_is_refused() -> None:
    attrs = forest(np.random.default_rng(2), "class", 9, 2)
    texts = ml(
        "TreeEnsembleClassifier", {"x": X}, "label y", classlabels_strings=["a", "b"], **attrs
    )
    with pytest.raises(UnsupportedError, match=r"labels that are texts \(a, b\)"):
        load(texts)
    cycle = attrs | {"nodes_truenodeids": [0] * len(attrs["nodes_modes"])}
    with pytest.raises(UserError, match="nodes must form trees"):
        load(ml("TreeEnsembleClassifier", {"x": X}, "l y", classlabels_int64s=[0, 1], **cycle))
    narrow = X[:, :2]
    with pytest.raises(UserError, match=r"features must be in \[0, 2\), got"):
        load(ml("TreeEnsembleClassifier", {"x": narrow}, "l y", classlabels_int64s=[0, 1], **attrs))


# Scikit-learn will not give SVMs probabilities any more.
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_pipelines_of_scikit_learn() -> None:
    skl2onnx = pytest.importorskip("skl2onnx")
    runtime = pytest.importorskip("onnxruntime")
    ensemble = pytest.importorskip("sklearn.ensemble")
    pipelines = pytest.importorskip("sklearn.pipeline")
    scaling = pytest.importorskip("sklearn.preprocessing")
    rng = np.random.default_rng(0)
    x = rng.standard_normal((60, 4)).astype(np.float32)
    label = np.digitize(x[:, 0] * x[:, 1], [-0.3, 0.3])
    svm = pytest.importorskip("sklearn.svm")
    for estimator in (
        ensemble.RandomForestClassifier(5, random_state=0),
        ensemble.GradientBoostingClassifier(n_estimators=3, random_state=0),
        svm.SVC(probability=True, random_state=0),
    ):
        pipeline = pipelines.make_pipeline(scaling.StandardScaler(), estimator).fit(x, label)
        proto = skl2onnx.to_onnx(
            pipeline, x[:1], target_opset={"": 17, ML: 3}, options={"zipmap": False}
        )
        wanted = runtime.InferenceSession(proto.SerializeToString()).run(None, {"X": x})
        with graphc.compile(proto, inputs={"X": "f32[60,4]"}) as compiled:
            for got, one in zip(compiled.run(None, {"X": x}), wanted, strict=True):
                np.testing.assert_allclose(got, one, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("of_class", [0, 1])
def test_the_one_score_of_two_classes_takes_the_base_value_of_its_class(of_class: int) -> None:
    """ONNX Runtime and onnx's reference evaluator add it for the first class."""
    attrs = forest(np.random.default_rng(9), "class", 3, 1)
    attrs["class_ids"] = [of_class] * len(attrs["class_ids"])
    bases = [0.25, -0.5]
    given = [[*bases], [bases[of_class]]]
    one, other = (
        load(
            ml(
                "TreeEnsembleClassifier", {"x": X}, "label y", classlabels_int64s=[3, 7],
                post_transform="LOGISTIC", base_values=values, **attrs,
            )
        ).evaluate([X])
        for values in given
    )  # fmt: skip
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a, b)
