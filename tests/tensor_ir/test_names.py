"""Identifiers from any text, and names that cannot meet."""

from __future__ import annotations

import keyword

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphc.tensor_ir.names import Names, identifier, is_identifier, value_name
from support.names import HOSTILE


@given(st.text() | st.sampled_from(HOSTILE), st.integers(2, 80))
def test_any_text_gives_a_short_identifier(text: str, most: int) -> None:
    name = identifier(text, most)
    assert is_identifier(name) and 0 < len(name) <= most
    assert identifier(name, most) == name


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("relu", "relu"), ("my-op", "my_op"), ("20.bias", "_20_bias"), ("x²", "x2"), ("½", "_1_2"), ("é", "e"),
        ("", "unnamed"), ("层", "_"), ("lambda", "lambda_"), ("a" * 100, "a" * 60),
    ],
)  # fmt: skip
def test_it_resembles_the_text(text: str, expected: str) -> None:
    assert identifier(text) == expected


@pytest.mark.parametrize("name", ["", "2x", "x²", "a.b", "a b", "x\0", *keyword.kwlist])
def test_what_is_no_identifier(name: str) -> None:
    assert not is_identifier(name)


@given(st.text(), st.sampled_from(["", "s0", "p1"]), st.integers(0, 99), st.integers(0, 99))
def test_names_of_values_and_fresh_names_differ(kind: str, reader: str, n: int, m: int) -> None:
    name = value_name(kind, reader, n)
    names = Names(["row", "tile"])
    assert name not in {names.fresh("row"), names.fresh("tile"), names.fresh(identifier(kind))}
    assert (name == value_name(kind, reader, m)) == (n == m)
    assert name != value_name(kind, f"{reader}x", n)
