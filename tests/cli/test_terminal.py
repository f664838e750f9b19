"""Rows that commands print fit a terminal."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import pytest

from graphc.base.dims import Symbol, size
from graphc.cli import main
from graphc.cli.terminal import WIDTH, answer
from support.onnx_models import model, node

Capture = pytest.CaptureFixture[str]
LONG = "model/encoder/layer_with_a_long_name/attention/self/query/MatMul_of_"
COMMANDS = (
    "inspect ops {a}", "inspect diff {a} {b}", "inspect check {a}", "explain {a}", "explain {a} --passes",
    "dev bisect {a}", "dev verify {a} --threads 1", "tune {a} --threads 1 --seconds 0 --tuning {store}",
    "profile {a} --threads 1 --seconds 0.01 -v",
)  # fmt: skip


@pytest.fixture
def words(tmp_path: Path) -> dict[str, str]:
    """Two models of long names and of dynamic sizes, and a file of schedules."""
    found = {"store": str(tmp_path / "s.sqlite")}
    for key, width in (("a", 40), ("b", 48)):
        weight = {"w": np.ones((24, width), np.float32)}
        nodes = [node("MatMul", "x w", f"{LONG}h"), node("Relu", f"{LONG}h", f"{LONG}r")]
        nodes += [node("Softmax", f"{LONG}r", f"{LONG}s"), node("Abs", f"{LONG}s", f"{LONG}y")]
        path = tmp_path / f"{key}.onnx"
        path.write_bytes(
            model(nodes, {"x": ["B", 24]}, weight, outputs=[f"{LONG}y"]).SerializeToString()
        )
        found[key] = str(path)
    return found


@pytest.mark.parametrize("command", COMMANDS)
def test_rows_fit(command: str, words: dict[str, str], capsys: Capture) -> None:
    assert main(command.format(**words).split()) in (0, 1)
    lines = capsys.readouterr().out.splitlines()
    # A path, which is copied, stays whole.
    wide = [line for line in lines if len(line) > WIDTH and words["store"] not in line]
    assert lines and not wide


@pytest.mark.parametrize("command", COMMANDS[:4])
def test_every_fact_is_json(command: str, words: dict[str, str], capsys: Capture) -> None:
    """Sizes that are dynamic are text."""
    assert main([*command.format(**words).split(), "--json"]) in (0, 1)
    assert json.loads(capsys.readouterr().out)


def test_what_is_no_fact_is_refused() -> None:
    args = argparse.Namespace(json=True)
    answer(args, {"size": size(Symbol("B"))}, ())
    with pytest.raises(TypeError):
        answer(args, {"size": object()}, ())
