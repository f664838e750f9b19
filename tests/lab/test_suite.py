"""The suite of kernels: eighty problems, each once, that all can be read."""

from __future__ import annotations

from graphc.lab.read import EXPRESSION, KINDS
from graphc.lab.suite import kernels


def test_eighty_problems_of_every_kind() -> None:
    found = kernels()
    assert len(found) == len(set(found)) == 80
    kinds = {line.split()[0] for line in found}
    assert {"matmul", "gemv", "conv", "dwconv", "attention", "reduce", "transpose", "y"} <= kinds
    assert kinds - {"y"} <= KINDS.keys() and EXPRESSION
    assert kernels("dwconv") and len(kernels("dwconv")) == 4
