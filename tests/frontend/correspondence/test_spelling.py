"""Cells of the correspondence table, parsed."""

from __future__ import annotations

import pytest

from graphc.frontend.correspondence.spelling import Attribute, Formal, literal, parse_spelling
from graphc.frontend.correspondence.values import understood


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


def test_types_that_share_a_name_and_differ_in_a_character() -> None:
    s = parse_spelling("torch./Tensor./aten::roll/nn.Roll[12]d(input, shifts=shifts)")
    assert s.types == ("torch.roll", "Tensor.roll", "aten::roll", "nn.Roll1d", "nn.Roll2d")


def test_attributes_by_position_may_have_defaults_and_not_matter() -> None:
    s = parse_spelling("sort(input, dim=axis?0, sparse=_ | stable=_)")
    assert s.held == (Formal("dim", 1, optional=True, holds="axis", has_default=True, default=0),)
    assert (s.ignored, s.attributes, s.mentioned) == (("sparse", "stable"), (), {"axis"})


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


def test_an_attribute_that_must_have_a_value_may_have_a_default() -> None:
    fixed, free = parse_spelling("norm(x | axis=1?1, mode='a')").attributes
    assert (fixed.literal, fixed.has_default, fixed.default) == (1, True, 1)
    assert (free.literal, free.has_default) == ("a", False)


@pytest.mark.parametrize(
    ("value", "kind", "wanted"),
    [
        (3, "int", 3),
        (1, "float", 1.0),
        (1, "bool", True),
        ("a", "text", "a"),
        (4, "ints", (4,)),
        (((1, 2), [3]), "axes", (1, 2, 3)),
        ((2,), "single", 2),
    ],
)
def test_literals_are_understood_by_kind(value: object, kind: str, wanted: object) -> None:
    assert understood(value, kind) == wanted


@pytest.mark.parametrize(
    ("value", "kind", "rule"),
    [
        (True, "int", "an integer"),
        (True, "float", "a number"),
        ("1", "bool", "true or false"),
        (1, "text", "a string"),
        ((1, True), "ints", "integers"),
        ((1, 2), "single", "one integer"),
        (1.5, "ints", "integers"),
    ],
)
def test_literals_of_another_kind_are_refused(value: object, kind: str, rule: str) -> None:
    with pytest.raises(ValueError, match=f"^{rule}$"):
        understood(value, kind)
