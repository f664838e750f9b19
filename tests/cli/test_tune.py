"""`graphc tune`: what it measures is what `compile` then uses."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from graphc import cli
from graphc.base.dtypes import F32
from graphc.driver.compiler import compile as compile_model
from graphc.frontend import load as load_graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.lab.read import read_problem
from graphc.tools.submodel import write_reproducer
from support.control import counted, made
from support.gguf_files import TinyDecoder


def network(folder: Path) -> str:
    """A convolution of few channels and one of 1 x 1 taps."""
    weights = [np.ones((20, 3, 3, 3), np.float32), np.ones((17, 20, 1, 1), np.float32)]
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["h"], "c0"),
        helper.make_node("Conv", ["h", "w1"], ["y"], "c1"),
    ]
    shapes = {"x": (1, 3, 9, 9), "y": (1, 17, 7, 7)}
    ends = {
        name: helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in shapes.items()
    }
    constants = [numpy_helper.from_array(w, f"w{i}") for i, w in enumerate(weights)]
    graph = helper.make_graph(nodes, "net", [ends["x"]], [ends["y"]], constants)
    path = folder / "net.onnx"
    opset = [helper.make_opsetid("", 17)]
    path.write_bytes(
        helper.make_model(graph, opset_imports=opset, ir_version=9).SerializeToString()
    )
    return str(path)


def test_matmuls_inside_a_loop_are_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    size = LogicalTensor(F32, (12, 12))
    graph = counted([size], lambda g, x, w: [made(g, "matmul_core", x, w)], fixed=[size])
    words = write_reproducer(tmp_path, graph, {op.name: np.zeros(1) for op in graph.inputs}, [])
    model, store = words.split()[2], str(tmp_path / "tuning.sqlite")
    args = ["tune", model, "--tuning", store, "--seconds", "0", "--json", "--threads", "1"]
    assert cli.main(args) == 0
    rows = json.loads(capsys.readouterr().out)["problems"]
    assert [row["problem"] for row in rows] == ["matmul m12n12k12 f32"]


@pytest.mark.exhaustive
@pytest.mark.parametrize("types", ["bf16", "f16", "f64", "u8xs8"])
def test_matmuls_of_every_type_are_measured_and_then_compiled(
    types: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    graph = load_graph(read_problem(f"matmul m9n40k24 {types}").model)
    words = write_reproducer(tmp_path, graph, {op.name: np.zeros(1) for op in graph.inputs}, [])
    model, store = words.split()[2], str(tmp_path / "tuning.sqlite")
    args = ["tune", model, "--tuning", store, "--seconds", "0", "--json", "--threads", "1"]
    assert cli.main(args) == 0
    (row,) = json.loads(capsys.readouterr().out)["problems"]
    assert row["problem"] == f"matmul m9n40k24 {types}" and row["tried"] > 1
    assert cli.main(["explain", model, "matmul", "--tuning", store, "--json", *args[-2:]]) == 0
    schedules = json.loads(capsys.readouterr().out)["schedules"]
    (chosen,) = [s for s in schedules if s["chosen"]]
    assert (chosen["schedule"], chosen["by"]) == (row["schedule"], "a tuning file")
    assert cli.main(["dev", "verify", model, "-q", *args[-2:]]) == 0
    assert " 0 mismatches" in capsys.readouterr().out


def test_convolutions_keep_their_best_schedule(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, store = network(tmp_path), str(tmp_path / "tuning.sqlite")
    switches = ["--threads", "1", "-X", "no-winograd"]
    args = ["tune", model, "--tuning", store, "--seconds", "0", "--json", *switches]
    assert cli.main(args) == 0
    rows = json.loads(capsys.readouterr().out)["problems"]
    assert [row["problem"] for row in rows] == [
        "conv n1c3h9w9o20k3s1p0 f32",
        "matmul m17n49k20 f32",
    ]
    assert all(row["tried"] > 1 and row["after"] >= row["before"] > 0 for row in rows)
    assert cli.main(["explain", model, "c0", "--tuning", store, "--json", *switches]) == 0
    schedules = json.loads(capsys.readouterr().out)["schedules"]
    (chosen,) = [s for s in schedules if s["chosen"] and s["problem"] == rows[0]["problem"]]
    assert (chosen["schedule"], chosen["by"]) == (rows[0]["schedule"], "a tuning file")
    x = np.random.default_rng(0).integers(-4, 5, (1, 3, 9, 9)).astype(np.float32)
    (expected,) = load_graph(model).evaluate([x])
    assert np.array_equal(compile_model(model, disabled=("winograd",))(x), expected)


def test_a_second_run_measures_what_the_first_did_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, store = network(tmp_path), str(tmp_path / "tuning.sqlite")
    args = ["tune", model, "--tuning", store, "--seconds", "0", "--threads", "1", "-q"]
    assert cli.main(args) == 0
    assert "of 2 kernels are faster" in capsys.readouterr().out
    assert cli.main([*args, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["problems"] == [] and len(found["known"]) == 2
    assert cli.main([*args, "--json", "--again"]) == 0
    assert len(json.loads(capsys.readouterr().out)["problems"]) == 2


def dynamic_model(name: str, folder: Path) -> str:
    """A decoder of a GGUF file, with a mixture of experts or without, or a matmul of any number of rows."""
    if name != "rows":
        experts = {"experts": 4} if name == "experts" else {}
        sizes = {"layers": 1, "width": 32, "heads": 2, "kv_heads": 1, "hidden": 32}
        decoder = TinyDecoder("llama", kinds=("q8_0",), **sizes, **experts)
        return str(decoder.write(folder / "x.gguf")[0])
    ends = [
        helper.make_tensor_value_info(key, TensorProto.FLOAT, ["B", n])
        for key, n in (("x", 24), ("y", 40))
    ]
    weight = numpy_helper.from_array(np.ones((24, 40), np.float32), "w")
    node = helper.make_node("MatMul", ["x", "w"], ["y"], "fc")
    graph = helper.make_graph([node], "net", ends[:1], ends[1:], [weight])
    opset = [helper.make_opsetid("", 17)]
    path = folder / "rows.onnx"
    path.write_bytes(
        helper.make_model(graph, opset_imports=opset, ir_version=9).SerializeToString()
    )
    return str(path)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("rows", "matmul m=1..2147483647n40k24 f32"),
        ("decoder", "matmul m=1..512n32k32 f32xu8g32"),
        ("experts", "matmul e4m=1..1024n32k32 f32xu8g32"),
    ],
)
def test_kernels_of_dynamic_sizes_are_measured_at_those_of_the_command_line(
    name: str, problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, store = dynamic_model(name, tmp_path), str(tmp_path / "tuning.sqlite")
    size = "B=3" if name == "rows" else "T=3"
    args = ["tune", model, "--tuning", store, "--seconds", "0", "--json", "--threads", "1"]
    assert cli.main([*args, "--size", size]) == 0
    out, err = capsys.readouterr()
    assert problem in [row["problem"] for row in json.loads(out)["problems"]]
    assert ("runs at" in err) == (name != "rows")  # what nobody gave is small, and is printed
