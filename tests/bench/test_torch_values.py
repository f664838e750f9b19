"""PNNX against PyTorch: every value of a model, and a bug planted in the importer. Skipped without PyTorch."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from graphc.base.errors import UserError
from graphc.bench.intermediates import engine_values
from graphc.frontend import load
from graphc.frontend.pnnx import importer
from graphc.tools.compare import Outcome, compare_with_engine
from support.process import ROOT

pytest.importorskip("torch")

LINEAR = ROOT / "examples" / "linear.pnnx.param"
OPERATORS = """7767517
6 6
pnnx.Input a 0 1 0 #0=(2,6)f32
pnnx.Input b 0 1 1 #1=(2,6)f32
pnnx.Expression sum 2 1 0 1 2 expr=add(@0,mul(@1,sqrt(2.0))) #0=(2,6)f32 #1=(2,6)f32 #2=(2,6)f32
F.softmax soft 1 1 2 3 dim=-1 $input=2 #2=(2,6)f32 #3=(2,6)f32
Tensor.reshape flat 1 1 3 4 shape=(3,4) $input=3 #3=(2,6)f32 #4=(3,4)f32
pnnx.Output out 1 0 4 #4=(3,4)f32
"""


def outcome(model: Path) -> Outcome:
    rng = np.random.default_rng(0)
    graph = load(model)
    feeds = {
        op.name: rng.standard_normal(op.outputs[0].details.plain_dims).astype(np.float32)
        for op in graph.inputs
    }
    values = engine_values("torch", str(model), feeds)
    return compare_with_engine(graph, "torch", values, feeds)


def test_pytorch_computes_what_was_imported() -> None:
    found = outcome(LINEAR)
    assert found.finding is None and found.checked == 2
    assert found.worst_share < 0.5


def test_functions_methods_and_expressions(tmp_path: Path) -> None:
    (tmp_path / "m.param").write_text(OPERATORS)
    found = outcome(tmp_path / "m.param")
    assert found.finding is None and found.checked == 3


def test_a_bug_in_the_importer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = replace(importer.HANDLERS["F.sigmoid"], run=importer.HANDLERS["F.tanh"].run)
    monkeypatch.setattr(importer, "HANDLERS", {**importer.HANDLERS, "F.sigmoid": wrong})
    finding = outcome(LINEAR).finding
    assert finding is not None
    assert (finding.stage, finding.culprit) == (
        "frontend",
        "the importer of F.sigmoid 'F.sigmoid_0'",
    )


def test_an_operator_pytorch_has_not(tmp_path: Path) -> None:
    (tmp_path / "m.param").write_text(OPERATORS.replace("F.softmax", "F.nonsense"))
    feeds = {name: np.ones((2, 6), np.float32) for name in "ab"}
    with pytest.raises(UserError, match="F.nonsense 'soft': PyTorch has no operator of this name"):
        list(engine_values("torch", str(tmp_path / "m.param"), feeds))
