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
    "graph_pass",
    "jax",
    "kernel",
    "load",
    "onnx_backend",
    "pnnx",
    "ops",
    "pattern",
    "recompose",
    "torch",
}


def test_import_loads_nothing_heavy_and_is_quick() -> None:
    # The best of a few: what else this machine does must not fail the test.
    script = (
        "import sys, time; begin = time.perf_counter(); import graphc; spent = time.perf_counter() - begin\n"
        "print(spent, *[m for m in ('numpy', 'llvmlite', 'onnx', 'lark', 'rich') if m in sys.modules])"
    )
    runs = [run_python("-c", script).stdout.split() for _ in range(3)]
    assert [words[1:] for words in runs] == [[], [], []]
    assert min(float(words[0]) for words in runs) < 0.150


def test_public_names() -> None:
    assert set(graphc.__all__) == PUBLIC
    assert set(dir(graphc)) >= PUBLIC


@pytest.mark.parametrize("name", sorted(PUBLIC - {"__version__", *graphc._MODULES}))
def test_a_public_name_is_what_its_home_holds(name: str) -> None:
    home = graphc._HOME[name]
    if importlib.util.find_spec(home, "graphc") is None:
        pytest.skip(f"graphc{home} is not written yet")
    value = getattr(graphc, name)
    assert value.__module__ == f"graphc{home}"
    assert getattr(graphc, name) is value


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
