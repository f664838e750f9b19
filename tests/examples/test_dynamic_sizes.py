"""The examples compiled for any size have the bits of those compiled for one.

Two of the five sizes of each; all are compared by `tests/measurements/dynamic_batches.py`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from support.dynamic_examples import EXAMPLES, differing_sizes, dynamic_example


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_of_dynamic_sizes(name: str, tmp_path: Path) -> None:
    example = dynamic_example(name, tmp_path)
    assert differing_sizes(example, example.sizes[1:4:2]) == []
