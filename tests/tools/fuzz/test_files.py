"""Random ONNX files: right today, found wrong where reading them is, and the same for a seed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import FunctionProto, ModelProto, NodeProto

from graphc.frontend.onnx import functions, trees
from graphc.tools.fuzz.case import FILE_INTERVAL, FileCase, case_of
from graphc.tools.fuzz.file_check import check_any
from graphc.tools.fuzz.files import random_file
from graphc.tools.fuzz.files.trees import TRANSFORMS
from graphc.tools.fuzz.outcome import INTERNAL, REFUSED, RIGHT, WRONG, Outcome
from graphc.tools.fuzz.reproducer import read_reproducer, write_reproducer

PEER = ("onnxruntime",)


def model_of(number: int) -> ModelProto:
    return onnx.load_from_string(random_file(f"t/{number}")[0])


def files(kind: str, count: int) -> list[FileCase]:
    """The first cases of a kind that may show a wrong reading."""
    made = [FileCase(*random_file(f"t/{n}")) for n in range(count)]
    return [one for one in made if onnx.load_from_string(one.model).graph.name == kind]


def test_every_fourth_case_for_the_peer_is_a_file() -> None:
    kinds = [isinstance(case_of(1, index, PEER), FileCase) for index in range(8)]
    assert kinds == [index % FILE_INTERVAL == 3 for index in range(8)]
    assert not any(isinstance(case_of(1, index), FileCase) for index in range(8))


def test_a_seed_is_a_file() -> None:
    for number in range(20):
        (one, (x,)), (other, (again,)) = random_file(f"s/{number}"), random_file(f"s/{number}")
        assert one == other and np.array_equal(x, again)


def test_files_take_every_form() -> None:
    models = [model_of(number) for number in range(300)]
    bodies = [one for model in models for one in model.functions]
    assert any(one.attribute_proto for one in bodies) and any(one.attribute for one in bodies)
    assert any(len(one.node) == 1 for one in bodies)
    assert any(node.domain for one in bodies for node in one.node), "a call inside of a body"
    assert any(node.op_type == "If" for one in bodies for node in one.node)
    versions = [
        (model.opset_import[0].version, one.opset_import[0].version)
        for model in models
        for one in model.functions
    ]
    assert any(a < b for a, b in versions) and any(a > b for a, b in versions)
    nodes = [model.graph.node[0] for model in models if model.graph.name == "trees"]
    given = [{a.name: onnx.helper.get_attribute_value(a) for a in node.attribute} for node in nodes]
    assert {one["post_transform"].decode() for one in given} == set(TRANSFORMS)
    assert {bool(one.get("base_values")) for one in given} == {True, False}
    positive = [min(one["class_weights"]) > 0 for one in given if "class_weights" in one]
    assert {*positive} == {True, False}


@pytest.fixture(name="peer")
def the_peer() -> None:
    pytest.importorskip("onnxruntime")


@pytest.mark.exhaustive
@pytest.mark.usefixtures("peer")
@pytest.mark.parametrize("index", [3, 7, 11])
def test_files_are_right(index: int) -> None:
    outcome = check_any(case_of(5, index, PEER))
    assert (outcome.kind, outcome.refusals) == (RIGHT, ()), outcome


def judge(case: FileCase) -> Outcome:
    return check_any(FileCase(case.model, case.arrays, case_of(5, 3, PEER).setting))


@pytest.mark.usefixtures("peer")
def test_functions_without_their_defaults_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The inliner of the package onnx gives such bodies."""
    body = functions._Expansion._body

    def without(self: Any, function: FunctionProto, call: NodeProto) -> list[NodeProto]:
        bare = FunctionProto()
        bare.CopyFrom(function)
        del bare.attribute_proto[:]
        return body(self, bare, call)

    monkeypatch.setattr(functions._Expansion, "_body", without)
    assert WRONG in {judge(case).kind for case in files("functions", 12)}


@pytest.mark.usefixtures("peer")
def test_trees_without_their_transform_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    two = trees.two_scores

    def without(node: Any, score: Any, labels: Any, kind: str, positive: bool, **more: Any) -> Any:
        return two(node, score, labels, "NONE" if positive else kind, positive, **more)

    monkeypatch.setattr(trees, "two_scores", without)

    def is_met(case: FileCase) -> bool:
        node = onnx.load_from_string(case.model).graph.node[0]
        given = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        return (
            given["post_transform"] == b"LOGISTIC"
            and len(given.get("classlabels_int64s", ())) == 2
            and {*given["class_ids"]} == {0}
            and min(given["class_weights"]) > 0
        )

    case = next(case for case in files("trees", 400) if is_met(case))
    assert judge(case).kind == WRONG


def test_a_file_is_written_and_replayed(tmp_path: Path) -> None:
    case = case_of(5, 3, PEER)
    assert isinstance(case, FileCase)
    write_reproducer(tmp_path, case, Outcome(RIGHT))
    again = read_reproducer(tmp_path)
    assert isinstance(again, FileCase) and again.setting == case.setting
    assert (again.model, again.arrays[0].tolist()) == (case.model, case.arrays[0].tolist())


def test_what_cannot_be_read_says_so() -> None:
    outcome = check_any(FileCase(b"no model", []))
    assert (outcome.kind, outcome.stage) == (REFUSED, "read") and outcome.kind != INTERNAL
