"""Cells of the correspondence table, parsed."""

from __future__ import annotations

import pytest

from graphc.frontend.correspondence.spelling import Attribute, Formal, literal, parse_spelling


def test_operands_and_attributes() -> None:
    s = parse_spelling(
        "F.elu/nn.ELU(input, min?, data*, axes=axes:ints? | alpha, slope=beta?0.25, fmod=1)"
    )
    assert s.types == ("F.elu", "nn.ELU")
    assert s.operands == (
        Formal("input", 0),
        Formal("min", 1, optional=True),
        Formal("data", 2, variadic=True),
    )
    assert s.held == (Formal("axes", 3, optional=True, holds="axes", kind="ints"),)
    assert s.attributes == (
        Attribute("alpha", "alpha"),
        Attribute("slope", "beta", has_default=True, default=0.25),
        Attribute("fmod", literal=1),
    )
    assert s.mentioned == {"alpha", "beta", "axes"}


def test_conditions_pairs_and_directions() -> None:
    s = parse_spelling("Gelu(x) where float, approximate='tanh' by gelu")
    assert (s.kinds, s.fixed, s.pair) == (("float",), {"approximate": "tanh"}, "gelu")
    assert not parse_spelling("AddN(x*) read only").is_written
    only = parse_spelling("Where(X < 0, Ceil(X), X) by trunc write only")
    assert (only.types, only.is_read, only.formals) == (("Where",), False, ())


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        ("-0.5", -0.5),
        ("1/6", 1 / 6),
        ("-inf", -float("inf")),
        ("true", True),
        ("none", None),
        ("'EQ'", "EQ"),
    ],
)
def test_literals(text: str, value: object) -> None:
    assert literal(text) == value
    assert type(literal(text)) is type(value)


@pytest.mark.parametrize(
    "text", ["Relu(X", "Relu(X y)", "Relu(X?3)", "Relu(X) where halves", "Relu(X | a b)"]
)
def test_what_is_no_cell_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="Relu"):
        parse_spelling(text)
