"""Every tool on a model with a loop of data-dependent length and a choice in it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from graphc.base.dtypes import F32
from graphc.cli import main
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.tools.submodel import write_reproducer
from support.control import counted, made
from support.roofs import plant_roofs

SQUARE = LogicalTensor(F32, (12, 12))


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The file of the model and the inputs it takes."""
    graph = counted(
        [SQUARE], lambda g, x, w: [made(g, "tanh", made(g, "matmul_core", x, w))], fixed=[SQUARE]
    )
    rng = np.random.default_rng(0)
    arrays = {op.name: rng.standard_normal((12, 12)).astype(np.float32) for op in graph.inputs}
    arrays[graph.inputs[0].name] = np.array(3, np.int64)
    return write_reproducer(tmp_path_factory.mktemp("loop"), graph, arrays, []).split()[2:]


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "command",
    [
        "debug --dump-root {0}/d", "profile -q --seconds 0.02", "explain", "explain --passes",
        "explain --json", "compare -q", "dev bisect", "report -q --seconds 0.02 -o {0}/r.html",
        "dev verify -q",
    ],
)  # fmt: skip
def test_a_command_takes_a_model_with_a_loop(
    command: str, words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    plant_roofs(monkeypatch, tmp_path)
    line = command.format(tmp_path).split()
    path, rest = (line[:2], line[2:]) if line[0] == "dev" else (line[:1], line[1:])
    code = main([*path, *words, *rest])
    out, err = capsys.readouterr()
    assert code == 0, out + err
    assert out
    if "--json" in rest:
        assert json.loads(out)
