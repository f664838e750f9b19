"""The list of ops shows what schemas declare."""

from __future__ import annotations

import pytest

from graphc.graph_ir.inspect.op_listing import op_listing
from graphc.graph_ir.ir.registry import names, schema_of


def test_an_op_with_its_attributes() -> None:
    assert op_listing(["leaky_relu"]).split("\n") == [
        "leaky_relu(x)  fusible: x where x >= 0, else alpha * x.",
        "  alpha: float, default 0.01  slope below 0",
    ]


def test_optional_and_variadic_operands() -> None:
    assert op_listing(["layer_norm"]).startswith("layer_norm(x, scale?, bias?)  composite: ")
    assert op_listing(["concat"]).startswith("concat(x...)  fusible: ")


@pytest.mark.parametrize("op_name", names())
def test_every_attribute_is_listed(op_name: str) -> None:
    lines = op_listing([op_name]).split("\n")
    assert lines[0].startswith(f"{op_name}(")
    assert op_listing([op_name]) in op_listing()
    for key in schema_of(op_name).attributes:
        assert any(line.startswith(f"  {key}: ") for line in lines)
