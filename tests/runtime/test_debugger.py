"""Times of nodes, and TVM's table of them."""

from __future__ import annotations

import time

from graphc.runtime.debugger import NodeRow, NodeTime, measure, node_table


def test_warm_up_runs_do_not_count() -> None:
    calls: list[int] = []
    found = measure(lambda: calls.append(1), warmup=2, repeats=5)
    assert len(calls) == 7 and len(found.samples) == 5
    assert min(found.samples) <= found.seconds <= max(found.samples)
    assert found.begin <= found.end <= time.time()
    assert len(measure(lambda: None, warmup=0, repeats=0).samples) == 1


def test_the_table_has_tvms_columns_and_widths() -> None:
    rows = [
        NodeRow(name, kernel, shape, 2, 1, NodeTime(seconds, 0.25, 0.5, (seconds,)))
        for name, kernel, shape, seconds in (
            ("conv0", "f32_gemm_4x24__avx2", (1, 64), 3e-6),
            ("a_longer_name", "__nop", (), 1e-6),
        )
    ]
    heading, dashes, first, second = node_table(rows).splitlines()
    assert heading.split() == (
        [
            "Node",
            "Name",
            "Ops",
            "Time(us)",
            "Time(%)",
            "Start",
            "Time",
            "End",
            "Time",
            "Shape",
            "Inputs",
            "Outputs",
        ]
    )
    assert [len(word) for word in dashes.split()] == [9, 3, 8, 7, 10, 8, 5, 6, 7]
    starts = [heading.index(name) for name in ("Ops", "Time(us)", "Shape")]
    assert [line[s - 1] for line in (first, second) for s in starts] == [" "] * 6
    assert first[starts[0] :].startswith("f32_gemm") and first[starts[1] :].startswith("3.0 ")
    assert first[starts[2] :].startswith("(1, 64)")
    assert "75.0" in first and "25.0" in second and ":00.250000" in first


def test_no_time_at_all_is_no_division() -> None:
    row = NodeRow("a", "k", (1,), 0, 1, NodeTime(0.0, 0.0, 0.0, (0.0,)))
    *_, line = node_table([row]).splitlines()
    assert line.split()[:4] == ["a", "k", "0.0", "0.0"]
