"""HLO against XLA: every value of a module, and a bug planted in the importer. Needs JAX, except for the text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from graphc.base.errors import UserError
from graphc.bench.intermediates import engine_values
from graphc.bench.xla_values import with_results
from graphc.codegen.host import target_for
from graphc.frontend import load
from graphc.frontend.hlo import importer, parse_hlo
from graphc.graph_ir.schedule.context import LowerContext
from graphc.tools.compare import Outcome, compare_with_engine, compare_with_references
from support.process import ROOT

BLOCK = ROOT / "examples" / "block.hlo"


def feeds() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {
        op.name: rng.standard_normal(op.outputs[0].details.plain_dims).astype(np.float32)
        for op in load(BLOCK).inputs
    }


def outcome() -> Outcome:
    values = engine_values("xla", str(BLOCK), feeds())
    return compare_with_engine(load(BLOCK), "xla", values, feeds())


def test_the_text_asks_for_other_results() -> None:
    text = BLOCK.read_text()
    entry = parse_hlo(text).computations["main"]
    wanted = [i for i in entry.instructions if i.name in ("means", "hidden")]
    module = parse_hlo(with_results(text, wanted))
    root = module.computations[module.entry].instructions[-1]
    assert root.opcode == "tuple" and [o.name for o in root.operands] == ["means", "hidden"]
    with pytest.raises(UserError, match="no line that begins with ENTRY"):
        with_results("HloModule nothing", wanted)


def test_xla_computes_what_was_imported() -> None:
    pytest.importorskip("jax")
    found = outcome()
    assert found.finding is None and found.checked == 18
    assert found.worst_share < 0.5


def plant(monkeypatch: pytest.MonkeyPatch, opcode: str, broken: Callable[[Any], Any]) -> None:
    monkeypatch.setattr(importer, "HANDLERS", {**importer.HANDLERS, opcode: broken})


def test_a_bug_in_the_importer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("jax")
    plant(monkeypatch, "tanh", lambda step: step.operands[0])
    finding = outcome().finding
    assert finding is not None
    assert (finding.stage, finding.culprit) == ("frontend", "the importer of tanh 'hidden'")
    ctx = LowerContext(target_for("native"))
    assert compare_with_references(load(BLOCK), ctx, feeds()).finding is None, "only XLA shows it"


def test_operands_in_the_wrong_order_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("jax")
    real = importer.HANDLERS["subtract"]

    def swapped(step: Any) -> Any:
        step.operands = step.operands[::-1]
        return real(step)

    plant(monkeypatch, "subtract", swapped)
    finding = outcome().finding
    assert finding is not None
    assert finding.culprit == "the importer of subtract 'centered'"
