"""Durations in the unit that suits them."""

from __future__ import annotations

import pytest

from graphc.base.durations import shown_time

SHOWN = {
    0.01741986: "17.4 ms", 8.43e-4: "843 us", 2e-8: "0.02 us", 0.0: "0.00 us", 1.0: "1.00 s",
    0.9999: "1.00 s", 9.996e-3: "10.0 ms", 0.0999: "99.9 ms", 0.09996: "100 ms", 125.0: "125 s",
}  # fmt: skip


@pytest.mark.parametrize("seconds", SHOWN)
def test_three_digits_and_a_unit(seconds: float) -> None:
    assert shown_time(seconds) == SHOWN[seconds]
