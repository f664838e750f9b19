"""Every tool on every example: an MLP and attention (ONNX), a PNNX model and an HLO module."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from graphc.cli import main
from graphc.codegen.host import target_for
from graphc.frontend import load
from graphc.graph_ir.passes import pipeline
from graphc.graph_ir.rewriting.decisions import log_of
from graphc.graph_ir.schedule.context import LowerContext
from graphc.tools import variants
from support.process import ROOT
from support.roofs import plant_roofs

EXAMPLES = ("mlp.onnx", "mha.onnx", "linear.pnnx.param", "block.hlo")
COMMANDS = (
    "dev debug --dump-root {0}/d", "profile -q --seconds 0.02 --trace {0}/t.json", "explain",
    "explain --passes", "compare -q", "profile --seconds 0.02 --html {0}/r.html",
    "inspect ops",
)  # fmt: skip


@pytest.mark.exhaustive
@pytest.mark.parametrize("example", EXAMPLES)
@pytest.mark.parametrize("command", COMMANDS, ids=lambda text: text.split("{")[0].strip())
def test_a_command_takes_an_example(
    command: str, example: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    plant_roofs(monkeypatch, tmp_path)
    words = command.format(tmp_path).split()
    path = 2 if words[0] in ("inspect", "dev") else 1
    code = main([*words[:path], str(ROOT / "examples" / example), *words[path:]])
    out, err = capsys.readouterr()
    assert code == 0, out + err
    assert len(out) > 20


@pytest.mark.exhaustive
@pytest.mark.parametrize("example", EXAMPLES)
def test_verify_takes_an_example(
    example: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two schedules a layout, and no matmuls of boundary sizes: that there are more is tested by its own tests."""
    monkeypatch.setattr(variants, "_boundary_matmuls", lambda ctx: iter(()))
    monkeypatch.setattr(variants, "MAX_SCHEDULES", 2)
    assert (
        main(["dev", "verify", str(ROOT / "examples" / example), "--json", "--threads", "1"]) == 0
    )
    found = json.loads(capsys.readouterr().out)
    assert found["mismatches"] == 0 and found["grades"]
    assert sum(row["chosen"] for row in found["rows"]) == len(found["grades"])


@pytest.mark.parametrize("example", EXAMPLES)
@pytest.mark.parametrize("isa", ["avx512", "avx2"])
def test_every_op_a_pass_takes_away_or_makes_is_in_a_decision(isa: str, example: str) -> None:
    """Except for the constants that a pass makes for other ops."""
    graph = load(ROOT / "examples" / example).copy()
    pipeline.run(graph, LowerContext(target_for(isa)))
    log = log_of(graph)
    for stage in log.stages:
        told = {name for d in log.of_stage(stage.number) for name in (*d.subjects, *d.results)}
        changed = [
            *stage.removed,
            *(text for text in stage.added if not text.startswith("constant ")),
        ]
        assert not [text for text in changed if text.split(" ", 1)[1] not in told], stage.name
