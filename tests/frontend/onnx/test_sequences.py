"""Sequences and optional values, whose length is known while the model is read."""

from __future__ import annotations

import io
import warnings
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx.backend.test.runner import Runner, _normalize_tensor

import graphc
from graphc.base.errors import UnsupportedError, UserError
from graphc.frontend import load

Array = np.ndarray[Any, Any]

LOOP = """<ir_version: 8, opset_import: ["": 17]>
loops (seq(float[3]) x, int64 count) => (float[y] y) {
    empty = SequenceEmpty <dtype = 1> ()
    yes = Constant <value = bool {1}> ()
    joined = Loop (count, yes, empty) <body = rounds (int64 i, bool going, seq(float[3]) state)
        => (bool still, seq(float[3]) more) {
        still = Identity (going)
        one = SequenceAt (x, i)
        twice = Add (one, one)
        more = SequenceInsert (state, twice)
    }>
    y = ConcatFromSequence <axis = 0> (joined)
}"""


def test_the_package_s_cases() -> None:
    """All of them through the class of the onnx package, compiled for the lengths of the inputs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.case.node import collect_testcases

        cases: list[Any] = collect_testcases(None)
    count = 0
    for case in cases:
        infos = (*case.model.graph.input, *case.model.graph.output)
        if all(info.type.WhichOneof("value") == "tensor_type" for info in infos):
            continue
        if any("string" in str(info.type).lower() for info in infos) or "loop16" in case.name:
            continue
        ((inputs, outputs),) = case.data_sets
        results = graphc.onnx_backend.prepare(case.model).run(
            [_normalize_tensor(x) for x in inputs]
        )
        wanted = [_normalize_tensor(x) for x in outputs]
        Runner.assert_similar_outputs(wanted, results, case.rtol, case.atol)
        count += 1
    assert count >= 20


def test_elements_are_inputs_and_outputs_of_their_own() -> None:
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["": 17]>
        parts (seq(float[N]) x, float[2] z) => (seq(float[M]) y) {
            at = Constant <value = int64 {-1}> ()
            y = SequenceInsert (x, z, at)
        }"""
    )
    compiled = graphc.compile(model, inputs={"x.0": "f32[3]", "x.1": "f32[4]"})
    values = {"x.0": np.ones(3, np.float32), "x.1": np.zeros(4, np.float32)}
    results = compiled.run(["y.0", "y.1", "y.2"], {**values, "z": np.full(2, 7, np.float32)})
    assert [x.tolist() for x in results] == [[1, 1, 1], [7, 7], [0, 0, 0, 0]]


def test_a_loop_over_a_sequence() -> None:
    model, x = (
        onnx.parser.parse_model(LOOP),
        [np.arange(3, dtype=np.float32), np.ones(3, np.float32)],
    )
    specs = {"x.0": "f32[3]", "x.1": "f32[3]"}
    graph = load(model, specs, {"count": np.array(2)})
    np.testing.assert_array_equal(graph.evaluate(x)[0], [0, 2, 4, 2, 2, 2])
    with pytest.raises(UnsupportedError, match=r"the number of rounds \('count'\) that depends on"):
        load(model, specs)


def test_an_unknown_length_is_requested() -> None:
    message = (
        r"input 'x' is a sequence: its elements must be given, as in --input 'x.0=f32\[8,13\]'"
    )
    with pytest.raises(UserError, match=message):
        load(onnx.parser.parse_model(LOOP))


def test_no_elements_cannot_be_joined() -> None:
    model = onnx.parser.parse_model(LOOP)
    with pytest.raises(UnsupportedError, match="joining no tensors"):
        load(model, {}, {"x": [], "count": np.array(0)})


def test_positions_are_checked() -> None:
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["": 17]>
        at (float[2] a) => (float[2] y) {
            position = Constant <value = int64 {3}> ()
            all = SequenceConstruct (a, a)
            y = SequenceAt (all, position)
        }"""
    )
    with pytest.raises(UserError, match=r"the position must be in -2..1, got 3"):
        load(model)


class Repeats(torch.nn.Module):
    def forward(self, x: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
        return torch.repeat_interleave(x * 2, counts, dim=1).cumsum(1)


@pytest.mark.filterwarnings("ignore")
def test_the_loop_that_torchscript_writes_for_repeat_interleave() -> None:
    axes = {"x": {0: "batch", 1: "length"}, "counts": {0: "length"}}
    example, file = (torch.rand(2, 5, 3), torch.tensor([1, 2, 0, 3, 1])), io.BytesIO()
    torch.onnx.export(
        Repeats(), example, file, dynamo=False, input_names=list(axes), dynamic_axes=axes
    )
    compiled = graphc.compile(file.getvalue(), threads=1)
    for x, counts in (example, (torch.rand(1, 3, 3), torch.tensor([0, 1, 90]))):
        wanted = Repeats()(x, counts).numpy()
        np.testing.assert_allclose(compiled(x.numpy(), counts.numpy()), wanted, rtol=1e-5)
