"""The suite `dynamic`: small models with dynamic sizes beside their own models of each size; no times are judged."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import graphc
from graphc import cli
from graphc.bench import measure, peers, suites, tables
from graphc.bench.cases import specs_of
from graphc.bench.dynamic import compare_dynamic
from graphc.bench.dynamic_case import DynamicCase, draws, suite_case
from graphc.bench.dynamic_cases import TEXT, dynamic_cases
from graphc.bench.engines import Row, Setting
from graphc.bench.measure import Timing
from graphc.bench.networks.transformer import text_encoder
from graphc.bench.operands import Operand
from graphc.bench.quantized import dense
from graphc.frontend import load
from graphc.graph_ir.inspect.compare import difference
from support.bench_tables import shown


def encoder() -> DynamicCase:
    net = text_encoder("text", blocks=1, hidden=16, heads=2)
    return suite_case("text", net.case().onnx(), TEXT, [{"B": 1, "S": 1}, {"B": 3, "S": 7}])


def layers() -> DynamicCase:
    model = dense(1, (16, 24, 8)).case().onnx()
    return suite_case("mlp", model, {"x": Operand.of("f32[B,16]")}, [{"B": 1}, {"B": 5}])


def rows_of(case: DynamicCase, *names: str) -> list[Row]:
    """The rows of a case, hardly timed."""
    return compare_dynamic(
        case, Setting(names, "native", 1, 1, 0.001), lambda name, done, total: None
    )


def test_every_size_is_checked_and_timed_beside_the_model_of_that_size() -> None:
    one, other, turn = rows_of(encoder())
    assert [one.name, other.name, turn.name] == ["text b1 s1", "text b3 s7", "text in turn"]
    for row in (one, other):
        assert row.agree and row.same_bits and set(row.timings) == {"graphc", "fixed"}
        assert row.to_fixed == row.timings["graphc"].median / row.timings["fixed"].median
        assert row.ratio is None
    assert set(turn.timings) == {"graphc"} and turn.to_fixed is None
    assert turn.gflop == pytest.approx(one.gflop + other.gflop)


def test_other_engines_are_loaded_once_and_run_every_size() -> None:
    pytest.importorskip("onnxruntime")
    pytest.importorskip("openvino")
    for row in rows_of(layers(), "ort", "openvino"):
        assert row.agree and not row.refused
        assert {"graphc", "ort", "openvino"} <= set(row.timings)
        assert row.ratio is not None and row.ratio > 0
        assert 0 <= row.worst < 1e-4


def test_an_engine_that_runs_some_sizes_only(monkeypatch: pytest.MonkeyPatch) -> None:
    def load_it(model: bytes, threads: int, shapes: peers.Shapes | None) -> peers.Session:
        assert shapes is None

        def contender(inputs: peers.Arrays) -> peers.Contender:
            if inputs["x"].shape[0] == 1:
                raise RuntimeError("one is too few")
            wrong = [np.zeros((inputs["x"].shape[0], 8), np.float32)]
            return peers.Contender("ort", lambda: wrong, lambda: wrong)

        return contender

    monkeypatch.setitem(peers.PEERS, "ort", load_it)
    one, five, turn = rows_of(layers(), "ort")
    assert one.refused == {"ort": "ort cannot run the model: one is too few"} and one.agree
    assert five.wrong == {"ort"} and not five.agree
    assert set(turn.timings) == {"graphc"}
    text = shown([one, five, turn])
    assert "refused" in text and "DIFFERS" in text and "same" in text


def test_the_table_and_json_of_the_suite() -> None:
    times = {name: Timing(0.1, 0.1234567, 3) for name in ("graphc", "ort", "openvino")}
    fixed = {"fixed": Timing(0.08, 0.08, 3)}
    rows = [
        Row("BERT-base b16 s512", 1.0, 9.0, {**times, **fixed}, 0.0, same_bits=False),
        Row("BERT-base in turn", 1.0, 9.0, times, 0.0),
    ]
    text = shown(rows)
    assert "…" not in text and "differ" in text and "1.25" in text
    assert "1.25 at the 90th percentile, 1.25 at worst" in " ".join(text.split())
    first, last = tables.to_json(rows, 1)["rows"]
    assert first["to_fixed"] == pytest.approx(1.25) and first["same_bits"] is False
    assert last["to_fixed"] is None and last["same_bits"] is None


def test_the_cases_of_the_suite() -> None:
    assert set(dynamic_cases()) == {
        "MLP_1", "MLP_2", "resnet18", "mobilenet_v2", "MiniLM", "BERT-base", "GPT-2 step",
        "Llama step",
    }  # fmt: skip
    (case,) = suites.suite("dynamic", "MLP_1")
    assert isinstance(case, DynamicCase)
    sizes = [call.arrays["x"].shape for call in case.calls]
    assert sizes[:4] == [(b, 13) for b in (1, 2, 3, 4)] and sizes[-1] == (512, 13)
    assert [str(op.outputs[0].details) for op in load(case.model).inputs] == ["f32[B,13]"]


def test_draws_are_the_same_every_time_and_within_their_bounds() -> None:
    found = list(draws(1, 50, {"B": 16, "S": 512}, 1024))
    assert found == list(draws(1, 50, {"B": 16, "S": 512}, 1024))
    assert len(found) == 50
    for sizes in found:
        assert 1 <= sizes["B"] <= 16 and 1 <= sizes["S"] <= 512 and sizes["B"] * sizes["S"] <= 1024


def test_the_encoder_agrees_with_numpy_at_a_size() -> None:
    case = encoder()
    call = case.calls[1]
    graph = load(case.model, {"ids": "s64[3,7]", "mask": "s64[3,7]"})
    (expected,) = graph.evaluate(list(call.arrays.values()))
    assert expected.shape == (3, 7, 16) and expected.std() > 0.1
    model = graphc.compile(case.model, threads=1, inputs=specs_of(call.arrays))
    found = difference(model(**call.arrays), expected)
    assert found.ok, str(found)


def test_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measure, "pin_to", lambda threads: None)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setitem(suites.SUITES, "dynamic", lambda: {"mlp": layers})
    words = ["bench", "--suite", "dynamic", "--rounds", "1", "--seconds", "0.01", "--threads", "1"]
    assert cli.main([*words, "-q", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["rows"]
    assert [row["case"] for row in found] == ["mlp b1", "mlp b5", "mlp in turn"]
    assert cli.main([*words, "-q", "--ablate"]) == 2
    sentence = "--ablate needs a model of static shapes, but 'mlp' has dynamic dimensions; fix them with --input"
    assert capsys.readouterr().err.endswith(f"graphc: error: {sentence}\n")
