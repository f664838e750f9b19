"""Inputs that may be empty where the result is not: nothing is read of them."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.base.options import CompileOptions
from graphc.driver.compiler import compile_stages
from graphc.graph_ir.text.parser import parse_graph
from graphc.runtime.executor import CompiledModel

MODELS = {
    "pad": """
  %y : [#users=1] = Node[type=pad] (inputs = (x=%x0), attrs = {before: {0, 1}, after: {2, 1}}) -> f32[N+2,37]
""",
    "concat": """  %x1 : [#users=1] = Node[type=input] () -> f32[M=0..,35]
  %c : [#users=1] = Node[type=concat] (inputs = (x_0=%x0, x_1=%x1, x_2=%x0), attrs = {axis: 0}) -> f32[M+2*N,35]
  %y : [#users=1] = Node[type=reduce_max] (inputs = (x=%c), attrs = {axes: {1}, keep_dims: false}) -> f32[M+2*N]
""",
    "scatter_elements": """  %x1 : [#users=1] = Node[type=input] () -> s64[N,35]
  %c : [#users=1] = Node[type=constant] (attrs = {value: [5]}) -> f32[1]
  %d : [#users=1] = Node[type=broadcast] (inputs = (x=%c), attrs = {shape: {4, 35}}) -> f32[4,35]
  %y : [#users=1] = Node[type=scatter_elements] (inputs = (data=%d, indices=%x1, updates=%x0)) -> f32[4,35]
""",
}  # fmt: skip


@pytest.mark.parametrize("checks", [True, False])
@pytest.mark.parametrize("name", MODELS)
def test_nothing_is_read_of_an_empty_input(name: str, checks: bool) -> None:
    text = f"""graph("{name}"):
  %x0 : [#users=1] = Node[type=input] () -> f32[N=0..,35]
{MODELS[name]}
  return (y=%y)
"""
    options = CompileOptions(threads=2, check_bounds=checks)
    artifact = compile_stages(parse_graph(text), options=options).artifact
    with CompiledModel(artifact, 2) as model:
        for rows, others in ((0, 2), (0, 0), (3, 0), (2, 5)):
            x = np.arange(rows * 35, dtype=np.float32).reshape(rows, 35)
            others_of: dict[str, list[np.ndarray]] = {
                "pad": [],
                "concat": [np.full((others, 35), 7, np.float32)],
                "scatter_elements": [np.zeros((rows, 35), np.int64)],
            }
            more = others_of[name]
            np.testing.assert_array_equal(model(x, *more), _wanted(name, x, *more))


def _wanted(name: str, x: np.ndarray, *more: np.ndarray) -> np.ndarray:
    if name == "pad":
        return np.pad(x, ((0, 2), (1, 1)))
    if name == "concat":
        return np.concatenate([x, *more, x]).max(axis=1)
    filled = np.full((4, 35), 5, np.float32)
    filled[0] = x[-1] if len(x) else filled[0]
    return filled
