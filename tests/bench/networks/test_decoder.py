"""The steps of decoders, small: every length has the bits of its static model, and other engines agree."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from graphc.bench.dynamic import compare_dynamic
from graphc.bench.dynamic_case import suite_case
from graphc.bench.dynamic_cases import step_inputs
from graphc.bench.engines import Setting
from graphc.bench.networks.decoder import gpt2_step, llama_step
from graphc.bench.networks.net import Net

STEPS: dict[str, tuple[Callable[[], Net], int]] = {
    "gpt2": (partial(gpt2_step, "gpt2", 1, 32, 2), 2),
    "llama": (partial(llama_step, "llama", 1, 64, 4, 2), 2),
}


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", STEPS)
def test_steps(name: str) -> None:
    make, heads = STEPS[name]
    model = make().case().onnx()
    case = suite_case(name, model, step_inputs(1, heads, 16), [{"P": 1}, {"P": 130}])
    try:
        import onnxruntime  # noqa: F401

        peers: tuple[str, ...] = ("ort",)
    except ImportError:
        peers = ()
    rows = compare_dynamic(case, Setting(peers, "native", 1, 1, 0.001), lambda *_: None)
    for row in rows[:2]:
        assert row.agree and row.same_bits and {"graphc", "fixed", *peers} <= set(row.timings)
