"""Options of a compilation."""

from __future__ import annotations

import pytest

from graphc.base.options import verify_requested


@pytest.mark.parametrize(("text", "requested"), [("", False), ("0", False), ("1", True)])
def test_checks_of_every_stage_are_requested(text: str, requested: bool) -> None:
    assert verify_requested({"GRAPHC_VERIFY": text}) == requested
    assert not verify_requested({})
