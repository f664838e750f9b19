"""Conversions: any format to any other, the same network through all of them, and what cannot be written."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from graphc.base.dims import Symbol, size
from graphc.base.dtypes import S32
from graphc.base.errors import UnsupportedError, UserError
from graphc.frontend import format_of, load
from graphc.frontend.formats import FORMATS, output_format
from graphc.frontend.tvm.params import read_params
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.text.printer import print_graph
from graphc.tools.convert import Conversion, convert
from support.compiled import run_native
from support.gguf_files import TinyDecoder
from support.networks import NETWORKS, arrays_of, attention, perceptron
from support.process import ROOT

READABLE = ("onnx", "hlo", "pnnx", "tvm", "ge", "graph")


def written(graph: Graph, folder: Path, *targets: str) -> Path:
    """The file at the end of a chain of conversions."""
    path = folder / "start.graph"
    path.write_text(print_graph(graph, full=True))
    done: Conversion | None = None
    for number, target in enumerate(targets):
        output = folder / f"{number}{FORMATS[target].suffix}"
        done = convert(path, target, output, *read_with(done))
        assert done.files[0] == output and all(file.exists() for file in done.files)
        path = output
    return path


def read_with(done: Conversion | None) -> tuple[dict[str, str], dict[str, np.ndarray]]:
    """The arguments a conversion says its file needs."""
    words = done.arguments if done else ()
    pairs = list(zip(words[::2], words[1::2], strict=True))
    inputs = dict(text.split("=", 1) for option, text in pairs if option == "--input")
    files = [text[1:] for option, text in pairs if option == "--constant"]
    return inputs, dict(item for file in files for item in read_params(file).items())


def reread(graph: Graph, folder: Path, target: str) -> Graph:
    start = folder / "start.graph"
    start.write_text(print_graph(graph, full=True))
    done = convert(start, target, folder / f"m{FORMATS[target].suffix}")
    assert (done.source, format_of(done.files[0])) == ("graph", target)
    return load(done.files[0], *read_with(done))


@pytest.mark.exhaustive
@pytest.mark.parametrize("network", NETWORKS)
def test_the_same_network_through_every_format_gives_the_same_bits(
    network: str, tmp_path: Path
) -> None:
    graph = NETWORKS[network]()
    inputs = arrays_of(graph)
    expected = run_native(graph, inputs)
    for target in READABLE:
        results = run_native(reread(graph, tmp_path, target), inputs)
        for result, wanted in zip(results, expected, strict=True):
            assert result.tobytes() == wanted.tobytes(), target


@pytest.mark.exhaustive
@pytest.mark.parametrize("pair", [*itertools.permutations(READABLE, 2)], ids="-".join)
def test_from_any_format_to_any_other(pair: tuple[str, str], tmp_path: Path) -> None:
    graph = perceptron()
    path = written(graph, tmp_path, *pair)
    inputs = {"x": "f32[4,13]"} if pair[1] == "ge" else {}
    constants = read_params(f"{path}.params") if pair[1] == "ge" else {}
    again = load(path, inputs, constants)
    for result, wanted in zip(
        again.evaluate(arrays_of(graph)), graph.evaluate(arrays_of(graph)), strict=True
    ):
        np.testing.assert_array_equal(result, wanted)


@pytest.mark.exhaustive
@pytest.mark.parametrize("source", READABLE)
def test_pictures_and_the_data_flow_of_any_format(source: str, tmp_path: Path) -> None:
    graph = perceptron()
    svg = ElementTree.parse(written(graph, tmp_path, source, "svg"))
    assert svg.getroot().get("class") == "graph"
    dfg = json.loads(written(graph, tmp_path, source, "dfg").read_text())
    labels = [node["label"] for node in dfg["nodes"]]
    assert labels.count("dot") == 2 and dfg["edges"]
    dot = written(graph, tmp_path, source, "dot").read_text()
    assert dot.startswith("digraph ") and dot.count("matmul_core") == 2


def test_the_data_flow_of_hlo_that_cannot_be_run(tmp_path: Path) -> None:
    path = tmp_path / "m.hlo"
    path.write_text(
        "HloModule m\nENTRY e { x = c64[4] parameter(0) "
        "ROOT y = c64[4] fft(x), fft_type=FFT, fft_length={4} }"
    )
    done = convert(path, "dfg", tmp_path / "m.dfg.json")
    dfg = json.loads(done.files[0].read_text())
    assert [node["label"] for node in dfg["nodes"]] == ["parameter", "fft"]
    assert done.graph is None


def test_what_a_target_cannot_express_is_listed_and_nothing_is_written(tmp_path: Path) -> None:
    graph = Graph("g")
    x = graph.make_input(LogicalTensor(S32, (2, 4)), "x")
    y = graph.make("popcount", [graph.make("popcount", [x]).outputs[0]]).outputs[0]
    graph.make_output(graph.make("count_leading_zeros", [y]).outputs[0])
    start = tmp_path / "start.graph"
    start.write_text(print_graph(graph, full=True))
    for target, message in (
        (
            "onnx",
            "graph 'g': ONNX cannot express: count_leading_zeros (1x), popcount (2x); "
            "write another format, such as graphc's own (--to graph)",
        ),
        (
            "pnnx",
            "graph 'g': PNNX cannot express: count_leading_zeros (1x), popcount (2x); "
            "write another format, such as graphc's own (--to graph)",
        ),
        (
            "ge",
            "graph 'g': GE cannot express: count_leading_zeros (1x), popcount (2x); "
            "write another format, such as graphc's own (--to graph)",
        ),
    ):
        with pytest.raises(UnsupportedError) as error:
            convert(start, target, tmp_path / f"m{FORMATS[target].suffix}")
        assert str(error.value) == message
    assert [path.name for path in tmp_path.iterdir()] == ["start.graph"]


def test_files_that_cannot_be_written(tmp_path: Path) -> None:
    model = ROOT / "examples" / "mlp.onnx"
    for target, one in FORMATS.items():
        output = tmp_path / "no" / f"m{one.suffix}"
        with pytest.raises(UserError) as error:
            convert(model, target, output)
        assert str(error.value) == (
            f"format '{target}' is only read, it cannot be written; choose another with --to"
            if one.writer is None
            else f"cannot write '{output}' (No such file or directory); make its folder first, or give another path"
        )


@pytest.mark.parametrize(
    ("name", "target"),
    [("onnx", "onnx"), ("m.onnx", "onnx"), ("dfg.json", "dfg"), ("a.dfg.json", "dfg"), ("a.json", "tvm"),
     ("json", "tvm"), ("m.pnnx.param", "pnnx"), ("ge", "ge"), ("dump.txt", "ge"), ("svg", "svg"), ("x.hlo", "hlo")],
)  # fmt: skip
def test_the_target_by_name_or_suffix(name: str, target: str) -> None:
    assert output_format(name).name == target


def test_an_unknown_target() -> None:
    with pytest.raises(UserError) as error:
        output_format("m.caffemodel")
    assert str(error.value) == (
        "'m.caffemodel' is not an output format; known are onnx (.onnx), tvm (.json), hlo (.hlo), "
        "ge (.txt), pnnx (.param), graph (.graph), dfg (.dfg.json), "
        "ast (.ast.json), dot (.dot), svg (.svg)"
    )


def test_a_dump_says_what_it_takes_to_read_it(tmp_path: Path) -> None:
    start = tmp_path / "start.graph"
    start.write_text(print_graph(attention(), full=True))
    done = convert(start, "ge", tmp_path / "m.txt")
    assert done.files == (tmp_path / "m.txt", tmp_path / "m.txt.params")
    assert done.arguments == (
        *("--input", "x=f32[6,16]"),
        *("--constant", f"@{tmp_path}/m.txt.params"),
    )


@pytest.mark.parametrize("target", ["hlo", "onnx"])
def test_sizes_that_a_format_needs_to_know_are_named_with_what_to_give(
    target: str, tmp_path: Path
) -> None:
    """The mean divides by S, which HLO has as a number; a reshape to B*S rows is one in ONNX."""
    rows = helper.make_node("Reshape", ["x", "shape"], ["y"])
    mean = helper.make_node("ReduceMean", ["x"], ["y"], axes=[1], keepdims=0)
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["B", "S", 4])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    shape = numpy_helper.from_array(np.array([-1, 4]), "shape")
    graph = helper.make_graph([mean if target == "hlo" else rows], "open", [x], [y], [shape])
    start = tmp_path / "start.onnx"
    opsets = [helper.make_opsetid("", 13)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), str(start))
    rule = rf"{target} needs numbers for dynamic dimensions here: 'x' is f32\[B,S,4\]; give some"
    with pytest.raises(UnsupportedError, match=rule) as caught:
        convert(start, target, tmp_path / f"m.{target}")
    spec = str(caught.value).rpartition(" --input x=")[2]
    assert convert(start, target, tmp_path / f"m.{target}", {"x": spec}).graph is not None


@pytest.mark.parametrize("target", ["onnx", "hlo", "ge"])
def test_ops_that_a_format_lacks_are_named_before_sizes_that_would_not_help(
    target: str, tmp_path: Path
) -> None:
    path, _ = TinyDecoder("llama", layers=1).write(tmp_path / "x.gguf")
    with pytest.raises(UnsupportedError, match=r"cannot express: cached_attention \(1x\)"):
        convert(path, target, tmp_path / f"m{FORMATS[target].suffix}")
    assert [one.name for one in tmp_path.iterdir()] == ["x.gguf"]


def test_every_size_of_a_decoder_may_be_a_number(tmp_path: Path) -> None:
    """The message of a format that needs numbers lists the tokens whose logits are wanted, too."""
    path, _ = TinyDecoder("llama", layers=1).write(tmp_path / "x.gguf")
    with pytest.raises(UnsupportedError, match="tvm needs numbers") as caught:
        convert(path, "tvm", tmp_path / "m.json")
    given = str(caught.value).split(" --input ")[1:]
    specs = dict(text.strip().split("=", 1) for text in given)
    assert load(path, specs).inputs[1].outputs[0].details.plain_dims == (64,)


def test_a_format_of_numbers_says_what_to_give(tmp_path: Path) -> None:
    graph = Graph("open")
    x = graph.make_input(LogicalTensor(S32, (size(Symbol("B")), 4)), "x")
    graph.make_output(graph.make("neg", [x]).outputs[0])
    start = tmp_path / "start.graph"
    start.write_text(print_graph(graph, full=True))
    with pytest.raises(UnsupportedError, match="tvm needs numbers for dynamic dimensions here"):
        convert(start, "tvm", tmp_path / "m.json")
