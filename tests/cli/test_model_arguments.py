"""Arguments that commands share, and the inputs they make up."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pytest

from graphc.base.dtypes import ALL, BF16, F32, DType
from graphc.base.errors import UserError
from graphc.cli.model_arguments import (
    add_compile_arguments,
    add_output_arguments,
    check_names,
    compile_options,
    input_arrays,
    model_texts,
    random_array,
    shapes_of_files,
    split_inputs,
)
from graphc.runtime.metadata import TensorSpec


def parse(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_compile_arguments(parser)
    add_output_arguments(parser)
    return parser.parse_args(["m.onnx", *words])


def test_defaults() -> None:
    args = parse()
    assert (args.model, args.input, args.target, args.threads) == ("m.onnx", [], "native", None)
    assert (args.switches, args.json, args.verbose, args.quiet) == ([], False, False, False)


@pytest.mark.parametrize(
    "words", [["-q", "-v"], ["--target", "sse"], ["--threads", "two"], ["--input"]]
)
def test_refused_by_the_parser(words: list[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        parse(*words)
    assert stop.value.code == 2


def test_options() -> None:
    options = compile_options(parse("--threads", "3", "-X", "no-fuse", "-X", "no-fold"), "dump")
    assert (options.threads, options.disabled) == (3, {"fuse", "fold"})
    assert options.dump_dir == Path("dump")
    assert compile_options(parse()).dump_dir is None


@pytest.mark.parametrize(
    ("words", "disabled", "winograd"),
    [
        ([], set(), "auto"),
        (["--exact"], {"winograd"}, "auto"),
        (["-X", "winograd=off"], {"winograd", "byte-winograd"}, "auto"),
        (["-X", "winograd=f4"], set(), "f4"),
        (["-X", "winograd=f2", "--exact"], {"winograd"}, "f2"),
    ],
)
def test_winograd(words: list[str], disabled: set[str], winograd: str) -> None:
    options = compile_options(parse(*words))
    assert (options.disabled, options.winograd) == (disabled, winograd)


def test_layouts_on_request() -> None:
    assert compile_options(parse("-X", "layout=blocked")).layout == "blocked"
    with pytest.raises(UserError, match="-X layout must be one of auto, blocked, got 'x'"):
        compile_options(parse("-X", "layout=x"))


def test_an_unknown_form_of_winograd() -> None:
    with pytest.raises(UserError) as error:
        compile_options(parse("-X", "winograd=f6"))
    assert str(error.value) == "-X winograd must be one of off, auto, f2, f4, got 'f6'"


def test_inputs_are_shapes_or_values() -> None:
    texts = ["x=f32[8,13]", "y=@a=b.npy", "z=random"]
    assert split_inputs(texts) == ({"x": "f32[8,13]"}, {"y": "@a=b.npy", "z": "random"})
    assert split_inputs([]) == ({}, {})


@pytest.mark.parametrize("text", ["", "x", "x=", "=random", "="])
def test_refused_inputs(text: str) -> None:
    with pytest.raises(UserError) as error:
        split_inputs([text])
    assert str(error.value) == (
        f"--input must be NAME=VALUE, got '{text}'; write x=@x.npy, x=random or x=f32[8,13]"
    )


def test_a_file_says_its_shape(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((2, 0), np.int8))
    values = {"x": f"@{tmp_path / 'x.npy'}", "y": "random"}
    assert shapes_of_files(values) == {"x": "s8[2,0]"}


def test_a_file_of_objects_is_not_loaded(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    np.save(path, np.array([{}], object), allow_pickle=True)
    with pytest.raises(UserError) as error:
        shapes_of_files({"x": f"@{path}"})
    assert (
        str(error.value)
        == f"input 'x': '{path}' is not a .npy file of numbers; write one with numpy.save"
    )


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_random_arrays_depend_on_the_name_only(dtype: DType) -> None:
    one, other = TensorSpec("one", dtype, (20, 20)), TensorSpec("other", dtype, (20, 20))
    array = random_array(one)
    assert array.dtype == dtype.numpy and array.shape == (20, 20)
    np.testing.assert_array_equal(array, random_array(one))
    assert not np.array_equal(array, random_array(other))
    wide = array.astype(np.float64)
    assert np.isfinite(wide).all() and len(np.unique(wide)) > 1
    assert (wide.min() < 0) == dtype.is_signed


def test_arrays_for_a_model(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.ones(3, np.float32))
    tensors = [TensorSpec("x", F32, (3,)), TensorSpec("y", BF16, (2,)), TensorSpec("z", F32, ())]
    arrays = input_arrays(tensors, {"x": f"@{tmp_path / 'x.npy'}", "y": "random"})
    assert list(arrays) == ["x", "y", "z"]
    assert arrays["x"].tolist() == [1, 1, 1]
    assert arrays["y"].dtype == BF16.numpy and arrays["z"].shape == ()


def test_names_must_be_inputs() -> None:
    check_names(["x"], {"x": "random"})
    for names, known in ((["x", "y"], "x, y"), ([], "none")):
        with pytest.raises(UserError) as error:
            check_names(names, {"w": "random"})
        assert str(error.value) == (
            f"--input names 'w', which is not an input of the model; its inputs are {known}"
        )


def test_constants_and_attributes_of_the_command_line(tmp_path: Path) -> None:
    np.save(tmp_path / "c.npy", np.arange(3, dtype=np.float32))
    args = argparse.Namespace(
        input=["x=f32[2]"], const=[f"w=@{tmp_path / 'c.npy'}"], attr=["fc.axis=1"]
    )
    texts = model_texts(args)
    assert texts.inputs == {"x": "f32[2]"} and texts.attrs == {"fc.axis": "1"}
    assert texts.constants["w"].tolist() == [0, 1, 2]


def test_attributes_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "attrs.txt"
    file.write_text("# a network\n\nconv1.strides=2\n*.padding=1\n")
    given = argparse.Namespace(input=[], const=[], attr=[f"@{file}", "fc.axis=1"])
    assert model_texts(given).attrs == {"conv1.strides": "2", "*.padding": "1", "fc.axis": "1"}
    with pytest.raises(UserError, match="--attr: cannot read"):
        model_texts(argparse.Namespace(input=[], const=[], attr=[f"@{tmp_path}"]))


@pytest.mark.parametrize(
    ("const", "attr", "message"),
    [
        (["w"], [], "--const must be NAME=@file.npy, got 'w'"),
        (["w=3"], [], "--const must be NAME=@file.npy, got 'w=3'"),
        ([], ["axis"], "--attr must be NODE.KEY=VALUE, got 'axis'"),
    ],
)
def test_malformed_constants_and_attributes(
    const: list[str], attr: list[str], message: str
) -> None:
    with pytest.raises(UserError) as caught:
        model_texts(argparse.Namespace(input=[], const=const, attr=attr))
    assert str(caught.value) == message
