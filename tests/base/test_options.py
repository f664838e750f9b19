"""Options of a compilation."""

from __future__ import annotations

import pytest

from graphc.base.options import verify_requested


@pytest.mark.parametrize(("text", "asked"), [("", False), ("0", False), ("1", True)])
def test_checks_of_every_stage_are_asked_for(text: str, asked: bool) -> None:
    assert verify_requested({"GRAPHC_VERIFY": text}) == asked
    assert not verify_requested({})
