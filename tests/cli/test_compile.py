"""`graphc compile`: what it prints and writes, its exit codes, and its sentences about bad input."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from graphc import cli
from graphc.base.dtypes import ALL
from graphc.base.options import SWITCHES
from support.cli_models import free, layer, plant_wrong_relu, tiny
from support.onnx_models import model, node

Capture = pytest.CaptureFixture[str]


def run(*words: str) -> int:
    return cli.main(["compile", *words])


def error_of(capsys: Capture, *words: str) -> tuple[int, str]:
    """(exit code, the sentence) of a command line that must fail without a word on stdout."""
    code = run(*words)
    out, err = capsys.readouterr()
    assert out == ""
    last = err.splitlines()[-1]
    assert last.startswith("graphc: error: ") and "Traceback" not in err
    return code, last.removeprefix("graphc: error: ")


def test_summary_and_verdict(tmp_path: Path, capsys: Capture) -> None:
    assert run(layer(tmp_path), "--run", "--threads", "1") == 0
    out, err = capsys.readouterr()
    lines = out.splitlines()
    headings = ["model", "ops", "layouts", "constants", "arena", "work", "phases", "kernels"]
    assert [line.split()[0] for line in lines[:-1]] == headings
    assert lines[0] == "model     test: x: f32[4,8] -> y: f32[4,5]"
    assert lines[1] == "ops       3 in, 1 calls of 1 kernels out"
    assert re.fullmatch(r"layouts   NK\d+n x1", lines[2])
    assert lines[4] == "arena     0 B (live at once: 0 B)"
    assert re.fullmatch(
        r"ok: test [0-9a-f]{12}, \S+ ms, \S+ GFLOP/s, \d+% of \d+; max error \S+ \(\S+ of the largest value\) "
        r"against NumPy; graphc \S+ python \S+ .*llvm \S+; .*, (amx|avx512|avx2|generic), 1 thread",
        lines[-1],
    )
    phases = ["read", "optimize", "lower", "kernels"]
    assert [line.split()[0] for line in err.splitlines()] == phases
    assert all(re.fullmatch(r"\w+ +[\d.]+ (us|ms|s)", line) for line in err.splitlines())


def test_verbose_adds_a_line_for_each_call(tmp_path: Path, capsys: Capture) -> None:
    assert run(layer(tmp_path), "-v") == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("  ")]
    assert re.match(
        r"  \S+ +f32_gemm_add_relu_4x5x8_\d+x\d+__\w+  \S+ -> \S+ -> \S+ \[split n ", line
    )


def test_quiet_prints_the_verdict_only(tmp_path: Path, capsys: Capture) -> None:
    path = tiny(tmp_path)
    assert run(path, "-q") == 0
    assert capsys.readouterr() == ("", "")
    assert run(path, "-q", "--run") == 0
    out, err = capsys.readouterr()
    assert out.startswith("ok: test ") and out.count("\n") == 1 and err == ""


def test_json_is_one_object(tmp_path: Path, capsys: Capture) -> None:
    assert run(tiny(tmp_path), "--json", "--run") == 0
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert err == ""
    assert found["inputs"] == [{"name": "x", "dtype": "f32", "shape": [2, 3]}]
    assert found["verdict"]["ok"] is True and found["verdict"]["model"] == "test"
    assert found["stats"]["ops"] == 2
    assert run(tiny(tmp_path), "--json") == 0
    assert json.loads(capsys.readouterr().out)["verdict"] is None


def test_a_wrong_result_is_exit_code_1(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant_wrong_relu(monkeypatch)
    assert run(tiny(tmp_path), "--run", "-q") == 1
    assert capsys.readouterr().out.startswith("MISMATCH: test ")
    assert run(tiny(tmp_path), "--run", "--json") == 1
    assert json.loads(capsys.readouterr().out)["verdict"]["ok"] is False


@pytest.mark.exhaustive
@pytest.mark.parametrize("switch", SWITCHES)
def test_each_switch(switch: str, tmp_path: Path, capsys: Capture) -> None:
    assert run(layer(tmp_path), "-X", f"no-{switch}", "--json", "--run") == 0
    stats = json.loads(capsys.readouterr().out)["stats"]
    assert len(stats["calls"]) == {"fuse": 3, "fold": 2}.get(switch, 1)
    plain = switch == "blocked-layouts"
    assert any("NK" in f for layout in stats["layouts"] for f in layout["formats"]) != plain


@pytest.mark.parametrize("target", ["avx2", "generic"])
@pytest.mark.isa("avx2", "fma")
def test_targets(target: str, tmp_path: Path, capsys: Capture) -> None:
    assert run(layer(tmp_path), "--target", target, "--json", "--run") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["isa"] == target and found["verdict"]["isa"] == target
    assert found["stats"]["calls"][0]["kernel"].endswith(f"__{target}")


def test_emit_every_stage(tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    texts = {}
    for stage in ("graph", "tensor-ir", "llvm", "asm", "obj"):
        assert run(layer(tmp_path), "--emit", stage, "-o", str(tmp_path / stage)) == 0
        assert run(layer(tmp_path), "--emit", stage) == 0
        out, err = capsysbinary.readouterr()
        assert err == b""
        assert out == (tmp_path / stage).read_bytes()
        texts[stage] = out
    assert texts["graph"].startswith(
        b'graph("test"):\n  %x : [#users=1] = Node[type=input] () -> f32[4,8]\n'
    )
    assert texts["tensor-ir"].startswith(b'entry = "main"\n\n\ndef f32_gemm_add_relu_4x5x8')
    assert b"define i32 @graphc_entry(" in texts["llvm"]
    assert b"graphc_entry:" in texts["asm"]
    assert texts["obj"].startswith(b"\x7fELF")


def test_dump_ir_numbers_the_stages_that_changed(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "dump"
    assert run(layer(tmp_path), "-q", "--dump-dir", str(folder)) == 0
    names = sorted(path.name for path in folder.iterdir())
    assert names[0] == "00_read.txt" and names[-1].endswith("_llvm.txt")
    assert len({name.split("_")[0] for name in names}) == len(names)
    stages = [re.fullmatch(r"\d\d_(\w+)\.txt", name)[1] for name in names]  # type: ignore[index]
    assert [s for s in stages if s in ("propagate_layouts", "fold_constants", "fuse", "lower", "expand_brgemm")] == [
        *("propagate_layouts", "fold_constants", "fuse", "lower", "expand_brgemm"),
    ]  # fmt: skip
    assert "decompose" not in stages, "nothing to decompose"
    assert (folder / "00_read.txt").read_text().startswith('graph("test"):\n')
    assert "brgemm" in next(folder.glob("*_lower.txt")).read_text()


def test_inputs_from_a_file_fix_free_sizes(tmp_path: Path, capsys: Capture) -> None:
    np.save(tmp_path / "x.npy", np.arange(6, dtype=np.float32).reshape(2, 3))
    for value in (f"@{tmp_path / 'x.npy'}", "f32[2,3]"):
        assert run(free(tmp_path), "--input", f"x={value}", "--json", "--run") == 0
        assert json.loads(capsys.readouterr().out)["inputs"][0]["shape"] == [2, 3]


def test_a_written_artifact_is_named(tmp_path: Path, capsys: Capture) -> None:
    target = tmp_path / "m.gcm"
    assert run(tiny(tmp_path), "-o", str(target)) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"wrote     {target}"
    assert target.exists()


MODEL = "{model}"
KNOWN = ", ".join(SWITCHES)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["nope.onnx"], "there is no file 'nope.onnx'; check its name and its folder"),
        ([MODEL, "-X", "no-magic"], f"switch 'magic' is not known; known are {KNOWN}"),
        ([MODEL, "-X", "fuse"], "-X must be no-SWITCH, got 'fuse'; did you mean 'no-fuse'?"),
        ([MODEL, "--threads", "0"], "threads must be an integer from 1 to 1024, got 0"),
        ([MODEL, "--input", "x"], "--input must be NAME=VALUE, got 'x'; write x=@x.npy, x=random or x=f32[8,13]"),
        ([MODEL, "--input", "z=random"], "--input names 'z', which is not an input of the model; its inputs are x"),
        ([MODEL, "--input", "z=f32[2]"], "there is no input 'z'; its inputs are 'x' (in '{model}')"),
        ([MODEL, "--input", "x=f32[2]"],
         "input 'x': the file declares f32[2,3], got f32[2]; the number of axes must agree (in '{model}')"),
        ([MODEL, "--input", "x=f33[2,3]"],
         f"input spec 'f33[2,3]': dtype 'f33' is not known; known are {', '.join(map(str, ALL))}"),
        ([MODEL, "--input", "x=@no.npy"], "input 'x': there is no file 'no.npy'; check its name and its folder"),
        ([MODEL, "--input", "x=@{model}"],
         "input 'x': '{model}' is not a .npy file of numbers; write one with numpy.save"),
        ([MODEL, "--input", "x=@{archive}"], "input 'x': '{archive}' holds several arrays; give a .npy file of one"),
        ([MODEL, "-q", "--dump-dir", "{model}"],
         "cannot write '{model}' (File exists); give another path"),
        ([MODEL, "-q", "-o", "{folder}/no/m.gcm"],
         "cannot write '{folder}/no/m.gcm' (No such file or directory); make its folder first, or give another path"),
        ([MODEL, "--emit", "llvm", "-o", "{folder}"],
         "cannot write '{folder}' (Is a directory); give the name of a file"),
        ([MODEL, "-o", "m.dll"],
         "-o m.dll: .dll files must be made by a linker of Windows, of an object; write one with "
         "--target ISA@windows -o m.obj"),
        ([MODEL, "-o", "m.exe"],
         "-o m.exe: .exe files must be made by a linker of Windows, of an object; write one with "
         "--target ISA@windows -o m.obj"),
        ([MODEL, "-o", ""], "-o: the name of a file must have a letter or more, got ''; leave -o out to write none"),
        ([MODEL, "-o", "m.dylib"],
         "-o m.dylib: .dylib files must be made by a linker of macOS, of an object; write one with "
         "--target ISA@macos -o m.o"),
        ([MODEL, "--target", "avx2", "--targets", "avx2,avx512", "-o", "m.so"],
         "--target avx2: must be left out beside --targets; list all instruction sets there"),
        ([MODEL, "--targets", "avx2,avx512", "-o", "m.gcm"],
         "--targets is for native libraries; name one with -o, such as m.so"),
        ([MODEL, "--sign", "key", "-o", "m.so"],
         "--sign is for compiled models; name one with -o, such as m.gcm"),
    ],
)  # fmt: skip
def test_bad_input(words: list[str], sentence: str, tmp_path: Path, capsys: Capture) -> None:
    np.savez(tmp_path / "two.npz", a=np.zeros(2), b=np.zeros(2))
    names = {"model": tiny(tmp_path), "folder": str(tmp_path), "archive": str(tmp_path / "two.npz")}
    found = error_of(capsys, *(word.format(**names) for word in words))
    assert found == (2, sentence.format(**names))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["tiny.onnx", "two.npz"], (
        "nothing left behind"
    )


def test_an_input_file_of_another_type(tmp_path: Path, capsys: Capture) -> None:
    path = tiny(tmp_path)
    np.save(tmp_path / "x.npy", np.zeros((2, 3)))
    code, sentence = error_of(capsys, path, "--input", f"x=@{tmp_path / 'x.npy'}")
    assert code == 2
    assert sentence.startswith("input 'x': the file declares f32[2,3], got f64[2,3]")
    assert sentence.endswith(f"(in '{path}')")


def test_a_free_size_may_stay_dynamic(tmp_path: Path, capsys: Capture) -> None:
    assert run(free(tmp_path)) == 0
    shown = capsys.readouterr().out.splitlines()[0]
    assert shown == "model     test: x: f32[batch,3] -> y: f32[batch,3]"


def test_a_dynamic_size_of_a_run(tmp_path: Path, capsys: Capture) -> None:
    for words in (["--size", "batch=5"], [], ["--input", "x=f32[8,3]"]):
        assert run(free(tmp_path), "--run", *words) == 0
        assert "against NumPy" in capsys.readouterr().out
    for text, sentence in (
        ("rows=5", "--size names 'rows', which is not a dynamic dimension of the model; "
         "its dynamic dimensions are batch"),
        ("batch", "--size must be NAME=NUMBER, got 'batch'; write B=2,S=37"),
        ("batch=0", "input 'x' must be f32[batch,3] with batch in 1.., got f32[0,3]"),
    ):  # fmt: skip
        assert error_of(capsys, free(tmp_path), "--run", "--size", text) == (2, sentence)


def test_a_free_number_of_axes_must_be_given(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "free.onnx"
    path.write_bytes(model([node("Add", "x x")], {"x": None}).SerializeToString())
    assert error_of(capsys, str(path)) == (
        2,
        f"the shape of every input must be given, but 'x' is f32[...]; say --input 'x=f32[1,8]' (in '{path}')",
    )


@pytest.mark.parametrize("data", [b"", b"not a model", b"\x08\x08\x12"])
def test_garbage(data: bytes, tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "bad.onnx"
    path.write_bytes(data)
    code, sentence = error_of(capsys, str(path), "-o", str(tmp_path / "m.gcm"))
    wrong = "cannot be decoded as an ONNX model" if data else "a model file must not be empty"
    assert code == 2 and f"'{path}'" in sentence and wrong in sentence
    assert not (tmp_path / "m.gcm").exists()


def test_unknown_ops_are_listed_at_once(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "m.onnx"
    nodes = [node("Foo", "x", "a"), node("Bar", "a")]
    path.write_bytes(model(nodes, {"x": [2]}).SerializeToString())
    code, sentence = error_of(capsys, str(path), "-o", str(tmp_path / "m.gcm"))
    assert code == 3 and "Foo" in sentence and "Bar" in sentence
    assert not (tmp_path / "m.gcm").exists()


def test_an_internal_error_leaves_the_old_artifact(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "m.gcm"
    assert run(tiny(tmp_path), "-q", "-o", str(target)) == 0
    before = target.read_bytes()

    def broken(*args: object) -> bytes:
        raise RuntimeError("no code today")

    monkeypatch.setattr("graphc.codegen.kernel_parts.compile_to_part", broken)
    assert run(tiny(tmp_path), "-q", "-o", str(target)) == 4
    lines = capsys.readouterr().err.splitlines()
    assert any("RuntimeError: no code today" in line for line in lines)
    assert lines[-1].startswith("reproducer: ")
    assert target.read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m.gcm", "tiny.onnx"]
