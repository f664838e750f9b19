"""The op table of a format is what its modules and the rows of the table say, each once."""

from __future__ import annotations

from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from graphc.frontend.correspondence.gathering import of_all, op_table
from graphc.frontend.correspondence.reading import Pair
from graphc.frontend.correspondence.row import Op, Table


def module(name: str, **tables: Any) -> ModuleType:
    made = ModuleType(name)
    vars(made).update(tables)
    return made


def test_rows_and_functions_of_all_modules_make_the_table() -> None:
    table = Table([Op("relu", x="Relu(a)"), Op("tanh", x="Tanh(a) by own")])

    def read_own(node: Any, name: str) -> str:
        return f"{node.cell[1].text} of {name}"

    families = {
        "first": module("first", PAIRS={"own": Pair(read_own)}, HANDLERS={"Swap": str}),
        "second": module("second", EXPORTERS={"sort": repr}),
        "number": 3,
    }
    handlers, writers = op_table(table, "x", families)
    assert set(handlers) == {"Relu", "Tanh", "Swap"} and set(writers) == {"relu", "tanh", "sort"}
    assert handlers["Tanh"](SimpleNamespace()) == "Tanh(a) by own of tanh"


def test_one_key_of_two_modules_is_refused() -> None:
    families = {name: module(name, HANDLERS={"Add": str}) for name in ("a", "b")}
    with pytest.raises(ValueError, match=r"HANDLERS of <module 'b'> and of another .* \['Add'\]"):
        of_all(families, "HANDLERS")
