"""`graphc bench`: rows for a model or a suite, JSON, and exit code 1 when engines disagree. No times are judged."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from graphc import cli
from graphc.bench import engines, measure, peers
from graphc.cli import bench_kernels
from support.cli_models import free, layer
from support.roofs import plant_roofs

Capture = pytest.CaptureFixture[str]
QUICK = ("--rounds", "1", "--seconds", "0.01", "--threads", "1", "-q")


@pytest.fixture(autouse=True)
def as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command pins its process and sets OMP_NUM_THREADS; here that is the tests' process."""
    monkeypatch.setattr(measure, "pin_to", lambda threads: None)
    monkeypatch.setattr(measure, "load_warning", lambda threads: None)
    monkeypatch.setenv("OMP_NUM_THREADS", os.environ.get("OMP_NUM_THREADS", "1"))


def plant_peer(monkeypatch: pytest.MonkeyPatch, factor: float, precision: str = "") -> None:
    """The engine "ort" computes `factor` times what graphc does, in a precision that it reports."""

    def load(model: bytes, threads: int, shapes: peers.Shapes | None) -> peers.Session:
        compiled = engines.compile_model(model, "native", threads)

        def contender(inputs: peers.Arrays) -> peers.Contender:
            def run() -> list[np.ndarray]:
                return [y * factor for y in compiled.run(None, dict(inputs))]

            return peers.Contender("ort", run, run, precision)

        return contender

    monkeypatch.setitem(peers.PEERS, "ort", load)


def test_a_model(tmp_path: Path, capsys: Capture) -> None:
    assert cli.main(["bench", layer(tmp_path), *QUICK]) == 0
    out, err = capsys.readouterr()
    words = [line.split() for line in out.splitlines() if line.strip()]
    assert ["case", "graphc", "min", "GFLOP/s", "%", "peak", "ratio"] in words
    assert any(line[0] == "layer.onnx" for line in words)
    assert err == ""


def test_a_row_names_the_precision_of_a_peer(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant_peer(monkeypatch, 1, "bf16")
    words = ["bench", layer(tmp_path), "--against", "ort", *QUICK]
    assert cli.main(words) == 0
    assert " bf16 " in capsys.readouterr().out
    assert cli.main([*words, "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert row["precisions"] == {"ort": "bf16"}


def test_engines_are_imported_before_the_process_is_pinned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    plant_peer(monkeypatch, 1)
    monkeypatch.setattr(peers, "import_module", steps.append)
    monkeypatch.setattr(measure, "pin_to", lambda threads: steps.append("pinned"))
    assert cli.main(["bench", layer(tmp_path), "--against", "ort", *QUICK]) == 0
    assert steps == ["onnxruntime", "pinned"]


def test_free_sizes_from_the_command_line(tmp_path: Path, capsys: Capture) -> None:
    assert cli.main(["bench", free(tmp_path), "--input", "x=f32[5,3]", "--json", *QUICK]) == 0
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert row["gflop"] == 15e-9


def test_other_formats_and_types_and_values_from_files(tmp_path: Path, capsys: Capture) -> None:
    module = tmp_path / "add.hlo"
    module.write_text(
        "HloModule add\n\nENTRY main {\n  a = s32[4] parameter(0)\n  ROOT b = s32[4] add(a, a)\n}\n"
    )
    values = tmp_path / "a.npy"
    np.save(values, np.arange(4, dtype=np.int32))
    assert cli.main(["bench", str(module), "--input", f"a=@{values}", "--json", *QUICK]) == 0
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert row["case"] == "add.hlo"
    assert cli.main(["bench", str(module), "--against", "ort", *QUICK]) == 2
    assert capsys.readouterr().err == (
        f"graphc: error: other engines read ONNX only, got '{module}'; graphc convert it --to onnx first\n"
    )


def test_a_suite_as_json_in_a_file(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "t.json"
    words = ["--suite", "tiny", "--only", "16x16", "--output", str(path)]
    assert cli.main(["bench", *words, *QUICK]) == 0
    assert "16x16" in capsys.readouterr().out
    found = json.loads(path.read_text())
    assert [row["case"] for row in found["rows"]] == ["16x16"]
    assert set(found) == {"cpu", "date", "threads", "versions", "geomean", "rows"}
    assert found["threads"] == 1 and found["geomean"] is None
    timing = found["rows"][0]["engines"]["graphc"]
    assert 0 < timing["min"] <= timing["median"] and timing["calls"] >= 3


@pytest.mark.parametrize(("factor", "code"), [(1.0, 0), (1.5, 1)])
def test_engines_that_disagree_are_exit_code_1(
    factor: float, code: int, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant_peer(monkeypatch, factor)
    assert cli.main(["bench", layer(tmp_path), "--against", "ort", "--json", *QUICK]) == code
    found = json.loads(capsys.readouterr().out)
    (row,) = found["rows"]
    assert row["agree"] is (code == 0)
    assert set(row["engines"]) == {"graphc", "ort"}
    assert row["ratio"] == pytest.approx(found["geomean"]) and row["ratio"] > 0
    assert cli.main(["bench", layer(tmp_path), "--against", "ort", *QUICK]) == code
    assert ("DIFFERS" in capsys.readouterr().out) is (code == 1)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "bench takes a model file or --suite; give one of the two"),
        (["{model}", "--suite", "tiny"], "bench takes a model file or --suite; give one of the two"),
        (["--suite", "torch", "--ablate"], "--ablate times models, not those of the suite torch; give a model"),
        (["nope.onnx"], "there is no file 'nope.onnx'; check its name and its folder"),
        (["--suite", "tiny", "--only", "zzz"], "suite 'tiny' has no case with 'zzz' in its name; leave --only out"),
        (["{model}", "--against", "abacus"], "peer 'abacus' is not known; known are ort, ort-exact, openvino, torch, "
            "inductor, numpy"),
        (["{model}", "--rounds", "0"], "bench needs at least 1 round and a time above 0, got 0 and 0.01 s"),
        (["{model}", "--seconds", "nan"], "bench needs at least 1 round and a time above 0, got 1 and nan s"),
        (["{model}", "-o", "/dev/null/t"], "cannot write '/dev/null/t' (Not a directory); give another path"),
    ],
)  # fmt: skip
def test_bad_input(words: list[str], sentence: str, tmp_path: Path, capsys: Capture) -> None:
    model = layer(tmp_path)
    assert cli.main(["bench", *QUICK, *(word.format(model=model) for word in words)]) == 2
    assert capsys.readouterr().err == f"graphc: error: {sentence}\n"


def refusing_peer(model: bytes, threads: int, shapes: peers.Shapes | None) -> peers.Session:
    raise RuntimeError("no Relu here\nsecond line")


def test_a_suite_of_operators_beside_their_roofs(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    plant_roofs(monkeypatch, tmp_path)
    monkeypatch.setitem(peers.PEERS, "openvino", refusing_peer)
    words = ["bench", "--suite", "ops", "--only", "relu 64K", "--against", "openvino", *QUICK]
    assert cli.main(words) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["case", "graphc", "openvino", "roof", "%", "ratio"] in lines
    (row,) = (line for line in lines if line[:2] == ["relu", "64K"])
    assert row[3] == "refused" and row[-2:] == ["no", "peer"]
    assert cli.main([*words, "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["rows"]
    assert found["refused"] == {"openvino": "openvino cannot run the model: no Relu here"}
    assert found["roof"] == {"name": "L2", "seconds": pytest.approx(2 * 4 * 65536 / 100e9)}
    assert found["ratio"] is None


def test_a_peer_that_refuses_a_model_ends_other_tables(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(peers.PEERS, "ort", refusing_peer)
    assert cli.main(["bench", layer(tmp_path), "--against", "ort", *QUICK]) == 2
    sentence = "graphc: error: ort cannot run the model: no Relu here\n"
    assert capsys.readouterr().err == sentence


def test_the_suite_of_kernels_shows_shares_of_the_roof(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant_roofs(monkeypatch, tmp_path)
    words = ["bench", "--suite", "kernels", "--only", "softmax 12x", *QUICK]
    assert cli.main(words) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["time", "+-", "Gop/s", "of", "roof", "roof", "problem"]
    assert lines[1].endswith("softmax 12x128x128") and "%" in lines[1]
    assert cli.main([*words, "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert found["problem"] == "softmax 12x128x128" and found["rows"][0]["of_roof"] > 0
    assert cli.main(["bench", "--suite", "kernels", "--only", "nothing", *QUICK]) == 2
    assert cli.main(["bench", "--suite", "kernels", "--ablate", *QUICK]) == 2


def test_kernels_well_below_the_roof_have_a_reason(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant_roofs(monkeypatch, tmp_path)
    found = []
    for well_below in (0, 100):
        monkeypatch.setattr(bench_kernels, "WELL_BELOW", well_below)
        assert cli.main(["bench", "--suite", "kernels", "--only", "softmax 12x", *QUICK]) == 0
        found.append(capsys.readouterr().out.splitlines()[2:])
    none, (empty, head, reason, *_) = found
    assert none == [] and empty == ""
    assert head == "below 10000% of the roof, and what bounds the longest kernel:"
    assert reason.startswith("softmax 12x128x128: bound by ")
