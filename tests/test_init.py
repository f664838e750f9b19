"""`import graphc` is cheap, and offers exactly the public names."""

from __future__ import annotations

import importlib.util
import sys
import tomllib

import pytest

import graphc
from support.process import ROOT, run_python

PUBLIC = {
    "CompiledModel",
    "Graph",
    "GraphcError",
    "InternalError",
    "UnsupportedError",
    "UserError",
    "__version__",
    "compile",
    "debug",
    "export",
    "graph_pass",
    "instruction",
    "jax",
    "kernel",
    "llm",
    "load",
    "onnx_backend",
    "onnxruntime",
    "pnnx",
    "ops",
    "pattern",
    "recompose",
    "sklearn",
    "torch",
}


def test_import_loads_nothing_heavy_and_is_quick() -> None:
    # Calls are counted and not timed: they are as many on a machine that does much else. 25,000 take 30 ms.
    script = (
        "import sys; calls = []; sys.setprofile(lambda frame, event, _: calls.append(event))\n"
        "import graphc; sys.setprofile(None)\n"
        "count = sum(event in ('call', 'c_call') for event in calls)\n"
        "print(count, *[m for m in ('numpy', 'llvmlite', 'onnx', 'lark', 'rich') if m in sys.modules])"
    )
    count, *heavy = run_python("-c", script).stdout.split()
    assert heavy == []
    assert 1000 < int(count) < 40_000


def test_public_modules_can_be_imported_by_their_names() -> None:
    script = (
        "import graphc.onnxruntime as ort; from graphc.onnxruntime import InferenceSession; import graphc\n"
        "assert ort is graphc.onnxruntime and ort.__spec__.name == ort.__name__\n"
    )
    done = run_python("-W", "error", "-c", script)
    assert done.returncode == 0, done.stderr
    assert importlib.util.find_spec("graphc.no_such_module") is None


def test_public_names() -> None:
    assert set(graphc.__all__) == PUBLIC
    assert set(dir(graphc)) >= PUBLIC


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", sorted(PUBLIC - {"__version__", *graphc._MODULES}))
def test_a_public_name_is_what_its_home_holds(name: str) -> None:
    home = graphc._HOME[name]
    if importlib.util.find_spec(home, "graphc") is None:
        pytest.skip(f"graphc{home} is not written yet")
    value = getattr(graphc, name)
    assert value.__module__ == f"graphc{home}"
    assert getattr(graphc, name) is value


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", sorted(graphc._MODULES))
def test_a_public_module_has_another_name_in_the_checkout(name: str) -> None:
    """A file called jax.py in the root would be what `import jax` finds for a program that is started there."""
    module = getattr(graphc, name)
    assert module.__name__ == f"graphc{graphc._MODULES[name]}"
    assert not (ROOT / f"{name}.py").exists() and not (ROOT / name).exists()


def test_jax_says_so_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jax", None)
    with pytest.raises(
        graphc.UserError, match=r"^graphc\.jax needs the package jax, which is miss"
    ):
        graphc.jax.jit(lambda x: x)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'graphc' has no attribute 'nonsense'"):
        _ = graphc.nonsense


def test_version_has_one_source() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["project"]["dynamic"] == ["version"]
    assert project["tool"]["setuptools"]["dynamic"]["version"] == {
        "attr": "graphc.base.version.__version__"
    }
