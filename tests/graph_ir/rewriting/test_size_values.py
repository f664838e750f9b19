"""Shape arithmetic on dynamic sizes, beside Python's."""

from __future__ import annotations

import pytest

from graphc.base.dims import Symbol, evaluate, size
from graphc.graph_ir.rewriting.size_values import Real


@pytest.mark.parametrize(
    ("factor", "divisor"), [(0.5, 1), (1, 2), (0.75, 1), (1.25, 1), (1, 7), (3, 8)]
)
def test_sizes_are_rounded_as_python_does(factor: float, divisor: int) -> None:
    """Ties to the even number."""
    real = Real(size(Symbol("N", 0, 1000)), 64)
    real = real * factor if divisor == 1 else real * factor / divisor
    found = real.rounded("round").size
    for n in range(100):
        assert evaluate(found, {"N": n}) == round(n * factor / divisor)
