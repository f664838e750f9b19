"""Names of models never decide names of code: any name compiles, runs, is saved, and comes back."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import graphc
from graphc import cli
from graphc.base.dtypes import F32
from graphc.base.options import CompileOptions
from graphc.driver.compiler import compile_stages
from graphc.frontend.tvm.params import read_params
from graphc.graph_ir.inspect.dot import write_dot
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.text.parser import parse_graph
from graphc.graph_ir.text.printer import print_graph
from graphc.runtime.debugger import COLUMNS
from graphc.runtime.executor import CompiledModel
from graphc.tensor_ir.parser import parse_module
from graphc.tensor_ir.printer import print_module
from graphc.tools.report.graph_picture import standalone_picture
from support.names import ROWS, any_name, named


def everywhere(name: str) -> Graph:
    """The graph in which all ops and values are called the same; its results must differ."""
    return named(lambda _: name, lambda number: f"{name}{number}")


def inputs_of(model: CompiledModel) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {x.name: rng.standard_normal(x.shape, np.float32) for x in model.inputs}


def check(graph: Graph, folder: Path) -> None:
    """Compile with every text written, save, load and run; the names the caller uses are the graph's."""
    options = CompileOptions(threads=2, dump_dir=folder / "ir", verify=True)
    compilation = compile_stages(graph, "avx2", options)
    compilation.artifact.save(folder / "m.gcm")
    model = graphc.load(folder / "m.gcm", threads=1)
    assert [x.name for x in model.inputs] == [op.name for op in graph.inputs]
    results = [op.attrs["temp.result"] for op in graph.outputs]
    assert [y.name for y in model.outputs] == results
    arrays = inputs_of(model)
    wanted = graph.evaluate([arrays[op.name] for op in graph.inputs])
    for mine, right in zip(model.run(results, arrays), wanted, strict=True):
        np.testing.assert_allclose(mine, right, rtol=1e-5, atol=1e-6)
    assert parse_module(print_module(compilation.lowered.module)) == compilation.lowered.module
    assert "\0" not in compilation.llvm_ir and compilation.llvm_ir.encode()
    assert len(list((folder / "ir").iterdir())) > 5


@pytest.mark.exhaustive
@pytest.mark.parametrize("names", ROWS, ids=range(len(ROWS)))
def test_names_that_mean_something_elsewhere(names: tuple[str, ...], tmp_path: Path) -> None:
    check(named(names.__getitem__), tmp_path)


@pytest.mark.parametrize("name", ["20.bias", "a\0b", "\ud800", "n" * 10_000], ids=ascii)
def test_one_name_for_everything(name: str, tmp_path: Path) -> None:
    check(everywhere(name), tmp_path)


@given(st.lists(any_name, min_size=14, max_size=14, unique=True))
@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_names(tmp_path: Path, names: list[str]) -> None:
    check(named(names.__getitem__), tmp_path)


def test_code_is_the_same_whatever_the_names() -> None:
    plain, odd = (compile_stages(named(f), "avx2") for f in (lambda i: f"n{i}", lambda i: "½" * i))
    assert print_module(plain.module) != print_module(odd.module)  # notes tell the ops
    assert plain.artifact.object_code == odd.artifact.object_code
    code = [line for line in print_module(odd.module).splitlines() if '"""' not in line]
    assert max(map(len, re.findall(r"\w+", "\n".join(code)))) <= 80
    assert "\n".join(code).isascii()


@given(st.lists(any_name, min_size=14, max_size=14, unique=True))
def test_the_text_of_a_graph_keeps_any_name(names: list[str]) -> None:
    graph = named(names.__getitem__)
    graph.sort()
    text = print_graph(graph, full=True)
    again = parse_graph(text.encode().decode())
    assert [op.name for op in again.ops] == [op.name for op in graph.ops]
    assert again.name == graph.name and again.compare_contents(graph)
    assert [op.attrs for op in again.outputs] == [op.attrs for op in graph.outputs]


@pytest.mark.exhaustive
@pytest.mark.parametrize("names", ROWS, ids=range(len(ROWS)))
def test_pictures_and_debug_runs(names: tuple[str, ...], tmp_path: Path) -> None:
    graph = named(names.__getitem__)
    ET.fromstring(standalone_picture(graph).encode())
    assert write_dot(graph).encode().count(b"label=") == 25
    with_values = graphc.debug(graph, "avx2", threads=1, dump_root=tmp_path)
    arrays = {x.name: np.zeros(x.shape, np.float32) for x in with_values.inputs}
    for key, value in arrays.items():
        with_values.set_input(key, value)
    rows = with_values.run(warmup=0, repeats=1)
    nodes = [op.name for op in with_values.program.nodes]
    assert [row.name for row in rows] == nodes and COLUMNS[0] in with_values.table()
    with_values.close()
    folder = next(tmp_path.iterdir())
    dumped = json.loads((folder / "_tvmdbg_graph_dump.json").read_text())["nodes"]
    assert set(nodes) <= {node["name"] for node in dumped}
    kept = read_params(str(folder / "output_tensors.params"))
    assert any(key.startswith(f"{nodes[0]}____topo-index:") for key in kept)


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = ["a\0b", "\ud800", "\x1b[31m", "[/bold]", "n" * 10_000, "../x", "..", "\n", "</script>"]
    graph = named([*names, *(f"{name} " for name in names)].__getitem__)
    graph.sort()
    model, artifact = tmp_path / "m.graph", tmp_path / "m.gcm"
    model.write_text(print_graph(graph, full=True), encoding="utf-8")
    for words in (
        ["compile", str(model), "-v", "-o", str(artifact), "--target", "avx2"],
        ["run", str(artifact), "--output-dir", str(tmp_path / "out")],
        ["explain", str(model)],
        ["dev", "verify", str(model), "--target", "avx2"],
        ["dev", "debug", str(model), "--repeats", "1"],
        ["profile", str(model), "--seconds", "0.01", "--trace", str(tmp_path / "t.json")],
        ["profile", str(model), "--seconds", "0.01", "--html", str(tmp_path / "r.html")],
    ):
        assert cli.main(words) == 0, capsys.readouterr().err
        shown = capsys.readouterr().out
        assert all(line.isprintable() for line in shown.split("\n"))
    assert len(list((tmp_path / "out").iterdir())) == 2
    assert all(path.parent == tmp_path / "out" for path in (tmp_path / "out").rglob("*"))
    assert json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    assert "\0" not in (tmp_path / "r.html").read_text(encoding="utf-8")


def test_outputs_of_one_name_are_numbered(tmp_path: Path) -> None:
    graph = named(lambda i: "m" if i == 0 else "n", lambda _: "y")
    compiled = graphc.compile(graph)
    assert [spec.name for spec in compiled.outputs] == ["y", "y_1"]
    compiled.save(tmp_path / "m.gcm")
    again = graphc.load(tmp_path / "m.gcm")
    assert [spec.name for spec in again.outputs] == ["y", "y_1"]


def test_outputs_without_a_name_have_their_own() -> None:
    graph = Graph("g")
    x = graph.make_input(LogicalTensor(F32, (2,)))
    for _ in range(3):
        graph.make_output(x)
    assert [y.name for y in graphc.compile(graph).outputs] == ["output", "output_1", "output_2"]
