"""Compiled models copied and pickled, by value and as a file, and used in forked and spawned processes and threads."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import graphc
from graphc import UserError
from graphc.runtime import travel
from graphc.runtime.executor import CompiledModel
from support.layers import layer, whole
from support.process import run_python


def call(model: CompiledModel, x: np.ndarray) -> np.ndarray:
    result: np.ndarray = model(x)
    return result


@pytest.fixture
def model() -> CompiledModel:
    return graphc.compile(layer(64, width=64), threads=2)


X = whole(64, 32)


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))]
)
def test_copies_compute_the_same(copied: object, model: CompiledModel) -> None:
    other = copied(model)  # type: ignore[operator]
    assert other is not model and other.threads == model.threads
    assert repr(other) == repr(model) and np.array_equal(other(X), model(X))
    model.close()
    assert other(X).shape == (64, 64)


def test_spawned_processes_run_models(model: CompiledModel) -> None:
    expected = model(X)
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        assert all(np.array_equal(y, expected) for y in pool.map(call, [model] * 4, [X] * 4))


FORKS = """
import multiprocessing, sys
from concurrent.futures import ProcessPoolExecutor
import graphc, numpy as np

def call(model, x):
    return model(x)

model, x = graphc.load(sys.argv[1]), np.load(sys.argv[2])
expected = model(x)  # the workers of the pool run before the fork
with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("fork")) as pool:
    print(all(np.array_equal(y, expected) for y in pool.map(call, [model] * 4, [x] * 4)))
"""


def test_forked_processes_run_models(model: CompiledModel, tmp_path: Path) -> None:
    """In a process without other libraries, some of which warn of forks."""
    model.save(tmp_path / "m.gcm")
    np.save(tmp_path / "x.npy", X)
    done = run_python("-c", FORKS, str(tmp_path / "m.gcm"), str(tmp_path / "x.npy"))
    assert done.stdout.strip() == "True", done.stderr


def test_copies_run_in_threads(model: CompiledModel) -> None:
    expected = model(X)
    with ThreadPoolExecutor(4) as pool:
        models = [copy.deepcopy(model) for _ in range(8)]
        assert all(np.array_equal(y, expected) for y in pool.map(call, models, [X] * 8))


@pytest.mark.parametrize("mapped", [False, True])
def test_large_models_travel_as_a_file(
    mapped: bool, model: CompiledModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(travel, "MAX_VALUE_BYTES", 100)
    model.save(tmp_path / "m.gcm")
    data = pickle.dumps(graphc.load(tmp_path / "m.gcm", mapped=mapped))
    assert len(data) < 1000
    assert np.array_equal(pickle.loads(data)(X), model(X))
    graphc.compile(layer(64, width=65), threads=1).save(tmp_path / "m.gcm")
    with pytest.raises(UserError, match="gone or has changed; load the model from a file"):
        pickle.loads(data)
    (tmp_path / "m.gcm").unlink()
    with pytest.raises(UserError, match="gone or has changed"):
        pickle.loads(data)


def test_models_of_the_cache_travel_as_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(travel, "MAX_VALUE_BYTES", 100)
    monkeypatch.setenv("GRAPHC_CACHE_DIR", str(tmp_path / "cache"))
    for _ in range(2):  # compiled, then found there
        data = pickle.dumps(graphc.compile(layer(64, width=64)))
        assert len(data) < 1000
        assert pickle.loads(data)(X).shape == (64, 64)


def test_a_model_whose_file_has_gone_travels_by_value(
    model: CompiledModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(travel, "MAX_VALUE_BYTES", 100)
    model.save(tmp_path / "m.gcm")
    loaded = graphc.load(tmp_path / "m.gcm")
    (tmp_path / "m.gcm").unlink()
    assert np.array_equal(pickle.loads(pickle.dumps(loaded))(X), model(X))


UNPICKLES = """
import pickle, sys
from pathlib import Path
import graphc
graphc.load(sys.argv[1])
found = []
sys.addaudithook(lambda event, _: found.append(event) if event.startswith("pickle.") else None)
graphc.load(sys.argv[1])
evil = Path(sys.argv[2])
evil.write_bytes(pickle.dumps(print))
try:
    graphc.load(evil)
except graphc.UserError as error:
    print(error)
print(found)
"""


def test_loading_an_artifact_reads_no_pickle(model: CompiledModel, tmp_path: Path) -> None:
    model.save(tmp_path / "m.gcm")
    done = run_python("-c", UNPICKLES, str(tmp_path / "m.gcm"), str(tmp_path / "evil.gcm"))
    assert done.stdout.splitlines() == [
        "evil.gcm: is not a compiled model (.gcm); `graphc compile -o` writes one",
        "[]",
    ], done.stderr
