"""The suite `torch`: every engine is compared with PyTorch itself; no times are judged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from graphc.base.errors import UserError
from graphc.bench import torch_engines
from graphc.bench.engines import Row, Setting
from graphc.bench.measure import Timing
from graphc.bench.suites import suite
from graphc.bench.tables import table
from graphc.bench.torch_engines import compare_modules
from graphc.bench.torch_networks import TorchCase, torch_cases
from support.bench_tables import shown

torch: Any = pytest.importorskip("torch")


@pytest.fixture
def case(monkeypatch: pytest.MonkeyPatch) -> TorchCase:
    """A small module, on a machine whose peak and target are said."""
    monkeypatch.setattr(torch_engines, "measured_peak", lambda target: 100.0)
    torch.manual_seed(0)
    return TorchCase("one layer", torch.nn.Linear(4, 3).eval(), (torch.randn(2, 4),))


def compare(case: TorchCase, *peers: str) -> Any:
    return compare_modules(case, Setting(peers, "native", 1, 1, 0.01), lambda *_: None)


def changed(by: float) -> Callable[[Any, Setting], Any]:
    return lambda module, setting: lambda x: module(x) + by


def test_engines_are_judged_by_pytorch_itself(
    case: TorchCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(torch_engines.COMPILERS, "inductor", changed(1.0))
    row = compare(case, "eager", "inductor")
    assert list(row.timings) == ["eager", "graphc", "frozen", "module", "inductor"]
    assert row.agree and row.wrong == {"inductor"} and row.worst < 1e-5
    ratios = {"graphc": row.ratio, **{name: row.ratio_of(name) for name in ("module", "frozen")}}
    for engine, ratio in ratios.items():
        assert ratio == row.timings["eager"].median / row.timings[engine].median
    made = table([row], 1)
    assert "!: not what PyTorch itself computes" in str(made.caption)
    assert [str(x.header) for x in made.columns][-3:] == ["module\nratio", "frozen\nratio", "ratio"]
    for column, name in zip(made.columns[-3:], ("module", "frozen", "graphc"), strict=True):
        assert [*column.cells][-1] == f"{ratios[name]:.2f}"


@pytest.mark.parametrize("peers", [("openvino", "ort"), ("inductor", "openvino", "ort")])
def test_the_table_fits_a_terminal(peers: tuple[str, ...]) -> None:
    engines, longest = ("eager", "graphc", "frozen", "module", *peers), max(torch_cases(), key=len)
    times = dict.fromkeys(engines, Timing(0.2741, 0.2, 3))
    text = shown([Row(longest, 1.0, 470.0, times, 0.0)])
    assert "…" not in text
    assert (text.count("274.1"), text.count("1.00")) == (len(engines), 6)


def test_a_wrong_graphc_is_said(case: TorchCase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(torch_engines.COMPILERS, "graphc", changed(1.0))
    row = compare(case)
    assert not row.agree and row.wrong == {"graphc"}


def test_engines_that_cannot_run_a_module_are_named(
    case: TorchCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(module: Any, setting: Setting) -> Any:
        def call(x: Any) -> Any:
            raise RuntimeError("no kernel for this\nand more")

        return call

    monkeypatch.setitem(torch_engines.COMPILERS, "openvino", fail)
    row = compare(case, "openvino")
    assert row.refused == {"openvino": "openvino cannot run the model: no kernel for this"}
    with pytest.raises(UserError, match="peer 'tvm' of modules is not known; known are eager"):
        compare(case, "tvm")


def test_cases_are_made_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(torch_cases()) == 15
    monkeypatch.setitem(__import__("sys").modules, "transformers", None)
    with pytest.raises(UserError, match="case 'BERT-base s128' needs torchvision and transformers"):
        next(suite("torch", "BERT-base"))
