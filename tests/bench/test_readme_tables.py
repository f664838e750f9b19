"""The README's table of single operators, from made-up timings."""

from __future__ import annotations

from typing import Any

from graphc.bench.op_cases import op_families, op_lines
from graphc.bench.readme_tables import ops_table


def result(ratio: float, **others: float) -> dict[str, Any]:
    rows = []
    for name in op_lines():
        peer = others.get(name.replace(" ", "_"), ratio)
        seconds = {"graphc": 1.0, "ort": peer, "openvino": 0.5 * peer}
        engines = {engine: {"min": time, "median": 9.0} for engine, time in seconds.items()}
        rows.append({"case": name, "wrong": ["openvino"], "engines": engines})
    return {"rows": rows}


def test_families_have_their_mean_and_their_worst_case() -> None:
    lines = ops_table(
        [result(2.0, transpose_u8_10=0.5), result(3.0), result(4.0, lstm_100x1x128=1.0)]
    ).splitlines()
    families = op_families()
    assert len(lines) == 2 + len(families) + 1
    assert sum(map(len, families.values())) == len(op_lines())
    assert "| 1.90 | 0.50 (transpose u8 10) | 3.00 | 3.00 (" in lines[2]
    assert lines[2].startswith(f"| Transposes | {len(families['Transposes'])} |")
    assert lines[-1].endswith("| 1.00 (lstm 100x1x128) |")
    assert f"| all | {len(op_lines())} | **1.99** | 0.50 (transpose u8 10) |" in lines[-1]


def test_a_case_that_no_peer_runs_is_left_out() -> None:
    refused = result(2.0)
    refused["rows"][0]["engines"] = {"graphc": {"min": 1.0, "median": 1.0}}
    assert "| 2.00 | 2.00 (transpose 10 197x768) |" in ops_table([refused, refused, refused])
