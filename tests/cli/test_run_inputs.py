"""The arrays that commands run models on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from graphc.base.dims import Symbol, size
from graphc.base.dtypes import ALL, BF16, F32, DType
from graphc.base.errors import UserError
from graphc.cli.run_inputs import (
    check_names,
    input_arrays,
    known_sizes,
    random_array,
    shapes_of_files,
    split_inputs,
)
from graphc.runtime.metadata import TensorSpec


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


def test_dynamic_dimensions_get_small_sizes_which_are_printed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    batch, length, height, past = (size(Symbol(name)) for name in ("batch", "length", "H", "past"))
    tensors = [
        TensorSpec("ids", F32, (batch, length)),
        TensorSpec("image", F32, (batch, 3, height, height)),
        TensorSpec("mask", F32, (batch, length + past)),
        TensorSpec("table", F32, (size(Symbol("rows", 5, 9)), 4)),
    ]
    found = known_sizes(tensors, {}, {"past": 3})
    assert found == {"batch": 2, "length": 16, "H": 64, "past": 3, "rows": 5}
    text = "H=64,batch=2,length=16,rows=5"
    said = capsys.readouterr().err
    assert said.startswith("graphc: runs at ") and said.endswith(" sets them\n")
    assert sorted(said.split()[3].rstrip(";").split(",")) == text.split(",")
    assert input_arrays(tensors, {}, found)["mask"].shape == (2, 19)
    assert not capsys.readouterr().err


def test_names_must_be_inputs() -> None:
    check_names(["x"], {"x": "random"})
    for names, known in ((["x", "y"], "x, y"), ([], "none")):
        with pytest.raises(UserError) as error:
            check_names(names, {"w": "random"})
        assert str(error.value) == (
            f"--input names 'w', which is not an input of the model; its inputs are {known}"
        )
