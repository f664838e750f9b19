"""The choice of the reader of a model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from graphc.base.errors import UserError
from graphc.frontend import load
from graphc.runtime.container import MAGIC
from support.onnx_models import model, node


def relu() -> bytes:
    return bytes(model([node("Relu", "x")], {"x": [2, 3]}).SerializeToString())


def test_a_path_bytes_and_a_proto_give_the_same_graph(tmp_path: Path) -> None:
    path = tmp_path / "relu.onnx"
    path.write_bytes(relu())
    proto = model([node("Relu", "x")], {"x": [2, 3]})
    x = np.array([[-1, 2, -3], [4, -5, 6]], np.float32)
    for source in (path, str(path), relu(), bytearray(relu()), proto):
        (y,) = load(source).evaluate([x])  # type: ignore[arg-type]
        np.testing.assert_array_equal(y, np.maximum(x, 0))


def test_the_callers_proto_stays_as_it_was() -> None:
    proto = model([node("MeanVarianceNormalization", "x")], {"x": [2, 3, 4, 5]})
    before = proto.SerializeToString()
    load(proto)
    assert proto.SerializeToString() == before


def test_a_graph_is_taken_as_it_is() -> None:
    graph = load(relu())
    assert load(graph) is graph
    assert load(graph, {"x": "f32[2,3]"}) is graph


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"z": "f32[2,3]"}, "graph 'test': there is no input 'z'; its inputs are 'x'"),
        ({"x": "f32[4,3]"}, "input 'x' must be as in the graph, f32[2,3], got x=f32[4,3]"),
    ],
)
def test_specs_that_do_not_fit_a_graph(inputs: dict[str, str], message: str) -> None:
    with pytest.raises(UserError) as error:
        load(load(relu()), inputs)
    assert str(error.value) == message


def test_what_is_no_model() -> None:
    with pytest.raises(UserError) as error:
        load(42)  # type: ignore[arg-type]
    assert (
        str(error.value)
        == "model must be a path, bytes, an onnx.ModelProto, a torch.export.ExportedProgram, "
        "a jax.export.Exported or a Graph, got int"
    )
    with pytest.raises(UserError) as error:
        load(b"7767517\n1 1\n")
    assert str(error.value) == (
        "a PNNX model must be given as the path of its .param file: its weights are in another"
    )


def test_a_compiled_model_is_told_from_a_model(tmp_path: Path) -> None:
    artifact = tmp_path / "m.gcm"
    artifact.write_bytes(MAGIC + bytes(100))
    with pytest.raises(UserError) as error:
        load(str(artifact))
    assert (
        str(error.value) == f"'{artifact}' is a compiled model; graphc run and graphc.load take it"
    )
