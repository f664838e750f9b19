"""Registrations of a test are gone after it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from graphc.frontend.correspondence.gathering import ADDED, add_row
from graphc.frontend.correspondence.row import Op
from graphc.graph_ir.ir import registry
from graphc.graph_ir.schedule import user_code


@pytest.fixture(autouse=True)
def nothing_stays(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    registry.names()  # graphc's own are loaded
    monkeypatch.setattr(registry, "_CLASSES", dict(registry._CLASSES))
    tables: list[dict] = [ADDED, user_code.KERNELS, user_code.PASSES, user_code.PATTERNS]
    kept = [dict(table) for table in tables]
    for table in tables:
        table.clear()
    yield
    for name in list(ADDED):
        add_row(Op(name))  # no cells: formats read and write it no longer
    for table, before in zip(tables, kept, strict=True):
        table.clear()
        table.update(before)
