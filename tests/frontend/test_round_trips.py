"""Random graphs through every format: read back they mean the same, and what was read is what is read again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from graphc.base.errors import UnsupportedError
from graphc.frontend import load
from graphc.frontend.tvm.params import read_params
from graphc.graph_ir.ir.graph import Graph
from graphc.tools.convert import TARGETS
from support.graphs import random_input
from support.random_graphs import graphs


def reread(graph: Graph, target: str, folder: Path) -> Graph:
    """The graph, written and read."""
    path = folder / f"m{TARGETS[target].suffix}"
    path.with_suffix(".params").unlink(missing_ok=True)
    files = TARGETS[target].write(graph, path)
    if target != "ge":
        return load(path)
    specs = {op.name: str(op.outputs[0].details) for op in graph.inputs}
    return load(path, specs, read_params(files[1]) if len(files) > 1 else None)


@pytest.mark.parametrize("target", ["onnx", "hlo", "pnnx", "tvm", "ge", "graph"])
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(graph=graphs())
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_write_and_read(target: str, tmp_path: Path, graph: Graph) -> None:
    try:
        once = reread(graph, target, tmp_path)
    except UnsupportedError:
        assert target in ("onnx", "pnnx", "ge")  # the others have every op and type of these graphs
        return
    rng = np.random.default_rng(0)
    inputs = [random_input(rng, op.outputs[0].details) for op in graph.inputs]
    for mine, wanted in zip(once.evaluate(inputs), graph.evaluate(inputs), strict=True):
        assert (mine.dtype, mine.shape) == (wanted.dtype, wanted.shape)
        np.testing.assert_array_equal(mine.astype(float), wanted.astype(float))
    assert reread(once, target, tmp_path).compare_contents(once)
