"""The checks of an installation find what is broken."""

from __future__ import annotations

import pytest

from graphc import UserError
from graphc.runtime.executor import CompiledModel
from graphc.tools import doctor


def test_a_check_that_fails_says_why_and_the_others_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> CompiledModel:
        raise UserError("nothing compiles; try again")

    monkeypatch.setattr(doctor, "compile", broken)
    found = {check.name: check for check in doctor.checks()}
    assert set(found) == {"compile", "cache"}
    assert not found["compile"].ok and found["compile"].text == "nothing compiles; try again"


def test_wrong_results_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    call = CompiledModel.__call__
    monkeypatch.setattr(CompiledModel, "__call__", lambda self, *x: call(self, *x) + 1)
    found = {check.name: check for check in doctor.checks()}
    assert not found["compare"].ok and "differ from the NumPy reference" in found["compare"].text
    assert not found["library"].ok and found["threads"].ok
