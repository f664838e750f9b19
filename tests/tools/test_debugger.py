"""The debug executor: values of every node, times, and the dump in TVM's formats."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphc
from graphc.base.dims import Symbol, size
from graphc.base.dtypes import F32
from graphc.base.errors import UserError
from graphc.frontend.tvm.params import read_params
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.runtime.artifact import Artifact
from graphc.tools.artifact_graph import artifact_graph
from graphc.tools.debug_dump import FOLDER, tensor_key
from graphc.tools.debugger import DebugExecutor
from support.isa import host_target
from support.lowered import integers

X = integers((5, 9), 7)


def network() -> Graph:
    """Two layers with a residual, a view and two outputs; sums are exact."""
    graph = Graph("net")
    x = graph.make_input(LogicalTensor(F32, (5, 9)), "x")
    y = x
    for layer in range(2):
        w = graph.make_constant(integers((9, 9), layer), f"w{layer}")
        matmul = graph.make("matmul_core", (y, w), {}, f"matmul{layer}").outputs[0]
        relu = graph.make("relu", (matmul,), {}, f"relu{layer}").outputs[0]
        y = graph.make("add", (relu, x), {}, f"add{layer}").outputs[0]
    view = graph.make("reshape", (relu,), {"shape": (9, 5)}, "view").outputs[0]
    total = graph.make("reduce_sum", (view,), {"axes": (1,), "keep_dims": False}, "sum")
    graph.make_output(y, "y")
    graph.make_output(total.outputs[0], "total")
    return graph


def executor(**options: Any) -> DebugExecutor:
    return graphc.debug(network(), host_target("avx2"), 2, **options)


def reference() -> dict[str, np.ndarray]:
    return {op.name: value for op, value in network().walk_reference([X])}


@pytest.mark.parametrize("disabled", [(), ("fuse",)])
def test_every_node_gives_its_ops_value(disabled: tuple[str, ...]) -> None:
    debugger = executor(disabled=disabled)
    debugger.set_input("x", X)
    expected = reference()
    seen = []
    for node in debugger.program.nodes:
        name = node.name.removesuffix(".fused")
        if name in expected:
            seen.append(name)
            value = debugger.get_node_output(node.name)
            np.testing.assert_array_equal(value, expected[name])
    assert {"add0", "add1"} <= set(seen)


def test_run_gives_outputs_and_a_row_per_node() -> None:
    debugger = executor()
    seen: list[tuple[int, int]] = []
    rows = debugger.run(x=X, warmup=2, repeats=3, on_node=lambda *step: seen.append(step))
    np.testing.assert_array_equal(debugger.get_output(0), reference()["y"])
    np.testing.assert_array_equal(debugger.get_output(1), reference()["total"])
    assert [row.name for row in rows] == [node.name for node in debugger.program.nodes]
    assert all(len(row.time.samples) in (1, 3) for row in rows)
    assert seen[0] == (0, len(rows)) and seen[-1] == (len(rows), len(rows))
    assert any("gemm" in row.kernel for row in rows)
    lines = debugger.table().splitlines()
    assert lines[0].split("  ")[0] == "Node Name"
    assert lines[1].startswith("---------")
    assert len(lines) == len(rows) + 2


def test_running_a_node_again_changes_nothing() -> None:
    debugger = executor(disabled=("fuse",))
    debugger.run(x=X, warmup=3, repeats=3)
    np.testing.assert_array_equal(debugger.get_output(0), reference()["y"])


def test_only_some_nodes() -> None:
    debugger = executor()
    rows = debugger.run(x=X, nodes="add*")
    assert rows and all(row.name.startswith("add") for row in rows)
    np.testing.assert_array_equal(debugger.get_output(0), reference()["y"])
    with pytest.raises(UserError, match="no node matches 'nothing'"):
        debugger.run(nodes="nothing")


def test_the_dump_is_tvms(tmp_path: Path) -> None:
    debugger = executor(dump_root=tmp_path)
    debugger.run(x=X, repeats=1)
    folder = tmp_path / FOLDER
    graph = json.loads((folder / "_tvmdbg_graph_dump.json").read_text())
    assert list(graph) == ["nodes", "arg_nodes", "node_row_ptr", "heads", "attrs"]
    names = [node["name"] for node in graph["nodes"]]
    entries = graph["node_row_ptr"][-1]
    assert graph["node_row_ptr"] == list(range(len(names) + 1))
    assert all(len(payload) == entries for _, payload in graph["attrs"].values())
    for node in graph["nodes"]:
        assert set(node["inputs"]) <= set(names)
        assert all(isinstance(value, str) for value in node["attrs"].values())
        assert (node["op"] == "param") == ("func_name" not in node["attrs"])
    tensors = read_params(folder / "output_tensors.params")
    assert set(tensors) == {tensor_key(name, i, 0) for i, name in enumerate(names)}
    heads = [names[number] for number, _, _ in graph["heads"]]
    value = tensors[tensor_key(heads[0], names.index(heads[0]), 0)]
    np.testing.assert_array_equal(value, reference()["y"])
    np.testing.assert_array_equal(tensors[tensor_key("x", names.index("x"), 0)], X)
    events = json.loads((folder / "_tvmdbg_execution_trace.json").read_text())["traceEvents"]
    assert [event["ph"] for event in events] == ["B", "E"] * len(names)
    assert [event["ts"] for event in events] == sorted(event["ts"] for event in events)


def test_a_view_shares_the_storage_of_what_it_views(tmp_path: Path) -> None:
    executor(dump_root=tmp_path, disabled=("fuse", "simplify")).run(x=X, repeats=1)
    graph = json.loads((tmp_path / FOLDER / "_tvmdbg_graph_dump.json").read_text())
    names = [node["name"] for node in graph["nodes"]]
    storage = dict(zip(names, graph["attrs"]["storage_id"][1], strict=True))
    (view,) = [node for node in graph["nodes"] if node["op"] == "__nop"]
    assert storage[view["name"]] == storage[view["inputs"][0]]


def test_mistakes_are_told() -> None:
    debugger = executor()
    with pytest.raises(UserError, match="input 'x' is not set"):
        debugger.run()
    with pytest.raises(UserError, match="no input 'z'; the inputs are x"):
        debugger.set_input("z", X)
    debugger.set_input("x", X)
    with pytest.raises(UserError, match="no node 'nobody' in the optimized graph"):
        debugger.get_node_output("nobody")
    with pytest.raises(UserError, match="no output 2"):
        debugger.get_output(2)
    debugger.close()


def test_values_by_number_and_into_arrays() -> None:
    debugger = executor()
    debugger.set_input(0, X)
    np.testing.assert_array_equal(debugger.get_input("x"), X)
    out, same = np.empty((5, 9), np.float32), np.empty((5, 9), np.float32)
    assert debugger.get_output(0, out) is out
    np.testing.assert_array_equal(out, reference()["y"])
    number = [op.name for op in debugger.graph.ops].index("x")
    assert debugger.debug_get_output(number, same) is same
    np.testing.assert_array_equal(same, X)
    with pytest.raises(UserError, match=r"`out` must be float32\[5, 9\], got float32\[9, 5\]"):
        debugger.get_output(0, np.empty((9, 5), np.float32))
    with pytest.raises(UserError, match="there is no input 1; the model has 1"):
        debugger.set_input(1, X)
    with pytest.raises(UserError, match="there is no node 99"):
        debugger.debug_get_output(99)


def test_an_op_inside_a_node_has_its_value() -> None:
    debugger = executor()
    debugger.set_input("x", X)
    (node, *_) = [op for op in debugger.graph.ops if op.op_name == "fused"]
    inside = {op.name for op in node.attr("graph").ops} & set(reference())
    assert {"matmul0", "relu0", "add0"} <= inside
    for name in inside:
        np.testing.assert_array_equal(debugger.get_node_output(name), reference()[name])


def test_run_individual_times_every_node() -> None:
    debugger = executor()
    debugger.set_input("x", X)
    times = debugger.run_individual(number=2, repeat=3)
    assert [len(one) for one in times] == [3] * len(debugger.program.nodes)
    assert any(min(one) > 0 for one in times)


def test_the_dump_gives_the_values_back_and_goes_with_the_executor(tmp_path: Path) -> None:
    debugger = executor()
    assert debugger.dump_root is not None
    root = debugger.dump_root
    debugger.run(x=X, repeats=1)
    dump = (root / FOLDER / "output_tensors.params").read_bytes()
    graph = json.loads((root / FOLDER / "_tvmdbg_graph_dump.json").read_text())
    assert set(graph["attrs"]["dtype"][1]) == {0}
    debugger.exit()
    assert not root.exists()
    again = executor(dump_root=tmp_path)
    again.load_params(dump)
    np.testing.assert_array_equal(again.get_output(0), reference()["y"])
    again.exit()
    assert tmp_path.exists()


def test_a_new_constant_is_used() -> None:
    debugger = executor()
    debugger.run(x=X, w0=np.zeros((9, 9), np.float32), w1=np.zeros((9, 9), np.float32))
    np.testing.assert_array_equal(debugger.get_output(0), X)
    with pytest.raises(UserError, match=r"constant 'w0' must be float32\[9, 9\]"):
        debugger.set_input(w0=X)


def test_an_artifact_holds_what_the_debugger_needs(tmp_path: Path) -> None:
    file = tmp_path / "net.gcm"
    graphc.compile(network(), "avx2", 2, cache=False).save(file)
    debugger = graphc.debug(file)
    debugger.set_input("x", X)
    np.testing.assert_array_equal(debugger.get_output(0), reference()["y"])
    np.testing.assert_array_equal(debugger.get_node_output("relu0"), reference()["relu0"])
    assert all("avx2" in row.kernel or row.kernel == "__nop" for row in debugger.run())
    old = replace(Artifact.load(file), graph="")
    with pytest.raises(UserError, match="holds no graph; compile the model again"):
        artifact_graph(old)


def test_dynamic_sizes_are_those_of_the_inputs(tmp_path: Path) -> None:
    graph = Graph("open")
    x = graph.make_input(LogicalTensor(F32, (size(Symbol("N")), 9)), "x")
    middle = graph.make("relu", [x], name="middle").outputs[0]
    graph.make_output(
        graph.make("transpose", [middle], {"perm": (1, 0)}, "transposed").outputs[0], "y"
    )
    executor = graphc.debug(graph, dump_root=tmp_path)
    for rows in (5, 3, 40):
        value = integers((rows, 9), rows)
        found = executor.run(x=value)
        assert [row.shape for row in found] == [(rows, 9), (9, rows)]
        assert np.array_equal(executor.get_output(), np.maximum(value, 0).T)
        assert np.array_equal(executor.get_node_output("middle"), np.maximum(value, 0))
    with pytest.raises(UserError, match=r"input 'x' must be f32\[N,9\]"):
        executor.run(x=integers((5, 8), 1))
    executor.exit()
