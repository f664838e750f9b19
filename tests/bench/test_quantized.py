"""The suite `quantized`: small networks in every form, checked against exact results; no times are judged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from graphc.bench import peers, quantized, roofline, tables
from graphc.bench.cases import Case
from graphc.bench.engines import Roof, Row, Setting, compare
from graphc.bench.exact import exact_results
from graphc.bench.light_cases import in_bf16, in_four_bits
from graphc.bench.measure import Timing
from graphc.bench.networks.net import Net
from graphc.bench.networks.transformer import bert, vit
from graphc.bench.roofline import Roofline
from graphc.codegen.host import host_has
from graphc.driver.compiler import compile as compile_model
from graphc.frontend import load
from graphc.graph_ir.inspect.compare import difference

pytest.importorskip("onnxruntime")
from graphc.bench.quantizer import FORMS
from graphc.bench.quantizer import quantized as made
from support.bench_tables import shown

SMALL: dict[str, Callable[[], Net]] = {
    "mlp": lambda: quantized.dense(4, (16, 24, 8)),
    "bert": lambda: bert(1, tokens=5, hidden=16, heads=2),
    "vit": lambda: vit(image=32, hidden=16, heads=2, blocks=1),
    "convolutions": lambda: convolutions(),
}


def convolutions() -> Net:
    """A stem, a depthwise convolution, a sum and a classifier."""
    net = Net("convolutions", 12)
    x = net.conv_norm_relu("x", 8, 3)
    y = net.relu6(net.norm(net.conv(x, 8, 3, groups=8, bias=False)))
    net.result = net.classify(net.pair("Add", x, y))
    return net


def silent(name: str, done: int, total: int) -> None:
    """No progress."""


def row_of(case: Case, *names: str) -> Row:
    """The row of a case, hardly timed."""
    return compare(case, Setting(names, "native", 1, 1, 0.001), silent)


@pytest.mark.parametrize("name", ["bert", "vit"])
def test_encoders_agree_with_numpy(name: str) -> None:
    case = SMALL[name]().case()
    arrays = list(case.arrays().values())
    (expected,) = load(case.model).evaluate(arrays)
    assert expected.std() > 0.1
    found = difference(np.asarray(compile_model(case.model, threads=1)(*arrays)), expected)
    assert found.ok, str(found)


@pytest.mark.exhaustive
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["mlp", "convolutions"])
def test_forms_are_right_and_timed_beside_f32(name: str, form: str) -> None:
    row = row_of(made(SMALL[name]().case(), form, per_channel=name != "mlp"), "ort")
    # ONNX Runtime adds pairs of bytes in 16 bits, which saturate, where the CPU has no instruction for four of them.
    may_saturate = form != "7-bit" and not (host_has("avx512vnni") or host_has("avxvnni"))
    assert row.agree and row.is_quantized and row.wrong <= ({"ort"} if may_saturate else set())
    assert set(row.timings) == {"graphc", "ort", "f32"}
    assert row.gain is not None and row.gain > 0


def test_an_engine_farther_away_than_f32_is_marked_and_leaves_the_ratio(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    case = made(SMALL["mlp"]().case(), "7-bit")

    def saturating(model: bytes, threads: int, shapes: peers.Shapes | None) -> peers.Session:
        def contender(inputs: peers.Arrays) -> peers.Contender:
            ours = [np.clip(y, -0.2, 0.2) for y in exact_results(model, inputs)]
            return peers.Contender("openvino", lambda: ours, lambda: ours)

        return contender

    monkeypatch.setitem(peers.PEERS, "openvino", saturating)
    row = row_of(case, "ort", "openvino")
    assert row.wrong == {"openvino"} and row.agree
    assert row.ratio == pytest.approx(row.timings["ort"].median / row.timings["graphc"].median)
    assert tables.to_json([row], 1)["rows"][0]["wrong"] == ["openvino"]
    text = shown([row])
    assert "!" in text and "farther from the exact result" in text


def test_an_engine_that_cannot_read_a_form_is_shown_as_such(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refusing(model: bytes, threads: int, shapes: peers.Shapes | None) -> peers.Session:
        raise RuntimeError("no rule")

    monkeypatch.setitem(peers.PEERS, "openvino", refusing)
    case = made(SMALL["mlp"]().case(), "operator")
    row = row_of(case, "openvino")
    assert (
        row.refused == {"openvino": "openvino cannot run the model: no rule"} and row.ratio is None
    )
    assert "refused" in shown([row])
    with pytest.raises(peers.RefusedModel):
        row_of(replace(case, origin=None), "openvino")


def test_a_wrong_result_of_graphc_is_no_agreement() -> None:
    timings = {"graphc": Timing(1.0, 1.0, 3), "f32": Timing(2.0, 2.0, 3)}
    row = Row("r", 1.0, 1.0, timings, 0.7, frozenset({"graphc"}))
    assert not row.agree and row.gain == 2
    assert "DIFFERS" in shown([row])


def test_the_table_of_the_suite_fits_a_terminal() -> None:
    names = quantized.quantized_cases()
    longest = max(names, key=len)
    times = {name: Timing(0.1234567, 0.1, 3) for name in ("graphc", "ort", "openvino", "f32")}
    roof = Roof("compute", 0.1)
    text = shown([Row(longest, 1.0, 100.0, times, 0.0, frozenset({"ort"}), roof=roof)])
    assert "…" not in text and "1.00" in text and " 81 " in text
    assert {name.split()[-1] for name in names} == {*FORMS, "bf16", "4-bit", "4-bit-s8"}


def test_bf16_is_judged_by_its_reference_and_timed_beside_f32(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("graphc.graph_ir.passes.round_operands.MIN_GAIN", 0.0)  # on every CPU
    case = in_bf16("mlp", lambda: quantized.dense(8, (64, 128, 64)))
    assert 1e-4 < case.noise < 0.02
    row = row_of(case, "ort")
    assert row.agree and set(row.timings) == {"graphc", "ort", "f32"}
    assert "ort" not in row.wrong and row.worst > 1e-4  # ORT's is f32
    assert row_of(replace(case, noise=0.0)).wrong == {"graphc"}


def test_the_roof_of_what_nearly_fills_the_last_cache_is_that_of_its_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    case = replace(in_four_bits("packed", 1, 48, 64, False), op_gflop=0.0, multiplied="f32")
    assert row_of(case).roof != Roof("0MB", 0.25)
    monkeypatch.setattr(Roofline, "is_between", lambda self, nbytes: nbytes > 48 * 64 / 2)
    monkeypatch.setattr(roofline, "_bandwidth", lambda code, target, threads, nbytes: nbytes / 1e9)
    assert row_of(case).roof == Roof("0MB", 1.0)


@pytest.mark.parametrize("rounds", [False, True])
def test_packed_weights_are_compared_with_the_matmul_of_the_same_numbers(rounds: bool) -> None:
    case = in_four_bits("packed", 3, 48, 64, rounds)
    row = row_of(replace(case, op_gflop=1.0, multiplied="s8" if rounds else "f32"), "ort")
    assert row.agree and not row.refused and row.roof is not None
    assert (row.worst > 1e-4) == rounds


def test_single_matmuls_have_the_peak_of_what_they_multiply() -> None:
    found = quantized.with_roof(Case("128x768x768 bf16", b"", {}), "bf16")
    assert found.multiplied == "bf16"
    assert found.op_gflop == pytest.approx(2 * 128 * 768 * 768 / 1e9)
    network = Case("MLP_2 b128 qdq", b"", {})
    assert quantized.with_roof(network, "u8") is network


def test_weights_within_seven_bits_and_a_peer_that_does_not_saturate() -> None:
    case = made(SMALL["mlp"]().case(), "7-bit")
    assert isinstance(case.model, bytes)
    held = [numpy_helper.to_array(x) for x in onnx.load_from_string(case.model).graph.initializer]
    weights = [x for x in held if x.dtype == np.int8 and x.ndim == 2]
    assert len(weights) == 2 and 50 < max(np.abs(x.astype(np.int32)).max() for x in weights) <= 64
    row = row_of(case, "ort-exact")
    assert row.agree and set(row.timings) == {"graphc", "ort-exact", "f32"}
