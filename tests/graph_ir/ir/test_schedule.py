"""Schedules as text."""

from __future__ import annotations

import re

import pytest

from graphc.base.errors import InternalError, UserError
from graphc.graph_ir.ir.schedule import Schedule, parse_schedule


@pytest.mark.parametrize(
    "text", ["gemm mr=4 nv=3 b=panels", "attention softmax=online rows=8", "mr=1", "direct"]
)
def test_round_trip(text: str) -> None:
    assert str(parse_schedule(text)) == text


def test_one_step_tells_steps_from_settings() -> None:
    """A first step that does not exist is told by those that read the steps."""
    assert parse_schedule("merge n 3;split  n 24").steps == "merge n 3; split n 24"
    with pytest.raises(UserError, match="the first of several steps is one of split, tile"):
        parse_schedule("merge n 3")


def test_the_algorithm_may_be_named_like_a_setting() -> None:
    assert parse_schedule("algorithm=winograd form=f4") == parse_schedule("winograd form=f4")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "  ",
        "direct algorithm=gemm",
        "gemm mr",
        "gemm mr=",
        "gemm mr=4 mr=5",
        "gemm mr=-1",
        "4=mr",
        "gemm gemm",
    ],
)
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(UserError, match=re.escape(f"schedule '{text}'")):
        parse_schedule(text)


def test_parameters_by_kind() -> None:
    schedule = Schedule.of("gemm", mr=4, b="panels").replaced(mr=6)
    assert schedule.number("mr") == 6 and schedule.word("b") == "panels"
    for wrong in (
        lambda: schedule.number("b"),
        lambda: schedule.word("mr"),
        lambda: schedule.number("kc"),
    ):
        with pytest.raises(InternalError):
            wrong()
