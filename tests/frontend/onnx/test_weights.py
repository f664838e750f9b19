"""Large weights stay outside of what protobuf decodes; whatever is unusual does not."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from graphc.base.errors import UserError
from graphc.frontend import load
from graphc.frontend.onnx.weights import MIN_BYTES, split_weights

COUNT = MIN_BYTES // 4


def model_of(*weights: TensorProto) -> onnx.ModelProto:
    """y = x + the first weight."""
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [COUNT]) for n in "xy")
    nodes = [helper.make_node("Add", ["x", weights[0].name], ["y"])]
    graph = helper.make_graph(nodes, "g", [x], [y], list(weights))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def weight(name: str = "w", count: int = COUNT) -> TensorProto:
    return numpy_helper.from_array(np.arange(count, dtype=np.float32), name)


def split(model: onnx.ModelProto) -> tuple[onnx.ModelProto, dict[str, memoryview]]:
    structure, weights = split_weights(memoryview(model.SerializeToString()))
    return onnx.ModelProto.FromString(bytes(structure)), weights


def test_large_data_is_cut_out_and_the_rest_stays() -> None:
    whole = model_of(weight(), weight("small", 3), weight("v"))
    structure, weights = split(whole)
    assert set(weights) == {"w", "v"}
    assert weights["w"] == np.arange(COUNT, dtype=np.float32).tobytes()
    for tensor in whole.graph.initializer:
        if tensor.name in weights:
            tensor.ClearField("raw_data")
    assert structure == whole


def test_the_graph_has_its_weights() -> None:
    whole = model_of(weight())
    (add,) = (op for op in load(whole.SerializeToString()).ops if op.op_name == "add")
    value = add.inputs[1].producer_owner.attrs["value"]
    np.testing.assert_array_equal(value, np.arange(COUNT, dtype=np.float32))
    assert not value.flags.owndata


def no_name(tensor: TensorProto) -> None:
    tensor.ClearField("name")


def narrow_type(tensor: TensorProto) -> None:
    tensor.data_type = TensorProto.FLOAT6E2M3


def elsewhere(tensor: TensorProto) -> None:
    tensor.data_location = TensorProto.EXTERNAL


def typed_fields(tensor: TensorProto) -> None:
    tensor.ClearField("raw_data")
    tensor.float_data.extend(range(COUNT))


@pytest.mark.parametrize("change", [no_name, narrow_type, elsewhere, typed_fields])
def test_unusual_tensors_are_left_to_protobuf(change: object) -> None:
    whole = model_of(weight())
    assert callable(change)
    change(whole.graph.initializer[0])
    structure, weights = split(whole)
    assert not weights and structure == whole


def test_a_second_tensor_of_a_name_is_left_where_it_is() -> None:
    structure, weights = split(model_of(weight(), weight()))
    assert set(weights) == {"w"}
    assert [bool(t.raw_data) for t in structure.graph.initializer] == [False, True]


def test_two_graphs_are_merged_by_protobuf_alone() -> None:
    data = model_of(weight()).SerializeToString()
    twice = memoryview(data + data)
    assert split_weights(twice) == (twice, {})


def test_cut_files_are_still_no_models() -> None:
    data = model_of(weight()).SerializeToString()
    for size in (1, 10, len(data) // 2, len(data) - 1):
        part = memoryview(data[:size])
        assert split_weights(part)[1] == {}
        with pytest.raises(UserError):
            load(bytes(part))
    group = memoryview(bytes([0x0B]) + data)  # a kind of field that nobody writes any more
    assert split_weights(group) == (group, {})


def test_data_that_does_not_fit_the_shape_is_one_sentence() -> None:
    whole = model_of(weight())
    whole.graph.initializer[0].dims[0] = COUNT + 1
    sentence = rf"initializer 'w': f32\[{COUNT + 1}\] takes {4 * COUNT + 4} bytes, got {4 * COUNT}"
    with pytest.raises(UserError, match=sentence):
        load(whole.SerializeToString())
