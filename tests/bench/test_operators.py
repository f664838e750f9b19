"""NumPy and PyTorch run the lab's problems with the right results, or are refused."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.bench.peers import RefusedModel, load_peer
from graphc.graph_ir.inspect.compare import difference
from graphc.lab.read import read_problem
from graphc.lab.trial import source_graph

BOTH = [
    "matmul m9n40k24 f64 +bias+add+tanh", "matmul m5n33k20 s8xs8", "matmul m5n33k20 u8xs8", "softmax 7x33",
    "logsoftmax 5x9", "layernorm 5x40", "rmsnorm 3x4x24 f32 +mul", "reduce mean 0,2 3x5x7", "reduce argmax 1 9x11",
    "reduce max 1 9x11", "transpose 201 3x5x7", "y = max(abs(x), z) - s1 * exp(-w) 9x17",
    "attention h2s17t19d16 f32 causal", "attention b2h2s5d8 f32 mask",
]  # fmt: skip
TORCH = [
    "matmul m9n40k24 f32 +bias+gelu+silu", "matmul b2m5n7k9 bf16", "conv c4h7w9o20k3p1 f32 +bias+relu",
    "conv c8w30o16k5s2", "conv c4h6w6o8k3p1d2g2 f32 +hardswish", "dwconv n2c17h9w9k3p1 f32 +bias",
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "text"), [(name, text) for text in BOTH for name in ("numpy", "torch")] + [("torch", x) for x in TORCH]
)  # fmt: skip
def test_results_are_right(name: str, text: str) -> None:
    problem = read_problem(text)
    assert isinstance(problem.model, bytes)
    arrays = problem.arrays({})
    found = load_peer(name, problem.model, 1)(arrays).results()
    wanted = source_graph(problem, {}).evaluate([*arrays.values()])
    for result, expected in zip(found, wanted, strict=True):
        assert result.shape == expected.shape
        assert difference(result.astype(expected.dtype), expected).ok
        assert result.dtype.kind == np.asarray(expected).dtype.kind


def test_what_has_no_function_is_refused() -> None:
    for text, why in (("conv c4h7w9o20k3p1", "Conv"), ("matmul m2n3k4 f32 +gelu", "erf")):
        problem = read_problem(text)
        assert isinstance(problem.model, bytes)
        with pytest.raises(RefusedModel, match=why):
            load_peer("numpy", problem.model, 1)(problem.arrays({}))
