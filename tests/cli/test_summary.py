"""The summary of a compilation and the verdict line."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import cast

import pytest

from graphc.base.dtypes import F32
from graphc.cli.summary import Verdict, summary_lines, timing_rows
from graphc.driver.compiler import Outcome
from graphc.driver.phases import Phases
from graphc.driver.request import CompileRequest
from graphc.runtime.artifact import Artifact
from graphc.runtime.metadata import Metadata, TensorSpec

STATS = {
    "ops": 7,
    "kernels": 2,
    "calls": [
        {"op": "fc1.fused", "kernel": "f32_gemm", "note": "fc1 -> relu", "gflop": 0.5},
        {"op": "fc2", "kernel": "f32_gemm.1", "note": "fc2", "gflop": 0.5},
        {"op": "fc3", "kernel": "f32_gemm.1", "note": "fc3", "gflop": 0.5},
    ],
    "layouts": [{"op": "fc1", "formats": ["MK", "NK24n"]}, {"op": "fc2", "formats": ["MK", "NK24n"]}],
    "constants_bytes": 1536,
    "arena_bytes": 3 << 20,
    "arena_lower_bound": 100,
    "gflop": 1.23456,
}  # fmt: skip
META = Metadata(
    "mlp",
    (TensorSpec("x", F32, (8, 13)),),
    (TensorSpec("y", F32, (8,)), TensorSpec("z", F32, ())),
    arena_bytes=3 << 20,
    isa="avx2",
    stats=STATS,
)
VERDICT = Verdict(
    versions={"graphc": "0.1.0", "llvm": "22"},
    cpu="A CPU",
    isa="avx2",
    threads=2,
    model="mlp",
    model_hash="0123456789abcdef",
    seconds=0.0005,
    gflop=0.05,
    peak=100.0,
    outcome="max error 0 against NumPy",
    ok=True,
)


def test_reorders_are_told_where_layouts_are() -> None:
    moved = {"inside": 0, "inside_bytes": 0, "edges": 1, "edge_bytes": 2048}
    lines = summary_lines(replace(META, stats={**STATS, "reorders": moved}), verbose=False)
    assert lines[3] == "reorders  0 inside (0 B), 1 at the edges (2 KiB)"


def test_lines() -> None:
    assert summary_lines(META, False, [("phases", "read 2 ms")]) == [
        "model     mlp: x: f32[8,13] -> y: f32[8], z: f32[]",
        "ops       7 in, 3 calls of 2 kernels out",
        "layouts   NK24n x2",
        "constants 1.5 KiB",
        "arena     3 MiB (live at once: 100 B)",
        "work      1.235 GFLOP",
        "phases    read 2 ms",
    ]


def test_where_the_time_went() -> None:
    phases = Phases(
        seconds={"read": 0.0021, "kernels": 0.25}, kernel_seconds={"llvm": 0.4}, processes=2
    )
    outcome = Outcome(cast(CompileRequest, None), cast(Artifact, None), False, phases)
    rows = [
        ("phases", "read 2, kernels 250 ms"),
        ("kernels", "llvm 400 ms in 2 processes together"),
    ]
    assert timing_rows(outcome) == rows
    alone = replace(outcome, phases=replace(phases, processes=1))
    assert timing_rows(alone)[1] == ("kernels", "llvm 400 ms")
    found = replace(outcome, from_cache=True, phases=Phases(seconds={"cache": 0.001}))
    assert timing_rows(found) == [
        ("phases", "cache 1 ms"),
        ("cache", "had it; --no-cache compiles it anew"),
    ]


def test_verbose_lines() -> None:
    extra = summary_lines(META, verbose=True)[6:]
    assert [line.split() for line in extra] == [
        ["fc1.fused", "f32_gemm", "fc1", "->", "relu"],
        ["fc2", "f32_gemm.1", "fc2"],
        ["fc3", "f32_gemm.1", "fc3"],
    ]


def test_plain_layouts() -> None:
    stats = {**STATS, "layouts": [{"op": "fc1", "formats": ["MK", "KN"]}]}
    lines = summary_lines(Metadata("m", (), (), 0, "avx2", stats=stats), verbose=False)
    assert lines[2] == "layouts   plain only"


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1 KiB"), (1 << 30, "1 GiB"), (5 << 41, "10 TiB")],
)
def test_bytes(count: int, text: str) -> None:
    stats = {**STATS, "constants_bytes": count}
    lines = summary_lines(Metadata("m", (), (), 0, "avx2", stats=stats), verbose=False)
    assert lines[3] == f"constants {text}"


def test_the_verdict_is_one_line() -> None:
    assert str(VERDICT) == (
        "ok: mlp 0123456789ab, 0.5 ms, 100.0 GFLOP/s, 50% of 200; max error 0 against NumPy; "
        "graphc 0.1.0 llvm 22; A CPU, avx2, 2 threads"
    )


def test_the_verdict_as_json() -> None:
    found = json.loads(json.dumps(VERDICT.to_json()))
    assert (found["gflops"], found["share_of_peak"], found["ok"]) == (100.0, 0.5, True)
    assert found["versions"] == {"graphc": "0.1.0", "llvm": "22"}


def test_a_mismatch_says_so() -> None:
    wrong = Verdict(**{**VERDICT.__dict__, "ok": False, "threads": 1})
    assert str(wrong).startswith("MISMATCH: mlp ") and str(wrong).endswith(", 1 thread")


def test_a_run_of_no_time_has_no_speed() -> None:
    assert Verdict(**{**VERDICT.__dict__, "seconds": 0.0}).gflops == 0.0
