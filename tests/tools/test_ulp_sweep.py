from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

from graphc.cli import main
from graphc.codegen.host import host_supports
from graphc.graph_ir.ir.registry import lookup, names
from graphc.graph_ir.ops.elementwise import Elementwise
from graphc.tools.ulp_sweep import CASES, CHUNK, ISAS, chunks, sweep, ulp_error

EXACT = {
    "abs", "ceil", "clamp", "floor", "isinf", "isnan", "neg", "relu", "round", "sign", "trunc",
}  # fmt: skip
"""Ops of one float whose results are not rounded."""


def dense():
    """A million of all bit patterns, and a quarter of a million where the functions change."""
    yield from chunks(4099)
    yield np.concatenate(
        [
            np.linspace(-111, 20, CHUNK // 2, dtype=np.float32),
            np.linspace(-15, 3, CHUNK // 2, dtype=np.float32),
        ]
    )


@pytest.mark.exhaustive
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_bound_holds_in_compiled_models(case):
    isas = [isa for isa in ISAS if host_supports(isa)]
    for isa, worst in sweep(case, isas, dense()).items():
        assert worst.error <= case.bound, f"{isa}: {worst.error} ULP at {worst.at!r}"


def test_every_function_of_one_float_has_its_bound():
    classes = [lookup(name) for name in names()]
    rows = [c.row for c in classes if issubclass(c, Elementwise) and "float" in c.row.accepts]
    unary = {row.name for row in rows if len(row.inputs) == 1 and row.name != "div_constant"}
    assert unary == EXACT | {case.op for case in CASES}


def test_all_bit_patterns_are_met_once():
    parts = [x.view(np.uint32) for x in chunks(1 << 13)]
    assert sum(part.size for part in parts) == 1 << 19
    assert np.unique(np.concatenate(parts)).size == 1 << 19


def test_errors_are_counted_in_units_of_the_last_place():
    exact = np.array([1.0, 1e-45, 1e39, np.nan, np.inf, 1.0])
    got = np.array([1 + 2.0**-23, 0, np.inf, np.nan, np.inf, np.nan], np.float32)
    np.testing.assert_allclose(ulp_error(got, exact), [1, 0.714, 0, 0, 0, np.inf], atol=1e-3)


def test_the_command_says_which_bound_is_exceeded(capsys, monkeypatch):
    assert main(["dev", "ulp", "sqrt", "--stride", "65537", "--target", "avx2", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["function"] == "sqrt" and facts["ulp"] == 0.5
    strict = tuple(dataclasses.replace(case, bound=0.7) for case in CASES if case.op == "exp")
    monkeypatch.setattr("graphc.tools.ulp_sweep.CASES", strict)
    assert main(["dev", "ulp", "exp", "--stride", "65537", "--target", "avx2"]) == 1
    assert "EXCEEDED" in capsys.readouterr().out


def test_an_op_without_a_bound_is_a_sentence(capsys):
    assert main(["dev", "ulp", "relu"]) == 2
    assert "op 'relu' has no bound; known are " in capsys.readouterr().err
