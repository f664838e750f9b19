"""Functions loaded at their first call, and that every one that is named exists."""

from __future__ import annotations

from importlib import import_module

import pytest

from graphc.base.on_demand import on_demand
from graphc.base.printable import printable
from support.imports import imports, sources
from support.process import ROOT, run_python


def test_it_calls_the_function_that_is_named() -> None:
    assert on_demand(".printable:printable", "graphc.base")("a\n") == printable("a\n")


def test_a_relu_loads_no_template_of_matmuls() -> None:
    report = """
import sys, graphc
from graphc.base.dtypes import F32
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
graph = graphc.Graph("relu")
x = graph.make_input(LogicalTensor(F32, (8,)), "x")
graph.make_output(graph.make("relu", (x,)).outputs[0], "y")
graphc.compile(graph, cache=None)
print([name for name in sys.modules if ".templates.matmul" in name])
"""
    assert run_python("-c", report).stdout.strip() == "[]"


def test_every_function_that_is_named_exists() -> None:
    tables = [path for path in sources(ROOT) if "import on_demand\n" in path.read_text()]
    named = [module for path in tables for _, module in imports(path, ROOT)]
    assert len(tables) > 1
    for module in named:
        home, _, name = module.rpartition(".")
        assert not module.startswith("graphc.") or hasattr(import_module(home), name), module


def test_a_module_that_is_not_there_says_so() -> None:
    with pytest.raises(ModuleNotFoundError, match="graphc.base.nothing"):
        on_demand(".nothing:f", "graphc.base")()
