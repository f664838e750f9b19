"""The list of ops shows what schemas declare."""

from __future__ import annotations

import pytest

from graphc.graph_ir.inspect.op_listing import op_listing
from graphc.graph_ir.ir.registry import names, schema_of


def test_an_op_with_its_attributes() -> None:
    assert op_listing(["leaky_relu"]).split("\n") == [
        "### leaky_relu",
        "",
        r"`leaky_relu(x)`, fusible. x where x >= 0, else alpha \* x.",
        "",
        "| attribute | type | default | meaning |",
        "|---|---|---|---|",
        "| `alpha` | float | 0.01 | slope below 0 |",
    ]


def test_an_op_without_attributes_and_with_bars() -> None:
    lines = op_listing(["abs"]).split("\n")
    assert len(lines) == 3
    assert lines[2].startswith(r"`abs(x)`, fusible. \|x\|; ")


def test_optional_and_variadic_operands() -> None:
    assert "`layer_norm(x, scale?, bias?)`, composite. " in op_listing(["layer_norm"])
    assert "`concat(x...)`, fusible. " in op_listing(["concat"])


@pytest.mark.exhaustive
@pytest.mark.parametrize("op_name", names())
def test_every_attribute_is_listed(op_name: str) -> None:
    lines = op_listing([op_name]).split("\n")
    assert lines[0] == f"### {op_name}"
    assert op_listing([op_name]) in op_listing()
    for key in schema_of(op_name).attributes:
        assert any(line.startswith(f"| `{key}` | ") for line in lines)
