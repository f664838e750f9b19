"""Progress: nothing, plain lines, or a bar, always on stderr."""

from __future__ import annotations

import re
import sys

import pytest

from graphc.cli.progress import Report, progress

Capture = pytest.CaptureFixture[str]


def work(report: Report) -> None:
    report("read", 0, 1)
    report("read", 1, 1)
    report("lower", 0, 1)
    for done in (1, 2, 3):
        report("lower", done, 3)
    report("lower", 1, 1)


def test_quiet_says_nothing(capsys: Capture) -> None:
    with progress(True) as report:
        work(report)
    assert capsys.readouterr() == ("", "")


def test_a_line_for_each_phase_when_it_ends(capsys: Capture) -> None:
    with progress(False) as report:
        work(report)
        out, err = capsys.readouterr()
    assert out == ""
    lines = err.splitlines()
    assert [line.split()[0] for line in lines] == ["read", "lower"]
    assert all(re.fullmatch(r"\w+ +[\d.]+ (us|ms|s)", line) for line in lines)


def test_a_long_phase_gives_signs_of_life(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 0.0, 3.0, 6.0, 6.0, 7.0, 20.0, 20.0])
    monkeypatch.setattr("graphc.cli.progress.time.perf_counter", lambda: next(clock))
    with progress(False) as report:
        for done in range(5):
            report("nodes", done, 4)
    lines = capsys.readouterr().err.splitlines()
    assert lines == ["nodes     2 of 4, 6 s, about 6 s left", "nodes         20.0 s"]


def test_an_end_without_a_beginning_is_no_line(capsys: Capture) -> None:
    with progress(False) as report:
        report("read", 1, 1)
    assert capsys.readouterr().err == ""


def test_a_bar_on_a_terminal(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with progress(False) as report:
        work(report)
    out, err = capsys.readouterr()
    assert out == ""
    assert "read" in err and "lower" in err and "ms" not in err


def test_an_error_goes_through(capsys: Capture) -> None:
    with pytest.raises(ValueError, match="stop"), progress(False) as report:
        report("read", 0, 1)
        raise ValueError("stop")
    assert capsys.readouterr().err == ""
