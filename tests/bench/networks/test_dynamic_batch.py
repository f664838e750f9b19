"""Networks compiled for any batch have the bits of those compiled for one: 1, 2, odd, and around a register tile.

All networks of the suites take minutes this way (`tests/measurements/dynamic_batches.py`); here is one with residual
sums, whose small images have convolutions in the direct form for few of them and in Winograd forms for more.
"""

from __future__ import annotations

from support.dynamic_batches import differing


def test_a_network_of_a_dynamic_batch() -> None:
    assert differing("resnet18", (1, 2, 3, 5, 8)) == []
