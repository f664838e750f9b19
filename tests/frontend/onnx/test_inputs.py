"""Dynamic shapes of a file."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import ModelProto, TensorProto

from graphc.base.dims import Symbol, size
from graphc.base.errors import UserError
from graphc.frontend import load
from graphc.frontend.onnx import to_onnx
from support.onnx_models import Dims, model, node


def shapes(inputs: dict[str, Dims], specs: dict[str, str]) -> list[str]:
    """The inputs of a model that adds them all, once `specs` are given."""
    proto = model([node("Sum", " ".join(inputs))], inputs)
    return [str(op.outputs[0].details) for op in load(proto, specs).inputs]


def refusal(inputs: dict[str, Dims], specs: dict[str, str]) -> str:
    with pytest.raises(UserError) as error:
        shapes(inputs, specs)
    return str(error.value)


def test_specs_fix_dynamic_dimensions() -> None:
    assert shapes({"x": ["batch", 13]}, {"x": "f32[8,13]"}) == ["f32[8,13]"]
    assert shapes({"x": [None, 13]}, {"x": "f32[8,13]"}) == ["f32[8,13]"]
    assert shapes({"x": None}, {"x": "f32[8,13]"}) == ["f32[8,13]"]
    assert shapes({"x": [8, 13]}, {"x": "f32[8,13]"}) == ["f32[8,13]"]


def test_a_symbol_holds_for_every_input() -> None:
    inputs: dict[str, Dims] = {"x": ["n", 13], "w": ["n", 1]}
    assert shapes(inputs, {"w": "f32[8,1]"}) == ["f32[8,13]", "f32[8,1]"]


def test_all_inputs_without_a_number_of_axes_are_named_at_once() -> None:
    inputs: dict[str, Dims] = {"x": ["batch", 13], "c": [1], "w": [None, "k"], "v": None}
    assert refusal(inputs, {}) == (
        "model: the shape of every input must be given, but 'v' is f32[...]; say --input 'v=f32[1,8]'"
    )


def test_dynamic_sizes_stay_dynamic() -> None:
    assert shapes({"x": ["batch", 13], "w": ["batch", 1]}, {}) == ["f32[batch,13]", "f32[batch,1]"]
    assert shapes({"v": ["a b", None]}, {}) == ["f32[a_b,v_1]"]
    named = {"x": "f32[N=1..8,13]"}
    assert shapes({"x": ["n", 13], "w": ["n", 1]}, named) == ["f32[N,13]", "f32[N,1]"]
    assert shapes({"x": ["k", 1], "w": [1, "n"]}, {"w": "f32[1,k]"}) == ["f32[k_1,1]", "f32[1,k]"]


def test_exporters_names_are_those_of_the_first_axis() -> None:
    raw: dict[str, Dims] = {"x": ["s33", 13], "w": ["s33", 1], "v": ["unk__7", 13]}
    assert shapes(raw, {}) == ["f32[x_0,13]", "f32[x_0,1]", "f32[x_0,13]"]


def test_sizes_that_must_be_equal_are_one() -> None:
    assert shapes({"x": ["n", 13], "w": ["m", 1]}, {}) == ["f32[n,13]", "f32[n,1]"]
    assert shapes({"x": [None, 13], "w": [None, 13]}, {}) == ["f32[x_0,13]", "f32[x_0,13]"]
    ranged = {"x": "f32[n=1..8,13]", "w": "f32[m=1..9,13]"}
    assert "input shapes must broadcast" in refusal({"x": [None, 13], "w": [None, 13]}, ranged)


def test_sums_of_names_are_sums() -> None:
    """The mask of a cache of 8 and one token has 9 elements."""
    proto = model(
        [node("Concat", "past new", "keys", axis=0), node("Add", "mask keys")],
        {"mask": ["past + 1"], "past": ["past"], "new": [1]},
    )
    assert [str(op.outputs[0].details) for op in load(proto).inputs] == [
        "f32[past+1]", "f32[past]", "f32[1]",
    ]  # fmt: skip
    fixed = load(proto, {"past": "f32[8]"}).inputs
    assert [str(op.outputs[0].details) for op in fixed] == ["f32[9]", "f32[8]", "f32[1]"]
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "total"
    assert str(load(proto).inputs[0].outputs[0].details) == "f32[past+1]"


def positions(rows: int) -> ModelProto:
    """x[N,4] + the first N rows of a table."""
    weights = {"table": np.ones((rows, 4), np.float32), "zero": np.array([0])}
    sizes = [node("Shape", "x", "dims"), node("Gather", "dims zero", "rows")]
    cut = [node("Slice", "table zero rows", "part"), node("Add", "x part")]
    return model([*sizes, *cut], {"x": ["N", 4]}, weights)


def test_a_table_of_positions_limits_an_dynamic_size() -> None:
    (x,) = load(positions(512)).inputs
    assert x.outputs[0].details.plain_dims[0] == size(Symbol("N", 1, 512))
    (x,) = load(positions(512), {"x": "f32[N=3..,4]"}).inputs
    assert x.outputs[0].details.plain_dims[0] == size(Symbol("N", 3, 512))
    (x,) = load(positions(512), {"x": "f32[N=3..8,4]"}).inputs
    assert x.outputs[0].details.plain_dims[0] == size(Symbol("N", 3, 8))
    for text in ("f32[513,4]", "f32[N=600..,4]"):
        with pytest.raises(UserError, match="input shapes must broadcast"):
            load(positions(512), {"x": text})


@pytest.mark.parametrize(
    ("inputs", "specs", "message"),
    [
        (
            {"x": [8, 13]},
            {"y": "f32[8,13]"},
            "model: there is no input 'y'; its inputs are 'x'",
        ),
        (
            {"x": ["n", 13]},
            {"x": "f32[8,12]"},
            "model: input 'x': the file declares f32[n,13], got f32[8,12]; fixed sizes must agree",
        ),
        (
            {"x": ["n", 13]},
            {"x": "f64[8,13]"},
            "model: input 'x': the file declares f32[n,13], got f64[8,13]; the dtype must agree",
        ),
        (
            {"x": ["n", 13]},
            {"x": "f32[8]"},
            "model: input 'x': the file declares f32[n,13], got f32[8]; the number of axes must agree",
        ),
        (
            {"x": ["n", 13], "w": ["n", 1]},
            {"x": "f32[8,13]", "w": "f32[9,1]"},
            "model: input 'w': 'n' must have one size, got 9, but 8 from input 'x'",
        ),
    ],
)
def test_specs_that_contradict(
    inputs: dict[str, Dims], specs: dict[str, str], message: str
) -> None:
    assert refusal(inputs, specs) == message


def test_an_input_whose_value_is_given_is_a_constant() -> None:
    proto = model(
        [node("Tile", "x repeats")],
        {"x": ["n"], "repeats": [1]},
        dtypes={"repeats": TensorProto.INT64},
    )
    graph = load(proto, {"x": "f32[2]"}, {"repeats": np.array([3])})
    assert [op.name for op in graph.inputs] == ["x"]
    assert graph.evaluate([np.array([1, 2], np.float32)])[0].tolist() == [1, 2] * 3
    with pytest.raises(UserError, match="there is no input 'z'"):
        load(proto, {"x": "f32[2]"}, {"z": np.array([3])})
    with pytest.raises(UserError, match="the number of axes must agree"):
        load(proto, {"x": "f32[2]"}, {"repeats": np.array(3)})


def test_dynamic_sizes_are_written_by_name() -> None:
    graph = load(model([node("Relu", "x")], {"x": ["batch", 13]}), {})
    (written,) = to_onnx(graph).graph.input
    assert [d.dim_param or d.dim_value for d in written.type.tensor_type.shape.dim] == ["batch", 13]
