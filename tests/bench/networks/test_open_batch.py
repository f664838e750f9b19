"""Networks compiled for any batch have the bits of those compiled for one: 1, 2, odd, and around a register tile.

All networks of the suites take minutes this way (`tests/measurements/open_batches.py`); here are the example and one
with residual sums, whose small images have convolutions in the direct form for few of them and in Winograd forms for
more.
"""

from __future__ import annotations

import pytest

from support.open_batches import differing


@pytest.mark.parametrize(
    ("name", "batches"), [("mlp", (1, 2, 11, 13, 64)), ("resnet18", (1, 2, 3, 5, 8))]
)
def test_a_network_of_an_open_batch(name: str, batches: tuple[int, ...]) -> None:
    assert differing(name, batches) == []
