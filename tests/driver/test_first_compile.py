"""The first compilation of a process: nothing is loaded or compiled that the model does not need."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from pathlib import Path

import pytest

from graphc.base.dtypes import F32
from graphc.base.options import CompileOptions
from graphc.codegen.host import target_for
from graphc.driver import artifact as artifacts
from graphc.driver.compile_cache import CompileCache
from graphc.driver.compiler import compile_request, compile_stages
from graphc.driver.request import CompileRequest
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor

SLOW_TO_LOAD = (
    "onnx",
    "lark",
    "sqlite3",
    "difflib",
    "subprocess",
    "importlib.metadata",
    "graphc.codegen.math",
    "graphc.frontend.correspondence.tables",
)
ONE_OP = """
import sys
import graphc
from graphc.base.dtypes import F32
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
graph = graphc.Graph("one")
x = graph.make_input(LogicalTensor(F32, (16, 16)), "x")
graph.make_output(graph.make("relu", [x]).outputs[0])
graphc.compile(graph, cache=False, jobs=1)
print([name for name in sys.argv[1:] if name in sys.modules])
"""


def sum_of_rows(rows: int) -> Graph:
    graph = Graph("rows")
    x = graph.make_input(LogicalTensor(F32, (rows, 4096)), "x")
    graph.make_output(graph.make("exp", [x]).outputs[0])
    return graph


def test_one_op_loads_nothing_of_other_ops_and_formats(tmp_path: Path) -> None:
    words = [sys.executable, "-c", ONE_OP, *SLOW_TO_LOAD]
    env = os.environ | {"XDG_CACHE_HOME": str(tmp_path)}  # where no schedule was ever tuned
    found = subprocess.run(words, capture_output=True, text=True, check=True, env=env)
    assert found.stdout == "[]\n"


def test_processes_find_the_thread_pool_in_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled: list[str] = []

    def compile_support(text: str) -> bytes:
        compiled.append(text)
        return b"pool"

    monkeypatch.setattr(artifacts, "_compiled_support", compile_support)
    kept = CompileCache(tmp_path / "compiled")
    for rows in (256, 512):
        request = CompileRequest(
            sum_of_rows(rows), target_for("native"), CompileOptions(2), cache=kept
        )
        assert compile_request(request).artifact.support_code == b"pool"
    assert len(compiled) == 1


def test_programs_without_parallel_loops_have_no_thread_pool() -> None:
    graph = Graph("serial")
    x = graph.make_input(LogicalTensor(F32, (4,)), "x")
    graph.make_output(graph.make("exp", [x]).outputs[0])
    assert compile_stages(graph, options=CompileOptions(2)).artifact.support_code == b""
    assert compile_stages(sum_of_rows(256), options=CompileOptions(2)).artifact.support_code


def test_the_collector_waits_while_a_model_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    states: list[bool] = []

    def lower(*_: object) -> None:
        states.append(gc.isenabled())
        raise ZeroDivisionError

    monkeypatch.setattr("graphc.driver.stages.lower_graph", lower)
    with pytest.raises(ZeroDivisionError):
        compile_stages(sum_of_rows(3))
    assert states == [False] and gc.isenabled()
