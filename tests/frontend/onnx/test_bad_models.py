"""Every model that is refused, with the whole message."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper

from graphc.base.errors import GraphcError, UnsupportedError, UserError
from graphc.frontend import load
from support.onnx_models import model, node

X = {"x": [2, 3]}


def message(error: type[GraphcError], source: object, inputs: dict[str, str] | None = None) -> str:
    """The text of the error that loading must raise, whose blame is that of this class."""
    with pytest.raises(error) as caught:
        load(source, inputs)  # type: ignore[arg-type]
    assert caught.value.exit_code == error.exit_code
    assert "\n" not in str(caught.value)
    return str(caught.value)


def relu() -> bytes:
    return bytes(model([node("Relu", "x")], X).SerializeToString())


def test_files(tmp_path: Path) -> None:
    missing, empty, garbage, cut = (
        tmp_path / f"{n}.onnx" for n in ("missing", "empty", "garbage", "cut")
    )
    empty.touch()
    garbage.write_bytes(b"\x08\xff not a model " * 20)
    cut.write_bytes(relu()[:-10])
    assert (
        message(UserError, missing)
        == f"there is no file '{missing}'; check its name and its folder"
    )
    assert message(UserError, tmp_path) == (
        f"cannot read '{tmp_path}' (Is a directory); give a file in it"
    )
    assert message(UserError, empty) == (
        f"a model file must not be empty, but '{empty}' has no bytes"
    )
    for path in (garbage, cut):
        assert message(UserError, path) == (
            f"the {path.stat().st_size} bytes of '{path}' cannot be decoded as an ONNX model: "
            "they are of another format, or truncated; copy the file again"
        )
    assert message(UserError, b"") == "an ONNX model must not be empty, got 0 bytes of model"
    assert message(UserError, "a\0b") == (
        r"cannot read 'a\x00b' (embedded null byte); give another path"
    )


def test_every_truncation_is_refused() -> None:
    data = relu()
    for length in range(len(data)):
        with pytest.raises(GraphcError):
            load(data[:length])


def test_every_flipped_byte_is_refused_or_read() -> None:
    data = relu()
    for position in range(len(data)):
        for mask in (0x01, 0x80, 0xFF):
            corrupt = bytearray(data)
            corrupt[position] ^= mask
            try:
                load(bytes(corrupt))
            except GraphcError as error:
                assert type(error) in (UserError, UnsupportedError)


def test_a_message_of_another_kind() -> None:
    tensor = helper.make_tensor("t", TensorProto.FLOAT, [1], [1.0]).SerializeToString()
    text = message(UserError, tensor)
    assert text.endswith(
        " of model cannot be decoded as an ONNX model: they are of another format, or truncated; copy the file again"
    )


def cyclic() -> ModelProto:
    return model(
        [node("Add", "x b", "a", name="n1"), node("Relu", "a", "b", name="n2"), node("Relu", "x")],
        X,
    )


def two_producers() -> ModelProto:
    return model([node("Relu", "x", name="n1"), node("Abs", "x", name="n2")], X)


def negative_dimension() -> ModelProto:
    return model([node("Relu", "x")], {"x": [2, -3]})


def huge_weight() -> ModelProto:
    proto = model([node("Add", "x w")], X)
    proto.graph.initializer.add(name="w", data_type=1, dims=[1 << 40, 1 << 40], raw_data=b"1234")
    return proto


def short_weight() -> ModelProto:
    proto = model([node("Add", "x w")], X)
    proto.graph.initializer.add(name="w", data_type=1, dims=[2, 3], raw_data=b"1234")
    return proto


def no_outputs() -> ModelProto:
    return model([node("Relu", "x")], X, outputs=())


def recursive() -> ModelProto:
    call = helper.make_node("F", ["x"], ["y"], domain="local")
    body = helper.make_function(
        "local", "F", ["x"], ["y"], [call], [helper.make_opsetid("local", 1)]
    )
    proto = model([call], X, domains=("local",))
    proto.functions.append(body)
    return proto


def sparse() -> ModelProto:
    proto = model([node("Add", "x w")], X)
    proto.graph.sparse_initializer.add().values.name = "w"
    return proto


USER: dict[str, tuple[Callable[[], ModelProto], str]] = {
    "cycle": (
        cyclic,
        "model: a graph must be acyclic, but nodes 'n2', 'n1' depend on each other",
    ),
    "two producers": (
        two_producers,
        "model: a value must have one producer, but 'y' is written by both Relu 'n1' and Abs 'n2'",
    ),
    "an input written": (
        lambda: model([node("Relu", "y", "x", name="n")], X),
        "model: a value must have one producer, but 'x' is an input or initializer "
        "and also written by Relu 'n'",
    ),
    "no producer": (
        lambda: model([node("Add", "x q", "a"), node("Relu", "r", "b", name="n")], X),
        "model: every value must have a producer, but there is none for 'q' (read by Add 'a'), "
        "'r' (read by Relu 'n'), 'y' (a graph output)",
    ),
    "negative dimension": (
        negative_dimension,
        "model: input 'x': dimensions must not be negative, got f32[2,-3]",
    ),
    "huge input": (
        lambda: model([node("Relu", "x")], {"x": [1 << 40, 1 << 40]}),
        "model: input 'x': a tensor must not exceed 1 TiB, got f32[1099511627776,1099511627776]",
    ),
    "huge weight": (
        huge_weight,
        "initializer 'w': a tensor must not exceed 1 TiB, got f32[1099511627776,1099511627776]",
    ),
    "short weight": (short_weight, "initializer 'w': f32[2,3] takes 24 bytes, got 4"),
    "huge result": (
        lambda: model([node("Expand", "x s")], X, {"s": np.array([1 << 40, 1, 1])}),
        "Expand 'y': a tensor must not exceed 1 TiB, got f32[1099511627776,2,3]",
    ),
    "no outputs": (no_outputs, "model: a graph must have outputs, but 'test' has none"),
    "recursive function": (
        recursive,
        "model: its functions cannot be expanded: a function must not call itself, but local.F does; "
        "export it without functions",
    ),
    "shapes that do not fit": (
        lambda: model([node("MatMul", "x w", name="fc1")], X, {"w": np.zeros((4, 3), np.float32)}),
        "matmul_core 'fc1': inner sizes must match, got K=3 and K=4; transpose B?",
    ),
    "no names": (
        lambda: model([node("Add", "x w")], X, {"w": np.zeros(4, np.float32)}),
        "add 'y': input shapes must broadcast, got [2, 3] and [4]",
    ),
    "a missing input": (
        lambda: model([node("Add", "x", name="n")], X),
        "Add 'n': input 1 must be given, got 1 inputs",
    ),
    "an attribute of the wrong kind": (
        lambda: model([node("Softmax", "x", axis="last", name="n")], X),
        "Softmax 'n': attribute 'axis' must be of kind INT, got STRING",
    ),
    "a missing attribute": (
        lambda: model([node("Concat", "x x", name="n")], X),
        "Concat 'n': attribute 'axis' must be given, got only []",
    ),
    "reshape": (
        lambda: model([node("Reshape", "x s", name="n")], X, {"s": np.array([4, -1])}),
        "Reshape 'n': the other sizes must divide the number of elements, got [2, 3] to [4, -1]",
    ),
    "index": (
        lambda: model([node("Gather", "x i", name="n")], X, {"i": np.array([0, 2])}),
        "Gather 'n': indices must be in [-2, 2), got 0..2",
    ),
    "axis": (
        lambda: model([node("Softmax", "x", axis=2, name="n")], X),
        "Softmax 'n': axis must be in [-2, 2), got 2",
    ),
}

UNSUPPORTED: dict[str, tuple[Callable[[], ModelProto], str]] = {
    "ops, all at once": (
        lambda: model(
            [
                node("ImageDecoder", "x x", "a"),
                node("ImageDecoder", "a x", "b"),
                node("NoSuchOp", "b", "c"),
                node("BeamSearch", "c", "d", domain="com.microsoft"),
                node("StringConcat", "d d", "y"),
            ],
            X,
        ),
        "model: these ops are not supported: ImageDecoder (2x), NoSuchOp (1x), StringConcat (1x), "
        "com.microsoft.BeamSearch (1x); "
        "use others (docs/reference/operators.md lists those that are read) or define them (`graphc.ops.define`)",
    ),
    "old opset": (
        lambda: model([node("Relu", "x")], X, opset=5),
        f"model: opsets 6 to {onnx.defs.onnx_opset_version()} are supported, it uses 5; "
        "export it with one of them, or convert it (`onnx.version_converter`)",
    ),
    "training in opset 6": (
        lambda: model([node("Dropout", "x", name="n")], X, opset=6),
        "Dropout 'n': training mode is not supported; export the model for inference (`model.eval()`)",
    ),
    "an attribute of opset 6": (
        lambda: model([node("Upsample", "x", name="n", width_scale=2.0)], X, opset=6),
        "Upsample 'n': attribute 'width_scale' of opset 6 is not supported; export it with a later opset",
    ),
    "newer opset": (
        lambda: model([node("Relu", "x")], X, opset=99),
        f"model: opsets 6 to {onnx.defs.onnx_opset_version()} are supported, it uses 99; "
        "export it with one of them, or convert it (`onnx.version_converter`)",
    ),
    "strings": (
        lambda: model([node("Identity", "x")], X, dtypes={"x": TensorProto.STRING}),
        "model: input 'x': element type STRING is not supported; convert the model to another type, such as float32",
    ),
    "sparse": (
        sparse,
        "model: sparse initializers are not supported, it has 'w'; store them dense",
    ),
    "a shape that depends on inputs": (
        lambda: model(
            [node("Reshape", "x s", name="n")], X | {"s": [2]}, dtypes={"s": TensorProto.INT64}
        ),
        "Reshape 'n': shape ('s') that depends on the model's inputs is not supported; fix the input's value: "
        "--constant s=@value.npy",
    ),
    "a huge constant": (
        lambda: model([node("Trilu", "x", name="n")], {"x": [1 << 20, 1 << 10]}),
        "Trilu 'n': a computed constant of more than 134217728 elements ([1048576, 1024]) "
        "is not supported; export the model without it",
    ),
    "training": (
        lambda: model([node("Dropout", "x - t", name="n")], X, {"t": np.array(True)}),
        "Dropout 'n': training mode is not supported; export the model for inference (`model.eval()`)",
    ),
}


@pytest.mark.parametrize("name", USER)
def test_wrong(name: str) -> None:
    make, text = USER[name]
    assert message(UserError, make()) == text


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_unsupported(name: str) -> None:
    make, text = UNSUPPORTED[name]
    assert message(UnsupportedError, make()) == text


def test_operands_of_types_that_onnx_does_not_mix() -> None:
    proto = model(
        [node("Add", "x b", name="n")], X | {"b": [3]}, dtypes={"x": TensorProto.BFLOAT16}
    )
    assert message(UserError, proto) == (
        "Add 'n': ONNX demands one type of these operands, got 'x' bf16 and 'b' f32: the file is not valid ONNX, and "
        "what exported it is to blame; export it anew in one type, or insert a Cast"
    )


def test_unsupported_ops_that_no_output_needs_do_not_matter() -> None:
    load(model([node("Det", "x x", "unused"), node("Relu", "x")], X))


def test_names_that_are_no_text() -> None:
    corrupt = relu().replace(b"Relu", b"Re\xff\xfe")
    assert message(UserError, corrupt) == (
        "model is corrupt: every name must be UTF-8 text, got b'Re\\xff\\xfe'"
    )


def test_no_operator_set_is_named() -> None:
    proto = model([node("Relu", "x")], X)
    del proto.opset_import[:]
    assert message(UserError, proto) == (
        "model must import the default operator set, but names no version of it"
    )


def test_a_long_chain_is_no_recursion() -> None:
    names = ["x", *(f"v{i}" for i in range(5000)), "y"]
    chain = [node("Relu", a, b) for a, b in zip(names, names[1:], strict=False)]
    assert len(load(model(chain[::-1], X)).ops) == len(chain) + 2
