"""Sizes times numbers that are not fractions, and their text."""

from __future__ import annotations

import math

import numpy as np
import pytest

from graphc.base.dims import Symbol, bounds, evaluate, size, substitute
from graphc.base.scaled_sizes import scaled
from graphc.base.size_limits import at_least
from graphc.base.size_text import parse_size
from graphc.base.symbols import NeedsLimit
from graphc.tensor_ir.builder import size_expr
from graphc.tensor_ir.sizes import size_of

H = Symbol("H", 1, 1000)


@pytest.mark.parametrize("factor", [0.3, 0.57, 1.7, 1.1, 1e-3, 2.5])
def test_it_rounds_like_floats(factor: float) -> None:
    single = float(np.float32(factor))
    wide, narrow = scaled(size(H), factor), scaled(size(H), single, 32)
    for n in (1, 2, 3, 7, 10, 64, 99, 100, 101, 1000):
        assert evaluate(wide, {"H": n}) == scaled(n, factor) == math.floor(n * factor)
        wanted = math.floor(np.float32(n) * np.float32(factor))
        assert evaluate(narrow, {"H": n}) == scaled(n, single, 32) == wanted


def test_short_fractions_are_quotients_and_others_are_read_back() -> None:
    h = size(H)
    assert str(scaled(h, 1.5)) == "H+H//2"
    for value in (
        scaled(h, 0.57),
        2 * scaled(h + 1, 1e-05) - h,
        scaled(h, float(np.float32(0.3)), 32),
    ):
        assert parse_size(str(value), {"H": H}) == value
    assert str(scaled(h, 0.57)) == "floor(H*0.57)"
    assert str(scaled(2 * h, float(np.float32(0.57)), 32)) == "floor((2*H)*0.57f)"
    for text in ("floor(H)", "floor(H*)", "floor(H*0.5", "floor(*0.5)"):
        with pytest.raises((ValueError, KeyError)):
            parse_size(text, {"H": H})


def test_ranges_limits_and_code() -> None:
    h = size(H)
    assert bounds(scaled(h, 0.57)) == (0, 570)
    with pytest.raises(NeedsLimit) as needed:
        at_least(scaled(h, 0.3), 1)
    assert needed.value.limit.least == 4
    assert substitute(scaled(h, 0.57), {"H": 100}) == 56
    for value in (scaled(h, 0.57), 3 * scaled(h + 2, 1.7) + 1):
        wide = substitute(value, {"H": size(Symbol("H"))})
        assert size_of(size_expr(value)) == wide
