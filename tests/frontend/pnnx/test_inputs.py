"""Input shapes from annotations and from what the caller gives; values, keys and dtypes as files spell them."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest

import graphc
from graphc.base.errors import UserError
from graphc.frontend import load
from graphc.frontend.pnnx import weights
from graphc.frontend.pnnx.param_value import parse_param_value, print_param_value
from support.pnnx_models import load_operator, run_operator, write_model

RELU = ["F.relu r 1 1 x y", "pnnx.Output out 1 0 y"]


def shape_of(path: Path, **inputs: str) -> str:
    return str(load(path, inputs).inputs[0].outputs[0].details)


def test_dynamic_sizes_are_given_by_name(tmp_path: Path) -> None:
    path = write_model(tmp_path, ["pnnx.Input in 0 1 x #x=(?,-1,3)f32", *RELU])
    assert shape_of(path, **{"in": "f32[5,2,3]"}) == "f32[5,2,3]"
    assert shape_of(path, **{"in": "f32[N=1..9,2,3]"}) == "f32[N,2,3]"


def test_dynamic_sizes_stay_dynamic(tmp_path: Path) -> None:
    path = write_model(tmp_path, ["pnnx.Input in 0 1 x #x=(?,-1,3)f32", *RELU])
    assert shape_of(path) == "f32[in_0,in_1,3]"
    value = np.random.default_rng(0).standard_normal((2, 5, 3)).astype(np.float32)
    assert np.array_equal(graphc.compile(path, threads=1)(value), np.maximum(value, 0))
    write_model(tmp_path, ["pnnx.Input in 0 1 x #x=(%b,%b,3)f32", *RELU])
    assert shape_of(path) == "f32[b,b,3]"


def test_a_layer_of_a_dynamic_batch_has_the_bits_of_the_layer_of_that_batch(tmp_path: Path) -> None:
    lines = [
        "pnnx.Input in 0 1 x #x=(?,8)f32",
        "nn.Linear fc 1 1 x y bias=True in_features=8 out_features=5 @bias=(5)f32 @weight=(5,8)f32",
        "F.softmax s 1 1 y z dim=-1 $input=y",
        "pnnx.Output out 1 0 z",
    ]
    random = np.random.default_rng(0)
    weights = {
        "fc.bias": random.standard_normal(5).astype(np.float32),
        "fc.weight": random.standard_normal((5, 8)).astype(np.float32),
    }
    path = write_model(tmp_path, lines, weights)
    model = graphc.compile(path, threads=1)
    assert [repr(spec) for spec in model.inputs] == ["in: f32[in_0,8]"]
    for rows in (1, 7, 30):
        x = random.standard_normal((rows, 8)).astype(np.float32)
        alone = graphc.compile(path, threads=1, inputs={"in": f"f32[{rows},8]"})
        assert model(x).tobytes() == alone(x).tobytes()


def test_an_annotation_on_a_later_line_counts(tmp_path: Path) -> None:
    lines = ["pnnx.Input in 0 1 x", "F.relu r 1 1 x y #x=(4)f64", "pnnx.Output out 1 0 y"]
    assert shape_of(write_model(tmp_path, lines)) == "f64[4]"


def test_all_open_inputs_are_requested_at_once(tmp_path: Path) -> None:
    lines = [
        "pnnx.Input a 0 1 x",
        "pnnx.Input b 0 1 z",
        "pnnx.Input c 0 1 w #w=(1)f32",
        "torch.add s 2 1 x z y",
        "pnnx.Output out 1 0 y",
    ]
    path = write_model(tmp_path, lines)
    with pytest.raises(UserError) as error:
        load(path)
    assert str(error.value) == (
        "the type of every input must be given, but 'a' is ?[...], 'b' is ?[...] in the file; give "
        "it, like --input 'a=f32[1,8]' --input 'b=f32[1,8]' "
        f"(in '{path}')"
    )


@pytest.mark.parametrize(
    ("name", "spec", "message"),
    [
        ("x", "f32[2]", "there is no input 'x'; its inputs are 'in'"),
        ("in", "f64[2,3]", "input 'in': the file declares f32[?,3], got f64[2,3]; the dtype must agree"),
        ("in", "f32[2]", "input 'in': the file declares f32[?,3], got f32[2]; the number of axes must agree"),
        ("in", "f32[2,4]", "input 'in': the file declares f32[?,3], got f32[2,4]; fixed sizes must agree"),
    ],
)  # fmt: skip
def test_specs_that_contradict_the_file(name: str, spec: str, message: str, tmp_path: Path) -> None:
    path = write_model(tmp_path, ["pnnx.Input in 0 1 x #x=(?,3)f32", *RELU])
    with pytest.raises(UserError) as error:
        load(path, {name: spec})
    assert str(error.value) == f"{message} (in '{path}')"


def test_a_file_is_known_by_its_first_line_too(tmp_path: Path) -> None:
    path = write_model(tmp_path, ["pnnx.Input in 0 1 x #x=(2)f32", *RELU])
    other = path.rename(tmp_path / "model.txt")
    assert shape_of(other) == "f32[2]"


def test_counts_are_hints_and_blanks_do_not_matter(tmp_path: Path) -> None:
    path = tmp_path / "m.param"
    name = "a.very/long.name_" * 3
    path.write_bytes(
        f"7767517\r\n99 1\r\n\r\npnnx.Input   {name}\t0 1 x.1   #x.1=(2)f32\r\n"
        "F.relu 24 1 1 x.1 out\r\npnnx.Output out 1 0 out".encode()
    )
    assert [op.name for op in load(path).ops] == [name, "24", "out"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(("None", None), ("()", None), ("[]", None), ("True", True), ("False", False)),
        *(("12", 12), ("-3", -3), ("(3)", [3]), ("[1,-2]", [1, -2]), ("(1,2.5)", [1.0, 2.5])),
        *(("1.000000e-05", float(np.float32(1e-5))), ("bilinear", "bilinear"), ("inf", "inf")),
        *(("(None,2)", [None, 2]), ("same", "same"), ("%a", "%a"), ("1.0e+00+2.0e+00j", "1.0e+00+2.0e+00j")),
        *(("3x", "3x"), ("1e999", float("inf")), ("bij,bjk->bik", "bij,bjk->bik")),
    ],
)  # fmt: skip
def test_values(text: str, value: object) -> None:
    assert parse_param_value(text) == value


@pytest.mark.parametrize("value", [0.0, 1.0, 0.1, 1e-5, 1e6, 123456.0, 1 / 3, -2.5e30, 16777217.0])
def test_floats_keep_their_f32_value_and_a_dot(value: float) -> None:
    text = print_param_value(value)
    back = parse_param_value(text)
    assert back == float(np.float32(value)) and isinstance(back, float)


def test_keys_that_share_an_operand_take_it_in_order(tmp_path: Path) -> None:
    x = np.array([[1, 2], [3, 4]], np.float32)
    lines = [
        "pnnx.Input in 0 1 x #x=(2,2)f32",
        "torch.mm m 2 1 x x y $mat2=x $input=x",
        "pnnx.Output out 1 0 y",
    ]
    np.testing.assert_array_equal(load(write_model(tmp_path, lines)).evaluate([x])[0], x @ x)


@pytest.mark.parametrize("key", ["", "$mask=x", "$self=x", "$input=x"])
def test_keys_that_are_no_arguments_are_notes(key: str, tmp_path: Path) -> None:
    """pnnx's own passes keep the key that an operand had in another operator, or write none."""
    x = np.arange(10, dtype=np.float32).reshape(2, 1, 5)
    lines = [
        "pnnx.Input in 0 1 x #x=(2,1,5)f32",
        f"Tensor.expand e 1 1 x y sizes=(2,3,5) {key} #x=(2,1,5)f32",
        "Tensor.reshape r 1 1 y z shape=(6,5)",
        "pnnx.Output out 1 0 z",
    ]
    (found,) = load(write_model(tmp_path, lines)).evaluate([x])
    np.testing.assert_array_equal(found, np.repeat(x, 3, 1).reshape(6, 5))


def test_a_key_beside_those_of_arguments_is_not_taken_for_one(tmp_path: Path) -> None:
    x = np.ones((2, 2), np.float32)
    with pytest.raises(graphc.UnsupportedError, match=r"not supported: \$other"):
        run_operator(tmp_path, "torch.mm $input=a $mat2=b $other=c", [x, x, x])


def test_a_parameter_in_the_first_position_leaves_the_next_to_the_input(tmp_path: Path) -> None:
    condition, y = np.array([True, False]), np.array([1, 2], np.float32)
    (result,) = run_operator(tmp_path, "torch.where input=0.0", [condition, y])
    np.testing.assert_array_equal(result, [0, 2])


def test_half_weights_stay_half_and_are_converted_where_they_are_used(tmp_path: Path) -> None:
    x = np.ones((2, 3), np.float32)
    arrays = {"weight": np.ones((4, 3), np.float16)}
    graph = load_operator(tmp_path, "nn.Linear bias=False", [x], arrays)
    kinds = [(op.op_name, str(op.outputs[0].details)) for op in graph.ops if op.outputs]
    assert kinds[1:] == [
        ("constant", "f16[4,3]"),
        ("cast", "f32[4,3]"),
        ("matmul_core", "f32[2,4]"),
    ]


def test_large_weights_are_mapped_and_not_read_into_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(weights, "MAPPED_BYTES", 16)
    weight = np.arange(12, dtype=np.float32).reshape(4, 3)
    graph = load_operator(
        tmp_path, "nn.Linear bias=False", [np.ones((2, 3), np.float32)], {"weight": weight}
    )
    (value,) = (op.attrs["value"] for op in graph.ops if op.op_name == "constant")
    base = value
    while isinstance(base.base, np.ndarray):
        base = base.base
    assert isinstance(base, np.memmap)
    np.testing.assert_array_equal(value, weight)


def test_archives_with_64_bit_records(tmp_path: Path) -> None:
    """The tool's newer writer uses them for small files too."""
    lines = ["pnnx.Attribute w 0 1 y @data=(3)i64", "pnnx.Output out 1 0 y"]
    path = write_model(tmp_path, lines)
    with (
        zipfile.ZipFile(path.with_suffix(".bin"), "w") as archive,
        archive.open("w.data", "w", force_zip64=True) as entry,
    ):
        entry.write(np.array([1, 2, 3]).tobytes())
    np.testing.assert_array_equal(load(path).evaluate([])[0], [1, 2, 3])


def test_any_byte_but_0_is_true(tmp_path: Path) -> None:
    lines = ["pnnx.Attribute w 0 1 y @data=(3)bool", "pnnx.Output out 1 0 y"]
    path = write_model(tmp_path, lines, {"w.data": np.array([0, 2, 255], np.uint8)})
    np.testing.assert_array_equal(load(path).evaluate([])[0], [False, True, True])
