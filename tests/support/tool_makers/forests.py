"""Files of trees and other models of tables: catboost, lightgbm, xgboost, skl2onnx, hummingbird."""

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
            "LogCosh",
            "Expectile:alpha=0.3",
            "MAPE",
            "Lq:q=3",
        ),
        "binary": ("Logloss", "CrossEntropy"),
        "multi": ("MultiClass", "MultiClassOneVsAll"),
    }
    for kind, names in losses.items():
        for loss in names:
            for depth in (1, 4, 6):
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


def _estimators() -> Any:
    """Yield every estimator of scikit-learn that skl2onnx converts, with few trees and steps: kind, name, model."""
    import inspect

    from skl2onnx import supported_converters
    from sklearn.utils import all_estimators

    few = {"n_estimators": 5, "max_iter": 30, "random_state": 0, "n_components": 3, "n_clusters": 3}
    known = set(supported_converters(True))
    for name, kind in all_estimators():
        if f"Sklearn{name}" not in known and name not in known:
            continue
        needed = inspect.signature(kind).parameters
        with attempt(f"every_{name}"):
            is_regressor = name.endswith(("Regressor", "Regression", "SVR")) or "Ridge" in name
            made = kind(**{key: value for key, value in few.items() if key in needed})
            yield "regress" if is_regressor and "Logistic" not in name else "multi", name, made


def every_skl2onnx(save: Save) -> None:
    """Write every estimator that skl2onnx converts and that fits numbers by its defaults."""
    from skl2onnx import to_onnx

    for kind, name, model in _estimators():
        x, y = _tree_data(kind)
        for way, given in (("", x), ("abs", np.abs(x)), ("double", x.astype(np.float64))):
            with attempt(f"every_{name}_{way}"):
                model.fit(given, y)
                made = to_onnx(model, given[:1], target_opset={"": 21, "ai.onnx.ml": 3})
                path = new_folder() / "m.onnx"
                path.write_bytes(made.SerializeToString())
                save(f"every_{name}_{way}", path, {"": given[:37]}, None)


def _boosted(save: Save, name: str, model: Any, kind: str, convert: Any, has_nan: bool) -> None:
    """Fit and write a booster, and keep its own predictions."""
    from onnxmltools.convert.common.data_types import FloatTensorType

    with attempt(f"{name}_{kind}"):
        x, y = _tree_data(kind)
        if has_nan:
            x[::7, 0] = np.nan
            x[3::11, 2] = np.nan
        model.fit(x, np.abs(y) + 0.1 if name.partition("_")[2] in _POSITIVE else y)
        path = new_folder() / "m.onnx"
        made = convert(model, initial_types=[("x", FloatTensorType([None, 5]))])
        path.write_bytes(made.SerializeToString())
        want = [model.predict(x)]
        want += [model.predict_proba(x)] if kind != "regress" else []
        save(f"{name}_{kind}{'_nan' * has_nan}", path, {"x": x}, want)


_POSITIVE = ("poisson", "gamma", "tweedie", "reg:gamma", "reg:tweedie", "count:poisson", "mape")


def lightgbm(save: Save) -> None:
    import lightgbm as lgb
    from onnxmltools import convert_lightgbm

    goals = {
        "regress": ("l2", "l1", "huber", "fair", "poisson", "quantile", "mape", "gamma", "tweedie", "cross_entropy"),
        "binary": ("binary", "cross_entropy"),
        "multi": ("multiclass", "multiclassova"),
    }  # fmt: skip
    for kind, names in goals.items():
        for goal in names:
            for booster in ("gbdt", "dart", "rf", "goss"):
                for has_nan in (False, True):
                    more = {"bagging_freq": 1, "subsample": 0.7} if booster == "rf" else {}
                    make = lgb.LGBMRegressor if kind == "regress" else lgb.LGBMClassifier
                    model = make(
                        n_estimators=5, num_leaves=7, boosting_type=booster, objective=goal, verbose=-1, **more,
                    )  # fmt: skip
                    _boosted(save, f"{booster}_{goal}", model, kind, convert_lightgbm, has_nan)


def xgboost(save: Save) -> None:
    import xgboost as xgb
    from onnxmltools import convert_xgboost

    goals = {
        "regress": (
            "reg:squarederror", "reg:absoluteerror", "reg:pseudohubererror", "reg:squaredlogerror", "count:poisson",
            "reg:gamma", "reg:tweedie", "reg:quantileerror",
        ),
        "binary": ("binary:logistic", "binary:logitraw", "binary:hinge"),
        "multi": ("multi:softprob", "multi:softmax"),
    }  # fmt: skip
    for kind, names in goals.items():
        for goal in names:
            for booster in ("gbtree", "dart", "gblinear"):
                for has_nan in (False, True)[: 1 if booster == "gblinear" else 2]:
                    more = {"quantile_alpha": 0.3} if "quantile" in goal else {}
                    make = xgb.XGBRegressor if kind == "regress" else xgb.XGBClassifier
                    model = make(
                        n_estimators=5,
                        max_depth=3,
                        booster=booster,
                        objective=goal,
                        n_jobs=1,
                        **more,
                    )
                    _boosted(save, f"{booster}_{goal}", model, kind, convert_xgboost, has_nan)


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
