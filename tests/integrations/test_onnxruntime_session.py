"""Scripts for ONNX Runtime, run with it and with graphc: the same calls, the same results."""

from __future__ import annotations

import json
from pathlib import Path
from queue import Queue
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

from graphc import UserError
from graphc import onnxruntime as ours
from support.layers import layer, whole

ENGINES = {"ONNX Runtime": onnxruntime, "graphc": ours}
PROVIDERS = ["CUDAExecutionProvider", "CPUExecutionProvider"]


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> Any:
    return ENGINES[request.param]


def expected(x: np.ndarray, width: int = 33) -> np.ndarray:
    weights = (np.arange(32 * width) % 7 - 3).reshape(32, width)
    return np.maximum(x @ weights + np.arange(width) % 5, 0).astype(np.float32)


def session(engine: Any, model: onnx.ModelProto, **options: Any) -> Any:
    return engine.InferenceSession(model.SerializeToString(), **options)


def test_a_script_runs(engine: Any, tmp_path: Path) -> None:
    onnx.save(layer(), tmp_path / "m.onnx")
    options = engine.SessionOptions()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = engine.GraphOptimizationLevel.ORT_ENABLE_ALL
    made = engine.InferenceSession(str(tmp_path / "m.onnx"), options, providers=PROVIDERS[1:])
    (source,), (target,) = made.get_inputs(), made.get_outputs()
    assert (source.name, source.type, source.shape) == ("x", "tensor(float)", [4, 32])
    assert (target.name, target.type, target.shape) == ("y", "tensor(float)", [4, 33])
    assert (
        made.get_providers() == ["CPUExecutionProvider"]
        and made.get_modelmeta().graph_name == "layer"
    )
    x = whole(4, 32)
    for names in (None, [], ["y"]):
        (y,) = made.run(names, {"x": x})
        assert np.array_equal(y, expected(x))


def test_dynamic_dimensions(engine: Any) -> None:
    made = session(engine, layer("N"))
    assert made.get_inputs()[0].shape == ["N", 32]
    for rows in (1, 5):
        (y,) = made.run(None, {"x": whole(rows, 32)})
        assert np.array_equal(y, expected(whole(rows, 32)))


def test_dimensions_can_be_fixed(engine: Any) -> None:
    options = engine.SessionOptions()
    options.add_free_dimension_override_by_name("N", 3)
    made = session(engine, layer("N"), sess_options=options)
    assert made.get_inputs()[0].shape == [3, 32]
    assert made.run(["y"], {"x": whole(3, 32)})[0].shape == (3, 33)


def reshape() -> onnx.ModelProto:
    """A model whose output has the shape that an input holds."""
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Reshape", ["x", "s"], ["y"])], "g",
        [value("x", 1, ["N"]), value("s", 7, [2])], [value("y", 1, ["A", "B"])],
    )  # fmt: skip
    return onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", 21)], ir_version=10
    )


def test_inputs_that_decide_shapes(engine: Any) -> None:
    made = session(engine, reshape())
    for shape in ((2, 3), (6, 1)):
        (y,) = made.run(None, {"x": whole(6), "s": np.array(shape)})
        assert np.array_equal(y, whole(6).reshape(shape))


def test_outputs_are_written_to_bound_memory(engine: Any) -> None:
    made, x, y = session(engine, layer()), whole(4, 32), np.zeros((4, 33), np.float32)
    binding = made.io_binding()
    binding.bind_input("x", "cpu", 0, np.float32, x.shape, x.ctypes.data)
    binding.bind_output("y", "cpu", 0, np.float32, y.shape, y.ctypes.data)
    for step in range(2):
        x += step
        made.run_with_iobinding(binding)
        assert np.array_equal(y, expected(x))
    (value,) = binding.get_outputs()
    assert (
        value.shape() == [4, 33]
        and value.data_type() == "tensor(float)"
        and value.element_type() == 1
    )


def test_outputs_without_memory_are_new(engine: Any) -> None:
    made, x = session(engine, layer("N")), whole(2, 32)
    binding = made.io_binding()
    binding.bind_cpu_input("x", x)
    binding.bind_output("y")
    made.run_with_iobinding(binding)
    (y,) = binding.copy_outputs_to_cpu()
    assert np.array_equal(y, expected(x))
    binding.clear_binding_inputs()
    binding.clear_binding_outputs()
    binding.bind_output("y")
    binding.bind_ortvalue_input("x", engine.OrtValue.ortvalue_from_numpy(whole(5, 32)))
    made.run_with_iobinding(binding)
    assert binding.get_outputs()[0].numpy().shape == (5, 33)


def test_outputs_of_a_binding_are_those_that_are_bound(engine: Any) -> None:
    made, x = session(engine, layer()), whole(4, 32)
    binding = made.io_binding()
    binding.bind_cpu_input("x", x)
    for count in (1, 0, 1):
        binding.clear_binding_outputs()
        for _ in range(count):
            binding.bind_output("y")
        if count:
            made.run_with_iobinding(binding)
            assert len(binding.copy_outputs_to_cpu()) == len(binding.get_outputs()) == count
    two = layer()
    two.graph.output.append(
        onnx.helper.make_tensor_value_info("a", onnx.TensorProto.FLOAT, [4, 33])
    )
    binding = (made := session(engine, two)).io_binding()
    binding.bind_cpu_input("x", x)
    for names in (["y", "a"], ["a"], ["y"]):
        binding.clear_binding_outputs()
        for name in names:
            binding.bind_output(name)
        made.run_with_iobinding(binding)
        assert len(binding.copy_outputs_to_cpu()) == len(names)


def test_runs_and_options_that_are_refused(engine: Any) -> None:
    made, x = session(engine, layer()), whole(4, 32)
    options = engine.RunOptions()
    made.run(None, {"x": x}, options)
    options.terminate = True
    with pytest.raises(Exception, match="terminate"):
        made.run(None, {"x": x}, options)
    with pytest.raises(Exception, match=r"incompatible|must be a list"):
        made.run("y", {"x": x})
    for one in (engine.SessionOptions(), options):
        with pytest.raises(AttributeError, match="has no attribute 'threads'"):
            one.threads = 3
    with pytest.raises(RuntimeError):
        engine.SessionOptions().get_session_config_entry("missing")


def test_values(engine: Any) -> None:
    made, x = session(engine, layer()), whole(4, 32)
    value = engine.OrtValue.ortvalue_from_numpy(x)
    assert (value.shape(), value.device_name(), value.is_tensor()) == ([4, 32], "cpu", True)
    (y,) = made.run_with_ort_values(["y"], {"x": value})
    assert np.array_equal(y.numpy(), expected(x))
    empty = engine.OrtValue.ortvalue_from_shape_and_type([2, 3], np.float32)
    empty.update_inplace(whole(2, 3))
    assert np.array_equal(empty.numpy(), whole(2, 3)) and empty.data_ptr()


def test_dimensions_can_be_fixed_by_their_denotation(engine: Any) -> None:
    model, options = layer("N"), engine.SessionOptions()
    model.graph.input[0].type.tensor_type.shape.dim[0].denotation = "DATA_BATCH"
    options.add_free_dimension_override_by_denotation("DATA_BATCH", 3)
    assert session(engine, model, sess_options=options).get_inputs()[0].shape == [3, 32]


def test_runs_in_another_thread(engine: Any) -> None:
    made, found = session(engine, layer()), Queue[Any]()
    for rows in (4, 3):
        feeds = {"x": whole(rows, 32)}
        made.run_async(["y"], feeds, lambda *results: found.put(results), rows)
        results, user_data, error = found.get(timeout=30)
        assert user_data == rows and bool(error) == (rows == 3) == (not results)
        assert error or np.array_equal(results[0], expected(whole(4, 32)))


def test_numbers_in_lists_have_the_type_of_the_input(engine: Any) -> None:
    made, x = session(engine, layer()), whole(4, 32)
    for given in (x.tolist(), x.astype(int).tolist()):
        assert np.array_equal(made.run(None, {"x": given})[0], expected(x))


@pytest.mark.parametrize("keys", [[7, 3], ["a", "b"]])
def test_probabilities_are_maps_by_class(keys: list[Any], engine: Any) -> None:
    """Converters of scikit-learn write them so."""
    helper, value = onnx.helper, onnx.helper.make_tensor_value_info
    texts = isinstance(keys[0], str)
    attributes = {"classlabels_strings" if texts else "classlabels_int64s": keys}
    map_type = helper.make_map_type_proto(8 if texts else 7, helper.make_tensor_type_proto(1, None))
    maps = helper.make_value_info("m", helper.make_sequence_type_proto(map_type))
    nodes = [
        helper.make_node("Abs", ["x"], ["p"]),
        helper.make_node("ZipMap", ["p"], ["m"], domain="ai.onnx.ml", **attributes),
    ]
    graph = helper.make_graph(
        nodes, "g", [value("x", 1, ["N", 2])], [value("p", 1, ["N", 2]), maps]
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    made = session(engine, helper.make_model(graph, opset_imports=opsets, ir_version=9))
    kind = "string" if texts else "int64"
    assert made.get_outputs()[1].type == f"seq(map({kind},tensor(float)))"
    x = np.array([[1, -2], [0, 4]], np.float32)
    expected = [dict(zip(keys, row, strict=True)) for row in np.abs(x).tolist()]
    assert made.run(None, {"x": x})[1] == made.run(["m"], {"x": x})[0] == expected


def test_profiles_have_the_times_of_runs(engine: Any, tmp_path: Path) -> None:
    options = engine.SessionOptions()
    options.enable_profiling, options.profile_file_prefix = True, str(tmp_path / "times")
    made = session(engine, layer(), sess_options=options)
    for _ in range(2):
        made.run(None, {"x": whole(4, 32)})
    file = Path(made.end_profiling())
    assert file.parent == tmp_path and file.suffix == ".json" and file.name.startswith("times_")
    runs = [one for one in json.loads(file.read_text()) if one.get("name") == "model_run"]
    assert [one["ph"] for one in runs] == ["X", "X"] and runs[0]["ts"] < runs[1]["ts"]
    assert made.get_profiling_start_time_ns() > 0
    assert session(engine, layer()).end_profiling() == ""


def test_options_have_the_same_defaults() -> None:
    for name in ("SessionOptions", "RunOptions"):
        real, own = getattr(onnxruntime, name)(), getattr(ours, name)()
        for key in (key for key in dir(real) if not key.startswith("_")):
            value = getattr(real, key)
            if not callable(value):
                assert getattr(own, key) == getattr(value, "value", value), key
        own.log_severity_level, own.logid = 3, "a"
    own.add_run_config_entry("key", "value")
    assert own.get_run_config_entry("key") == "value"
    with pytest.raises(UserError, match="there is no entry 'other'"):
        own.get_run_config_entry("other")


def test_values_share_memory(engine: Any) -> None:
    tensor = torch.arange(6).reshape(2, 3)
    value = engine.OrtValue.from_dlpack(tensor)
    assert value.data_ptr() == tensor.data_ptr() and value.data_type() == "tensor(int64)"
    assert np.asarray(value).sum() == torch.from_dlpack(value).sum() == 15
    bits = np.arange(4, dtype=np.uint16)
    value = engine.OrtValue.ortvalue_from_numpy_with_onnx_type(bits, 16)
    assert value.data_type() == "tensor(bfloat16)" and value.data_ptr() == bits.ctypes.data
    value = engine.OrtValue.ortvalue_from_numpy(whole(2, 3).copy())
    value.update_inplace(engine.OrtValue.ortvalue_from_numpy(whole(2, 3) + 1))
    assert np.array_equal(value.numpy(), whole(2, 3) + 1)


def test_scripts_catch_the_same_errors(engine: Any) -> None:
    made = session(engine, layer())
    for call in (made.run, lambda *words: made.run_async(*words, print, None)):
        with pytest.raises(ValueError, match=r"equired inputs .*x.* are missing from .*input feed"):
            call(None, {"z": whole(4, 32)})
    with pytest.raises(ValueError, match="must be used with the session that"):
        made.run_with_iobinding(session(engine, layer()).io_binding())
    with pytest.raises(Exception, match="z"):
        made.io_binding().bind_cpu_input("z", whole(4, 32))
    binding = made.io_binding()
    binding.bind_cpu_input("x", whole(4, 32))
    with pytest.raises(RuntimeError, match="output"):
        made.run_with_iobinding(binding)
    binding.bind_output("y")
    binding.bind_cpu_input("x", whole(4, 32).astype(np.float64))
    with pytest.raises(RuntimeError, match="float"):
        made.run_with_iobinding(binding)


def test_other_providers_are_ignored() -> None:
    made = session(ours, layer(), providers=PROVIDERS, provider_options=[{}, {}])
    assert made.get_providers() == ["CPUExecutionProvider"]
    assert ours.get_available_providers() == ["CPUExecutionProvider"]


def test_wrong_calls_are_errors() -> None:
    made = session(ours, layer())
    with pytest.raises(UserError, match="x"):
        made.run(None, {"z": whole(4, 32)})
    with pytest.raises(UserError, match="q"):
        made.run(["q"], {"x": whole(4, 32)})
    with pytest.raises(UserError, match="device must be cpu"):
        made.io_binding().bind_output("y", "cuda")
    with pytest.raises(UserError, match="there is no output 'z'"):
        made.io_binding().bind_output("z")
    with pytest.raises(UserError, match="nope.onnx"):
        ours.InferenceSession("nope.onnx")
    with pytest.raises(UserError):
        ours.InferenceSession(b"nonsense")


@pytest.mark.parametrize("address", [0, 3])
def test_addresses_that_hold_no_numbers_are_refused(address: int) -> None:
    binding = ours.InferenceSession(layer().SerializeToString()).io_binding()
    with pytest.raises(UserError, match="must be a multiple of 4 and not 0"):
        binding.bind_input("x", "cpu", 0, np.float32, (2, 3), address)
