"""Stop texts are found wherever pieces of text are cut, and nothing of them is passed on."""

from __future__ import annotations

import random

import pytest

from graphc.language_models.stops import Stops


@pytest.mark.parametrize(
    ("text", "stops", "wanted"),
    [
        ("one two three", [], "one two three"),
        ("one two three", ["two"], "one "),
        ("one two three", ["three", "wo"], "one t"),
        ("aaab", ["ab"], "aa"),
        ("ababac", ["abac"], "ab"),
        ("almost sto", ["stop"], "almost sto"),
        ("x", ["", "x"], ""),
    ],
)
def test_pieces(text: str, stops: list[str], wanted: str) -> None:
    rng = random.Random(0)
    for _ in range(20):
        cuts = sorted(rng.choices(range(len(text) + 1), k=3))
        pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
        found, one = "", Stops(stops)
        for piece in pieces:
            found += one.push(piece)
            if one.found:
                break
        assert found + one.rest() == wanted
        assert one.found == (wanted != text)
