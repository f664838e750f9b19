"""Files of trees and other models of tables: catboost, skl2onnx, hummingbird."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from .making import Save, attempt, new_folder


def _tree_data(kind: str) -> tuple[Any, Any]:
    draw = np.random.default_rng(0)
    x = draw.standard_normal((200, 5)).astype(np.float32)
    sums = x[:, 0] + x[:, 1] * x[:, 2]
    return x, {
        "regress": sums,
        "binary": (sums > 0.2).astype(int),
        "multi": np.digitize(sums, (-0.5, 0.5)),
    }[kind]


def catboost(save: Save) -> None:
    from catboost import CatBoostClassifier, CatBoostRegressor

    losses = {
        "regress": (
            "RMSE",
            "MAE",
            "Quantile",
            "Poisson",
            "Huber:delta=1",
            "Tweedie:variance_power=1.5",
        ),
        "binary": ("Logloss", "CrossEntropy"),
        "multi": ("MultiClass", "MultiClassOneVsAll"),
    }
    for kind, names in losses.items():
        for loss in names:
            for depth in (1, 4):
                with attempt(f"{kind}_{loss}_{depth}"):
                    x, y = _tree_data(kind)
                    y = np.abs(y) if loss.startswith(("Poisson", "Tweedie")) else y
                    make = CatBoostRegressor if kind == "regress" else CatBoostClassifier
                    model = make(
                        iterations=7,
                        depth=depth,
                        loss_function=loss,
                        verbose=False,
                        allow_writing_files=False,
                    )
                    model.fit(x, y)
                    path = new_folder() / "m.onnx"
                    model.save_model(str(path), format="onnx")
                    want = (
                        [model.predict(x)]
                        if kind == "regress"
                        else [model.predict(x).reshape(-1), model.predict_proba(x)]
                    )
                    save(f"{kind}_{loss}_{depth}", path, {"": x}, want)


def _sklearn_models() -> Any:
    from sklearn import (
        ensemble,
        linear_model,
        naive_bayes,
        neighbors,
        neural_network,
        preprocessing,
        svm,
        tree,
    )
    from sklearn.cluster import KMeans
    from sklearn.decomposition import PCA
    from sklearn.pipeline import make_pipeline

    few = {"n_estimators": 7, "random_state": 0}
    yield "regress", ensemble.RandomForestRegressor(**few)
    yield "regress", ensemble.GradientBoostingRegressor(**few)
    yield "regress", ensemble.ExtraTreesRegressor(**few)
    yield "regress", ensemble.HistGradientBoostingRegressor(max_iter=7)
    yield "regress", ensemble.AdaBoostRegressor(**few)
    yield "regress", tree.DecisionTreeRegressor(max_depth=4)
    yield "regress", linear_model.Ridge()
    yield "regress", neural_network.MLPRegressor(hidden_layer_sizes=(8,), max_iter=40)
    yield "regress", svm.SVR()
    yield "regress", neighbors.KNeighborsRegressor(3)
    yield "regress", make_pipeline(preprocessing.StandardScaler(), PCA(3), linear_model.Lasso(0.01))
    for kind in ("binary", "multi"):
        yield kind, ensemble.RandomForestClassifier(**few)
        yield kind, ensemble.GradientBoostingClassifier(**few)
        yield kind, ensemble.ExtraTreesClassifier(**few)
        yield kind, ensemble.HistGradientBoostingClassifier(max_iter=7)
        yield kind, ensemble.AdaBoostClassifier(**few)
        yield kind, ensemble.IsolationForest(**few)
        yield kind, tree.DecisionTreeClassifier(max_depth=4)
        yield kind, linear_model.LogisticRegression()
        yield kind, linear_model.SGDClassifier(random_state=0)
        yield kind, naive_bayes.GaussianNB()
        yield kind, neural_network.MLPClassifier(hidden_layer_sizes=(8,), max_iter=40)
        yield kind, svm.SVC(probability=False)
        yield kind, svm.LinearSVC()
        yield kind, neighbors.KNeighborsClassifier(3)
        yield kind, make_pipeline(preprocessing.MinMaxScaler(), linear_model.LogisticRegression())
        yield (
            kind,
            make_pipeline(preprocessing.PolynomialFeatures(2), linear_model.LogisticRegression()),
        )
        yield kind, KMeans(3, n_init=1, random_state=0)


def skl2onnx(save: Save) -> None:
    from skl2onnx import to_onnx

    for kind, model in _sklearn_models():
        name = f"{kind}_{type(model).__name__}"
        name += f"_{model.steps[0][0]}" if hasattr(model, "steps") else ""
        with attempt(name):
            x, y = _tree_data(kind)
            model.fit(x, y)
            path = new_folder() / "m.onnx"
            try:
                made = to_onnx(
                    model, x[:1], options={"zipmap": False}, target_opset={"": 18, "ai.onnx.ml": 3}
                )
            except NameError:
                made = to_onnx(model, x[:1], target_opset={"": 18, "ai.onnx.ml": 3})
            path.write_bytes(made.SerializeToString())
            save(name, path, {"": x}, None)


def hummingbird(save: Save) -> None:
    """Write the files by the TorchScript exporter, PyTorch's default when hummingbird was written."""
    import torch
    from hummingbird.ml import convert

    torch.onnx.export = partial(torch.onnx.export, dynamo=False)
    for kind, model in _sklearn_models():
        name = f"{kind}_{type(model).__name__}"
        name += f"_{model.steps[0][0]}" if hasattr(model, "steps") else ""
        x, y = _tree_data(kind)
        model.fit(x, y)
        is_trees = hasattr(model, "estimators_") or "Tree" in name or "Hist" in name
        # The last one stores a full tree of every depth: 117 MB for a forest without a limit.
        trees = np.ravel(getattr(model, "estimators_", []))
        is_deep = any(getattr(one, "get_depth", int)() > 8 for one in trees)
        ways = (
            ("gemm", "tree_trav", *([] if is_deep else ["perf_tree_trav"])) if is_trees else ("",)
        )
        for way in ways:
            with attempt(f"{name}_{way}"):
                config = {"tree_implementation": way} if way else {}
                made = convert(model, "torch", x, extra_config=config)
                with torch.no_grad():
                    want = made.model(torch.from_numpy(x))
                want = [w.numpy() for w in (want if isinstance(want, (tuple, list)) else [want])]
                path = new_folder() / "m.onnx"
                made = convert(model, "onnx", x, extra_config=config)
                path.write_bytes(made.model.SerializeToString())
                save(f"{name}_{way}", path, {"": x}, want)
