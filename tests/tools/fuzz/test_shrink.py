"""Shrinking: only the parts that the failure needs remain."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from graphc.base.errors import UserError
from graphc.graph_ir.ir.verifier import verify
from graphc.tools.fuzz.case import Case, random_case
from graphc.tools.fuzz.edit import candidates, size_of
from graphc.tools.fuzz.outcome import RIGHT, WRONG, Outcome
from graphc.tools.fuzz.reproducer import read_reproducer, write_reproducer
from graphc.tools.fuzz.shrink import shrink_by

FAILURE = Outcome(WRONG, "run", "result 0")


def needs(*ops: str) -> Case:
    """A random case with these ops among others."""
    for index in range(4000):
        case = random_case(12, index)
        names = [op.op_name for op in case.graph.ops]
        if set(ops) <= set(names) and len(names) > 8:
            return case
    raise AssertionError(ops)


def test_candidates_are_legal_graphs_with_their_inputs() -> None:
    for index in range(25):
        case = random_case(4, index)
        for number, smaller in enumerate(candidates(case)):
            verify(smaller.graph)
            with np.errstate(all="ignore"):
                smaller.graph.evaluate(smaller.arrays)
            if number > 40:
                break


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ["softmax", "convolution", "matmul_core", "while", "reshape"])
def test_a_failure_of_one_op_becomes_a_graph_of_that_op(name: str) -> None:
    case = needs(name)

    def check(candidate: Case) -> Outcome:
        has = any(op.op_name == name for op in candidate.graph.ops)
        return FAILURE if has else Outcome(RIGHT)

    small, outcome = shrink_by(case, FAILURE, check)
    body = [op.op_name for op in small.graph.ops if op.kind not in ("source", "sink")]
    assert body == [name] and outcome == FAILURE and size_of(small) < size_of(case)
    assert small.setting.disabled == () and small.setting.target == "native"
    assert sum(a.size for a in small.arrays) <= 16


def test_a_refused_file_is_not_a_wrong_value() -> None:
    one = Outcome(WRONG, "onnxruntime", "result 0 is rough, and has 0.5 instead of 0.25")
    assert one.is_alike(Outcome(WRONG, "onnxruntime", "result 1 is exact, and has 3 instead of 4"))
    refused = Outcome(WRONG, "onnxruntime", "the ONNX file is refused: index 8 is out of bounds")
    assert not one.is_alike(refused) and refused.is_alike(
        Outcome(WRONG, "onnxruntime", "the ONNX file is refused: index 9 is out of bounds")
    )


def test_a_setting_that_matters_stays() -> None:
    case = next(c for c in (random_case(9, i) for i in range(500)) if "fuse" in c.setting.disabled)

    def check(candidate: Case) -> Outcome:
        return FAILURE if "fuse" in candidate.setting.disabled else Outcome(RIGHT)

    small, _ = shrink_by(case, FAILURE, check)
    assert small.setting.disabled == ("fuse",) and small.setting.threads == 1


def test_no_more_time_no_more_edits() -> None:
    case = random_case(9, 0)
    assert shrink_by(case, FAILURE, lambda _: FAILURE, seconds=0) == (case, FAILURE)


def test_a_reproducer_is_read_as_it_was_written(tmp_path: Path) -> None:
    case = random_case(9, 1)
    command = write_reproducer(tmp_path / "case", case, FAILURE)
    assert command == f"graphc dev fuzz --replay {tmp_path / 'case'}"
    twin = read_reproducer(tmp_path / "case")
    assert twin.graph.compare_contents(case.graph) and twin.setting == case.setting
    assert "wrong at run: result 0" in (tmp_path / "case/outcome.txt").read_text()
    (tmp_path / "case/case.json").write_text("{}")
    with pytest.raises(UserError, match="holds no case of graphc dev fuzz"):
        read_reproducer(tmp_path / "case")
