"""Profiles: stamps in order, results unchanged, facts of each kernel, the trace, and the command."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from graphc import Graph
from graphc.base.dtypes import S32, by_name
from graphc.base.options import CompileOptions
from graphc.bench.roofline import Level, Peak, Roofline
from graphc.bench.stamp_cost import stamp_seconds
from graphc.cli import main
from graphc.cli.run_inputs import input_arrays
from graphc.codegen.module import emit_module
from graphc.driver.compiler import Compilation, compile_stages
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.runtime.executor import CompiledModel
from graphc.tools.profile import MAX_OVERHEAD, Profile, TaskTime, profile, trace_events
from graphc.tools.report.charts import roofline_chart
from graphc.tools.stamped_program import StampedProgram
from support.cli_models import free
from support.process import ROOT
from support.roofs import plant_roofs

MLP = str(ROOT / "examples" / "mlp.onnx")
ROOFS = Roofline("a CPU", "avx2", 2, 1e9, (Level("DRAM", 0, 1e-3),))


@pytest.fixture(scope="module", params=[1, 2])
def compilation(request: pytest.FixtureRequest) -> Compilation:
    return compile_stages(MLP, options=CompileOptions(request.param))


@pytest.fixture(scope="module")
def found(compilation: Compilation) -> Profile:
    return profile(compilation, inputs(compilation), ROOFS, seconds=0.05)


def inputs(compilation: Compilation) -> dict[str, np.ndarray]:
    return input_arrays(compilation.artifact.metadata.inputs, {})


def test_stamps_rise_and_results_are_those_of_the_plain_program(compilation: Compilation) -> None:
    arrays = inputs(compilation)
    wanted = CompiledModel(compilation.artifact, 1).run(None, arrays)
    program = StampedProgram(compilation, arrays)
    for run in (program.stamped, program.traced):
        if run is None:  # one thread
            continue
        program.stamps[:] = 0
        program.results[0][:] = 0
        assert run() == 0
        np.testing.assert_array_equal(program.results[0], wanted[0])
        assert len(program.stamps) == 4 and program.stamps[0] > 0
        assert (np.diff(program.stamps) > 0).all()
    program.stamps[:] = 0
    assert program.plain() == 0 and not program.stamps.any()
    program.close()


def test_without_stamps_the_code_has_none(compilation: Compilation) -> None:
    main = compilation.llvm_ir[compilation.llvm_ir.index('void @"main"') :]
    assert "readcyclecounter" not in main[: main.index("\n}\n")]
    assert emit_module(compilation.module, compilation.target) == compilation.llvm_ir


def test_each_kernel_has_its_facts(found: Profile) -> None:
    assert [k.node for k in found.kernels] == ["relu1.fused", "relu2.fused", "relu3.fused"]
    first = found.kernels[0]
    assert first.source == ("fc1", "fc1.add", "relu1")
    assert first.problem == "matmul m32n512k13 f32"
    assert first.gflop == pytest.approx((2 * 32 * 512 * 13 + 2 * 32 * 512) / 1e9)
    assert first.nbytes >= 4 * (32 * 13 + 512 * 13 + 512 + 32 * 512)
    # Against a machine of 1 MB/s everything is far beyond the roof of its memory.
    assert first.roof == "DRAM" and first.of_roof > 1


@pytest.mark.parametrize(
    ("x", "w", "multiplied"),
    [("f32", "f32", "f32"), ("bf16", "bf16", "bf16"), ("u8", "s8", "u8"), ("f64", "f64", "f64")],
)
def test_the_roof_of_a_kernel_is_that_of_its_types(x: str, w: str, multiplied: str) -> None:
    graph = Graph("layer")
    a = graph.make_input(LogicalTensor(by_name(x), (64, 128)), "a")
    b = graph.make_input(LogicalTensor(by_name(w), (128, 64)), "b")
    attrs = {"dtype": S32} if x == "u8" else {}
    layer = graph.make("matmul_core", [a, b], attrs, "layer").outputs[0]
    graph.make_output(graph.make("relu", [layer], name="relu").outputs[0])
    compilation = compile_stages(graph, options=CompileOptions(1))
    peaks = {"f32": 100.0, "f64": 50.0, "bf16": 800.0, "u8": 1600.0}
    roofs = replace(
        ROOFS,
        gflops=peaks["f32"],
        levels=(Level("DRAM", 0, 1e9),),
        peaks=tuple(Peak(f"{name}x{name}", "an instruction", peaks[name]) for name in peaks),
    )
    found = profile(compilation, inputs(compilation), roofs, seconds=0.01)
    kernel = max(found.kernels, key=lambda k: k.gflop)
    assert kernel.multiplied == multiplied and kernel.roof == "compute"
    assert kernel.roof_seconds == pytest.approx(kernel.gflop / peaks[multiplied])
    assert found.peaks() == {"f32": peaks["f32"], multiplied: peaks[multiplied]}
    assert f"{multiplied} {peaks[multiplied]:.0f} GFLOP/s" in roofline_chart(found)


def test_times_add_up(found: Profile) -> None:
    assert found.runs >= 5 and found.outside >= 0
    assert all(k.seconds > 0 and k.duration > 0 for k in found.kernels)
    assert found.kernels[0].begin == 0.0
    for k, following in zip(found.kernels, found.kernels[1:], strict=False):
        assert k.begin + k.duration == pytest.approx(following.begin)
    assert 0 < found.overhead <= MAX_OVERHEAD and found.stride >= 2


def test_a_model_of_less_than_a_microsecond_is_stamped_in_few_runs(tmp_path: Path) -> None:
    """Eight kernels of some nanoseconds: nine stamps would be a tenth of each run.

    The quietest of five profiles says whether kernels have stamps in them: another process may interrupt one of them.
    """
    compilation = compile_stages(str(ROOT / "examples" / "block.hlo"), options=CompileOptions(1))
    ratios = []
    for _ in range(5):
        found = profile(compilation, inputs(compilation), ROOFS, seconds=0.05)
        share = (len(found.kernels) + 1) * found.stamp_seconds / found.plain_seconds
        assert found.stride == max(2, math.ceil(share / MAX_OVERHEAD))
        assert found.overhead == pytest.approx(share / found.stride)
        assert found.overhead <= MAX_OVERHEAD
        ratios.append(sum(k.seconds for k in found.kernels) / found.seconds)
    assert min(ratios) < 1.2, "stamps are in none of them"


def test_iterations_of_parallel_loops_lie_in_their_kernels(found: Profile) -> None:
    spans = {k.node: (k.begin, k.begin + k.duration) for k in found.kernels}
    assert bool(found.tasks) == (found.threads > 1)
    for task in found.tasks:
        begin, end = spans[task.node]
        # Counters of two cores may differ by a hair.
        assert begin - 1e-5 < task.begin and task.begin + task.duration < end + 1e-5
        assert 0 <= task.thread < found.threads


def test_threads_are_busy_while_iterations_run(found: Profile) -> None:
    k = replace(found.kernels[0], node="k", begin=0.0, duration=2.0)
    tasks = (TaskTime(0, "k", 0, 0.0, 2.0), TaskTime(1, "k", 1, 0.5, 1.0))
    assert replace(found, threads=2, kernels=(k,), tasks=tasks).busy() == {"k": 0.75}
    assert replace(found, threads=4, kernels=(k,), tasks=()).busy() == {"k": 0.25}
    assert all(0 < share <= 1 for share in found.busy().values())


def test_the_trace_is_what_perfetto_reads(found: Profile) -> None:
    events = json.loads(json.dumps(trace_events(found)))["traceEvents"]
    kernels = [e for e in events if e.get("cat") == "kernel"]
    assert [e["name"] for e in kernels] == [k.node for k in found.kernels]
    assert all(e["ph"] == "X" and e["dur"] > 0 and e["tid"] == 0 for e in kernels)
    assert sum(e.get("cat") == "iteration" for e in events) == len(found.tasks)
    named = {e["tid"] for e in events if e["ph"] == "M"}
    assert named == {e["tid"] for e in events}


def test_a_stamp_costs_less_than_a_call() -> None:
    assert 0 < stamp_seconds() < 1e-5


def test_the_command_prints_a_row_per_kernel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plant_roofs(monkeypatch, tmp_path)
    file = tmp_path / "t.json"
    words = ["profile", MLP, "-q", "--seconds", "0.02", "--threads", "1"]
    assert main([*words, "--trace", str(file)]) == 0
    out = capsys.readouterr().out.splitlines()
    total = r"[\d.]+ [um]s a run, [\d.]+ GFLOP/s, [\d.]+ GB/s, \d+ % of the roof"
    assert re.fullmatch(total, out[0]) and out[1].startswith("mlp: 1 thread, ")
    assert out[3].split()[:3] == ["time", "share", "kernels"] and out[4].split()[-1] == "matmul"
    assert out[5].endswith("outside kernels")
    first = next(i for i, line in enumerate(out) if line.endswith("kernel of node")) + 1
    kernels = out[first : first + 3]
    shares = [float(re.findall(r"([\d.]+) %", line)[0]) for line in kernels]
    assert shares == sorted(shares, reverse=True) and kernels[0].split()[-1] == "relu2.fused"
    assert any(
        re.match(r"overhead +\d\.\d\d %: 4 timestamps of \d+ ns in one", line) for line in out
    )
    assert out[-1] == f"wrote {file}" and json.loads(file.read_text())["traceEvents"]
    assert max(map(len, out[:-1])) <= 100
    assert main([*words, "-v"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert any("split n " in line for line in out) and max(map(len, out)) <= 100
    assert main([*words, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["threads"] == 1 and len(facts["kernels"]) == 3
    assert facts["kernels"][0]["of_roof"] > 0 and "tasks" not in facts
    assert [row["type"] for row in facts["by_type"]] == ["matmul"]
    assert facts["by_type"][0]["kernels"] == 3 and facts["of_roof"] > 0


def test_refusals(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", MLP, "-q", "--seconds", "0"]) == 2
    assert "--seconds must be a time above 0, got 0" in capsys.readouterr().err
    words = ["profile", free(tmp_path), "-q", "--seconds", "0.01", "-i", "x=f32[4,3]"]
    assert main([*words, "--trace", str(tmp_path / "no" / "t.json")]) == 2
    assert "cannot write" in capsys.readouterr().err
