"""Worker processes: they answer, and what kills or delays them is an outcome."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphc.base.errors import UserError
from graphc.tools.fuzz.campaign import Tally, read_tally, run_campaign
from graphc.tools.fuzz.case import random_case
from graphc.tools.fuzz.outcome import DEAD, RIGHT, SLOW, Outcome
from graphc.tools.fuzz.workers import Worker, Workers


def test_a_worker_answers_dies_and_answers_again(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = Worker()
    try:
        assert worker.check({"seed": 16, "index": 0}).kind == RIGHT
        assert worker.check(random_case(16, 1).to_json()).kind == RIGHT
        process = worker._process
        assert process is not None
        process.kill()
        process.wait()
        assert worker.check({"seed": 16, "index": 2}) == Outcome(DEAD, "", "signal 9")
        assert worker.check({"seed": 16, "index": 2}).kind == RIGHT
        monkeypatch.setattr(worker, "_timeout", 0.0)
        assert worker.check({"seed": 16, "index": 3}).kind == SLOW
        monkeypatch.setattr(worker, "_timeout", 60.0)
        assert worker.check({"seed": 16, "index": 3}).kind == RIGHT
    finally:
        worker.close()


def test_a_campaign_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    file = tmp_path / "tally.json"
    seen: list[int] = []
    with Workers(2) as workers:
        first = read_tally(file, 16)
        run_campaign(first, 5, workers, lambda index, _: seen.append(index), file)
        assert (seen, first.done) == ([0, 1, 2, 3, 4], 5)
        second = read_tally(file, 16)
        assert second == first
        run_campaign(second, 9, workers, lambda index, _: seen.append(index), file)
    assert seen == list(range(9)) and second.counts == {RIGHT: 9}
    with pytest.raises(UserError, match="is of seed 16, got --seed 17"):
        read_tally(file, 17)
    file.write_text("{}")
    with pytest.raises(UserError, match="is not a file of `graphc dev fuzz --resume`"):
        read_tally(file, 16)


def test_a_tally_counts_failures_and_refusals() -> None:
    tally = Tally(1)
    tally.add(0, Outcome(RIGHT, refusals=("onnx: no word for it",)))
    tally.add(1, Outcome("refused", "compile", "op 'a' of 7 elements"))
    tally.add(2, Outcome("refused", "compile", "op 'b' of 9 elements"))
    tally.add(3, Outcome("wrong", "run", "result 0"))
    assert tally.counts == {"right": 1, "refused": 2, "wrong": 1}
    assert tally.refusals == {"onnx": 1, "refused compile op # of # elements": 2}
    assert [index for index, _ in tally.failures] == [3]
    assert Tally.from_json(tally.to_json()) == tally
