"""The record of language models: rows of a result, and what a run measures and keeps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from graphc.base.errors import UserError
from graphc.bench import decode_record
from graphc.bench.decode import EXACT, LLAMA, ROUNDED
from graphc.bench.decode_genai import GENAI
from graphc.bench.decode_models import GEMMA, decode_cases
from graphc.bench.records import Cell, read_record


def result(threads: int, rate: float) -> dict[str, Any]:
    rates = {EXACT: 2 * rate, ROUNDED: 3 * rate, LLAMA: rate, GENAI: 5.0}
    return {
        "threads": threads,
        "rows": [
            {"case": "prompt 16", "tokens_per_second": rates, "roof": 0.0},
            {"case": "decode at 0", "tokens_per_second": {EXACT: 8.0, ROUNDED: 9.0}, "roof": 10.0},
        ],
    }


def test_rows_of_a_result() -> None:
    assert decode_record.rows_of("m", result(2, 10.0)) == [
        ["m", 2, "prompt 16", 20.0, 30.0, 10.0, 5.0, 2.0, 3.0, None],
        ["m", 2, "decode at 0", 8.0, 9.0, None, None, None, None, 90.0],
    ]


def test_a_run_continues_and_replaces_what_is_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calls: list[tuple[str, int]] = []

    def measured(model: str, threads: int, rounds: int) -> list[list[Cell]]:
        calls.append((model, threads))
        return decode_record.rows_of(model, result(threads, 10.0 * len(calls)))

    monkeypatch.setattr(decode_record, "measured", measured)
    monkeypatch.setattr(decode_record.metadata, "version", lambda _: "1")
    folder = str(tmp_path / "records")
    decode_record.main([folder, "--only", "Qwen3 0.6B Q4", "--threads", "1"])
    decode_record.main([folder, "--only", "Q4_K_M"])
    llama, experts = "Llama 1B Q4_K_M", "Qwen3 MoE 1B Q4_K_M"
    qwen = ["Qwen3 0.6B Q4_0", "Qwen3 0.6B Q4_K_M"]
    wanted = [
        (qwen[0], 1),
        (qwen[1], 1),
        (GEMMA, 1),
        (llama, 1),
        (experts, 1),
        (GEMMA, 2),
        (qwen[1], 2),
        (llama, 2),
        (experts, 2),
    ]
    assert calls == wanted
    decode_record.main([folder, "--only", "Gemma", "--threads", "1", "--again"])
    decode_record.main([folder, "--minutes", "0"])
    decode_record.main([folder, "--minutes", "0", "--name", "decode-other"])
    assert "decode_record docs/records --name decode-other`" in capsys.readouterr().out
    decode_record.main([folder, "--minutes", "0"])
    assert calls == [*wanted, (GEMMA, 1)]
    record = read_record(tmp_path / "records" / "decode.json")
    names = decode_cases("")
    order = [(names.index(str(row[0])), int(str(row[1]))) for row in record.rows]
    assert order == sorted(order) and len(order) == 18
    assert record.rows[0][:4] == [GEMMA, 1, "prompt 16", 200.0]
    assert (
        f"| {GEMMA} | 1 | prompt 16 | 200.0 | 300.0 | 100.0 | 5.0 | 2.00 | 3.00 |"
        in capsys.readouterr().out
    )


def test_rows_of_another_cpu_are_not_mixed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decode_record.metadata, "version", lambda _: "1")
    path = tmp_path / "decode.json"
    path.write_text(decode_record.record_of([], "decode").to_text())
    assert decode_record.known_rows(path) == [] == decode_record.known_rows(tmp_path / "no.json")
    monkeypatch.setattr(decode_record, "cpu_name", lambda: "other")
    with pytest.raises(UserError, match="and this CPU is other; give another --name"):
        decode_record.main([str(tmp_path), "--minutes", "0"])
