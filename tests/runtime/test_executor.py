"""Calling compiled models: every accepted form of input, every refused one with its sentence, many threads."""

from __future__ import annotations

import gc
import threading
import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from graphc.base import dtypes
from graphc.base.dtypes import BF16, F16, F32, F64, S64, DType
from graphc.base.errors import InternalError, UserError
from graphc.runtime.artifact import Artifact
from graphc.runtime.executor import CompiledModel
from graphc.runtime.metadata import TensorSpec
from graphc.tools.fuzz.guarded import guarded_copy
from support.native import add_artifact, compile_ir, copy_artifact, signature_ir


@pytest.fixture
def model() -> CompiledModel:
    return CompiledModel(add_artifact())


@pytest.fixture
def x(rng: np.random.Generator) -> np.ndarray:
    return rng.integers(-8, 8, (8, 13)).astype(np.float32)


def refused(function: Any, *args: Any, **named: Any) -> str:
    with pytest.raises(UserError) as caught:
        function(*args, **named)
    return str(caught.value)


def test_positions_and_names(model: CompiledModel, x: np.ndarray) -> None:
    expected = (x + 1) * 2
    one = np.ones_like(x)
    for y in (model(x, one), model(x, b=one), model(a=x, b=one), model(b=one, a=x)):
        assert type(y) is np.ndarray
        assert y.dtype == np.float32
        assert np.array_equal(y, expected)


def test_run_is_onnx_runtimes_signature(model: CompiledModel, x: np.ndarray) -> None:
    for names in (None, ["y"], ("y",)):
        results = model.run(names, {"b": x, "a": x})
        assert type(results) is list
        assert len(results) == 1
        assert np.array_equal(results[0], 4 * x)
    assert model.run([], {"a": x, "b": x}) == []


def test_several_outputs() -> None:
    model = CompiledModel(copy_artifact(TensorSpec("x", F32, (3,)), TensorSpec("n", S64, ())))
    x, n = np.arange(3, dtype=np.float32), np.array(7)
    results = model(x, n)
    assert type(results) is tuple
    assert np.array_equal(results[0], x)
    assert results[1].shape == () and results[1] == 7
    swapped = model.run(["n_out", "x_out"], {"x": x, "n": n})
    assert [r.shape for r in swapped] == [(), (3,)]
    sentence = "model 'copy' has the outputs x_out, n_out; unknown 'y', 'z'"
    assert refused(model.run, ["x_out", "y", "z"], {"x": x, "n": n}) == sentence
    assert refused(model.run, 5, {"x": x, "n": n}).endswith("a sequence of names, got int")


def test_results_are_fresh_arrays(model: CompiledModel, x: np.ndarray) -> None:
    first = model(x, x)
    second = model(x + 1, x)
    assert not np.may_share_memory(first, second)
    assert np.array_equal(first, 4 * x)


@pytest.mark.exhaustive
@pytest.mark.parametrize("dtype", dtypes.ALL, ids=repr)
@pytest.mark.parametrize("shape", [(), (0,), (1,), (17,), (3, 0, 2), (5, 7), (100, 101)], ids=str)
def test_every_dtype_and_shape(dtype: DType, shape: tuple[int, ...]) -> None:
    model = CompiledModel(copy_artifact(TensorSpec("x", dtype, shape)))
    size = int(np.prod(shape))
    value = (1 + np.arange(size) % 2).reshape(shape).astype(dtype.numpy)
    result = model(value)
    assert result.dtype == dtype.numpy
    assert np.array_equal(result, value)
    assert np.array_equal(model(guarded_copy(value)), value)


class Subclass(np.ndarray):
    """An array class of another library."""


class Wrapped:
    """Something that is not an array but can become one."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return self.array


def layouts(x: np.ndarray) -> dict[str, Any]:
    """The same values in every way memory may hold them."""
    misaligned = np.frombuffer(b"\0" + x.tobytes(), np.uint8)[1:].view(x.dtype).reshape(x.shape)
    wide = np.zeros((x.shape[0] * 2, x.shape[1] * 3), x.dtype)
    wide[::2, ::3] = x
    read_only = x.copy()
    read_only.flags.writeable = False
    return {
        "fortran": np.asfortranarray(x),
        "strided": wide[::2, ::3],
        "reversed": x[::-1, ::-1].copy()[::-1, ::-1],
        "misaligned": misaligned,
        "byte-swapped": x.astype(x.dtype.newbyteorder()),
        "read-only": read_only,
        "broadcast": np.broadcast_to(x, (2, *x.shape))[1],
        "subclass": x.view(Subclass),
        "wrapped": Wrapped(x),
        "wrapped-fortran": Wrapped(np.asfortranarray(x)),
    }


@pytest.mark.parametrize("layout", list(layouts(np.ones((2, 2), np.float32))))
def test_any_memory_layout_is_accepted(model: CompiledModel, x: np.ndarray, layout: str) -> None:
    values = layouts(x)[layout]
    y = model(values, x)
    assert type(y) is np.ndarray
    assert np.array_equal(y, 4 * x)
    assert np.array_equal(model(values, values), 4 * x)


def test_scalars_of_numpy_are_accepted() -> None:
    model = CompiledModel(copy_artifact(TensorSpec("x", F64, ())))
    assert model(np.float64(3.5)) == 3.5


def test_memory_mapped_inputs(model: CompiledModel, x: np.ndarray, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", x)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    assert np.array_equal(model(mapped, x), 4 * x)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            np.zeros((8, 13)),
            "input 'a' must be f32[8,13], got f64[8,13]; convert with a.astype('float32')",
        ),
        (
            np.zeros((8, 13), ml_dtypes.bfloat16),
            "input 'a' must be f32[8,13], got bf16[8,13]; convert with a.astype('float32')",
        ),
        (
            np.zeros((8, 13), complex),
            "input 'a' must be f32[8,13], got complex128[8,13]; convert with a.astype('float32')",
        ),
        (
            np.zeros((13, 8), np.float32),
            "input 'a' must be f32[8,13], got f32[13,8]; "
            "if the order of the values is right, use a.reshape((8, 13))",
        ),
        (
            np.zeros(104, np.float32),
            "input 'a' must be f32[8,13], got f32[104]; "
            "if the order of the values is right, use a.reshape((8, 13))",
        ),
        (
            np.zeros((8, 14), np.float32),
            "input 'a' must be f32[8,13], got f32[8,14]; shapes are fixed when a model is compiled",
        ),
        (
            np.float32(1),
            "input 'a' must be f32[8,13], got f32[]; shapes are fixed when a model is compiled",
        ),
        ([[1.0]], "input 'a' must be an array f32[8,13], got list; use np.array(..., 'float32')"),
        (1.5, "input 'a' must be an array f32[8,13], got float; use np.array(..., 'float32')"),
        (None, "input 'a' must be an array f32[8,13], got NoneType; use np.array(..., 'float32')"),
    ],
)
def test_wrong_values(model: CompiledModel, x: np.ndarray, value: Any, message: str) -> None:
    assert refused(model, value, x) == message
    assert refused(model, b=x, a=value) == message
    assert refused(model.run, None, {"a": value, "b": x}) == message
    assert np.array_equal(model(x, x), 4 * x)


def test_names_that_are_no_python_names() -> None:
    model = CompiledModel(copy_artifact(TensorSpec("x.1", BF16, (2,)), TensorSpec("self", F32, ())))
    x, s = np.ones(2, ml_dtypes.bfloat16), np.float32(2)
    assert np.array_equal(model(**{"x.1": x, "self": s})[0], x)
    assert refused(model, np.ones(2), s) == (
        "input 'x.1' must be bf16[2], got f64[2]; convert with array.astype(ml_dtypes.bfloat16)"
    )


def test_missing_and_unknown_inputs_are_listed_at_once(model: CompiledModel, x: np.ndarray) -> None:
    takes = "model 'add' takes inputs a f32[8,13], b f32[8,13]"
    assert refused(model) == f"{takes}; missing 'a', 'b'"
    assert refused(model, x) == f"{takes}; missing 'b'"
    assert refused(model, x, c=x) == f"{takes}; missing 'b'; unknown 'c'"
    assert refused(model, c=x, d=x) == f"{takes}; missing 'a', 'b'; unknown 'c', 'd'"
    assert refused(model, a=x, b=x, c=x) == f"{takes}; unknown 'c'"
    assert refused(model, x, x, x) == f"{takes}, got 3 positional arguments"
    given_twice = "model 'add': input 'a' must be given once, got it by position and by name"
    assert refused(model, x, a=x) == given_twice
    assert refused(model.run, None, {"a": x}) == f"{takes}; missing 'b'"


def test_a_model_without_inputs() -> None:
    model = CompiledModel(copy_artifact())
    assert model() == ()
    assert refused(model, 1) == "model 'copy' takes no inputs, got 1 positional arguments"


def test_bound_calls_use_the_buffers_in_place(model: CompiledModel, x: np.ndarray) -> None:
    y = np.empty_like(x)
    call = model.bind({"a": x, "b": x}, [y])
    call()
    assert np.array_equal(y, 4 * x)
    x += 3
    call()
    assert np.array_equal(y, 4 * x)


def test_bound_calls_keep_what_they_need(model: CompiledModel, x: np.ndarray) -> None:
    y = np.empty_like(x)
    call = model.bind({"a": x.copy(), "b": x.copy()}, [y])
    model.close()
    del model
    gc.collect()
    np.full((1000, 1000), 7.0)  # would overwrite what was freed
    call()
    assert np.array_equal(y, 4 * x)


@pytest.mark.parametrize("layout", ["fortran", "strided", "misaligned", "byte-swapped", "wrapped"])
def test_bound_inputs_must_be_usable_in_place(
    model: CompiledModel, x: np.ndarray, layout: str
) -> None:
    problems = {
        "fortran": "is not C-contiguous",
        "strided": "is not C-contiguous",
        "misaligned": "is misaligned",
        "byte-swapped": "is byte-swapped",
    }
    message = refused(model.bind, {"a": layouts(x)[layout], "b": x}, [np.empty_like(x)])
    if layout == "wrapped":
        assert message == (
            "input 'a' must be an array f32[8,13], got Wrapped; use np.array(..., 'float32')"
        )
    else:
        assert message == (
            f"input 'a' {problems[layout]}, a bound buffer must be used in place; "
            "bind a fresh np.empty((8, 13), 'float32')"
        )


def test_bound_outputs_are_checked(model: CompiledModel, x: np.ndarray) -> None:
    inputs = {"a": x, "b": x}
    read_only = x.copy()
    read_only.flags.writeable = False
    assert refused(model.bind, inputs, [read_only]) == (
        "output 'y' is read-only, a bound buffer must be used in place; "
        "bind a fresh np.empty((8, 13), 'float32')"
    )
    assert refused(model.bind, inputs, [np.empty((8, 13))]) == (
        "output 'y' must be f32[8,13], got f64[8,13]; convert with y.astype('float32')"
    )
    assert refused(model.bind, inputs, []) == "model 'add' must be given 1 output buffers, got 0"
    assert refused(model.bind, inputs, [x]) == (
        "output 'y' shares memory with another bound buffer; bind separate arrays"
    )
    assert refused(model.bind, {"a": x}, [x]) == (
        "model 'add' takes inputs a f32[8,13], b f32[8,13]; missing 'b'"
    )


def test_two_bound_outputs_must_be_apart() -> None:
    specs = (TensorSpec("x", F32, (4,)), TensorSpec("z", F32, (4,)))
    model = CompiledModel(copy_artifact(*specs))
    x, y = np.arange(4, dtype=np.float32), np.empty(6, np.float32)
    assert refused(model.bind, {"x": x, "z": x}, [y[:4], y[2:]]) == (
        "output 'z_out' shares memory with another bound buffer; bind separate arrays"
    )


def test_guarded_bound_buffers(model: CompiledModel, x: np.ndarray) -> None:
    for at in ("start", "end"):
        a, b, y = (guarded_copy(x, at) for _ in range(3))
        model.bind({"a": a, "b": b}, [y])()
        assert np.array_equal(y, 4 * x)


def test_what_a_model_tells(model: CompiledModel) -> None:
    assert repr(model.inputs) == "(a: f32[8,13], b: f32[8,13])"
    assert repr(model.outputs) == "(y: f32[8,13],)"
    spec = model.inputs[0]
    assert (spec.name, spec.dtype, spec.shape, spec.nbytes) == ("a", F32, (8, 13), 416)
    assert model.stats == {"ops": 2, "gflop": 0.5}
    assert model.threads == 1
    assert repr(model) == (
        "<CompiledModel 'add' (a: f32[8,13], b: f32[8,13]) -> (y: f32[8,13]), generic>"
    )


def test_save_and_load(model: CompiledModel, x: np.ndarray, tmp_path: Path) -> None:
    model.save(tmp_path / "m.gcm")
    again = CompiledModel(Artifact.load(tmp_path / "m.gcm"), 2)
    assert np.array_equal(again(x, x), model(x, x))


def test_a_closed_model_says_so(model: CompiledModel, x: np.ndarray) -> None:
    message = "model 'add' is closed; compile or load it again"
    with model:
        model(x, x)
    model.close()
    assert refused(model, x, x) == message
    assert refused(model.run, None, {"a": x, "b": x}) == message
    assert refused(model.bind, {"a": x, "b": x}, [np.empty_like(x)]) == message
    assert repr(model).endswith("generic, closed>")


def test_closing_frees_the_code_at_once(model: CompiledModel, x: np.ndarray) -> None:
    assert model._native is not None
    code = weakref.ref(model._native.code)
    model(x, x)
    model.close()
    assert code() is None


def test_a_native_failure_is_ours() -> None:
    failing = (
        "define i32 @graphc_entry(ptr %a, ptr %b, ptr %c, ptr %d, ptr %e, ptr %f) {\n  ret i32 9\n}"
    )
    signed = failing + signature_ir(copy_artifact().metadata, 0)
    model = CompiledModel(replace(copy_artifact(), object_code=compile_ir(signed)))
    with pytest.raises(InternalError, match="^model 'copy': native code returned 9$"):
        model()


@pytest.mark.parametrize("threads", [1, 2])
def test_64_python_threads_on_one_model(threads: int) -> None:
    shape = (1009,)
    model = CompiledModel(add_artifact(shape), threads)
    wrong = []

    def use(seed: int) -> None:
        a = np.full(shape, seed, np.float32)
        y = np.empty_like(a)
        call = model.bind({"a": a, "b": a}, [y])
        for i in range(30):
            if not np.array_equal(model(a, a + i), (a + a + i) * 2):
                wrong.append((seed, i))
            call()
            if not np.array_equal(y, 4 * a):
                wrong.append((seed, -i))

    workers = [threading.Thread(target=use, args=(seed,)) for seed in range(64)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert wrong == []


def test_closing_while_other_threads_call() -> None:
    for _ in range(20):
        model = CompiledModel(add_artifact((1009,)), 2)
        x = np.ones(1009, np.float32)
        failures: list[str] = []

        def use(model: CompiledModel = model, x: np.ndarray = x, log: list = failures) -> None:
            try:
                while True:
                    assert model(x, x)[5] == 4
            except UserError as error:
                log.append(str(error))

        workers = [threading.Thread(target=use) for _ in range(4)]
        for worker in workers:
            worker.start()
        model.close()
        for worker in workers:
            worker.join()
        assert failures == ["model 'add' is closed; compile or load it again"] * 4


@pytest.mark.parametrize("inputs", [None, 3, "ab"])
def test_inputs_that_are_no_mapping(model: CompiledModel, inputs: Any) -> None:
    expected = (
        f"model 'add': inputs must be a mapping of names to arrays, got {type(inputs).__name__}; "
        "it takes inputs a f32[8,13], b f32[8,13]"
    )
    assert refused(model.run, None, inputs) == expected
    assert refused(model.bind, inputs, []) == expected
    assert refused(model.run, None, [np.zeros((8, 13), np.float32)]).endswith(
        "got list; it takes inputs a f32[8,13], b f32[8,13]"
    )


@pytest.mark.parametrize("outputs", [None, 3])
def test_outputs_that_are_no_sequence(model: CompiledModel, x: np.ndarray, outputs: Any) -> None:
    assert refused(model.bind, {"a": x, "b": x}, outputs) == (
        f"model 'add': outputs must be a sequence of arrays, got {type(outputs).__name__}"
    )


def test_results_do_not_depend_on_the_thread_count(x: np.ndarray) -> None:
    values = x * np.float32(0.1)
    reference = CompiledModel(add_artifact())(values, x)
    for threads in (2, 3, 7):
        assert np.array_equal(CompiledModel(add_artifact(), threads)(values, x), reference)


LIES = {
    "no outputs": {"outputs": ()},
    "no inputs": {"inputs": ()},
    "a small arena": {"arena_bytes": 0},
    "other inputs": {"inputs": (TensorSpec("a", F32, (1,)), TensorSpec("b", F32, (8, 13)))},
    "another type": {"outputs": (TensorSpec("y", F16, (8, 13)),)},
}


@pytest.mark.parametrize("changes", LIES.values(), ids=LIES)
def test_a_header_that_does_not_describe_the_code(tmp_path: Path, changes: dict[str, Any]) -> None:
    """The hashes are right, but the code would read and write outside of its arrays."""
    forged = replace(add_artifact(), metadata=replace(add_artifact().metadata, **changes))
    forged.save(tmp_path / "m.gcm")
    with pytest.raises(UserError, match=r"^m\.gcm: is corrupt or forged: its header describes '"):
        CompiledModel(Artifact.load(tmp_path / "m.gcm"))
    with pytest.raises(InternalError):  # never was a file
        CompiledModel(forged)


def test_constants_that_are_too_short_for_the_code(tmp_path: Path) -> None:
    replace(add_artifact(), constants=np.zeros(3, np.float32)).save(tmp_path / "m.gcm")
    with pytest.raises(UserError) as caught:
        CompiledModel(Artifact.load(tmp_path / "m.gcm"))
    types = "f32[104] f32[104] -> f32[104], constants"
    assert str(caught.value) == (
        f"m.gcm: is corrupt or forged: its header describes '{types} 12, arena 416', "
        f"its code is '{types} 64, arena 416'; compile the model again"
    )
