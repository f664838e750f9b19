"""Every row of the correspondence table: its names exist, it is read by every format it spells, and comes back."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterator
from pathlib import Path

import numpy as np
import pytest

from graphc.base.dtypes import F32, S32
from graphc.base.errors import UnsupportedError
from graphc.frontend import load
from graphc.frontend.correspondence.row import Op, Row
from graphc.frontend.correspondence.spelling import Spelling
from graphc.frontend.correspondence.tables import TABLE
from graphc.frontend.correspondence.values import attributes_of, same
from graphc.frontend.formats import FORMATS
from graphc.frontend.ge.op_table import HANDLERS as GE
from graphc.frontend.ge.op_table import WRITERS as GE_WRITERS
from graphc.frontend.ge.signatures import signatures
from graphc.frontend.onnx.op_table import HANDLERS as ONNX
from graphc.frontend.onnx.op_table import WRITERS as ONNX_WRITERS
from graphc.frontend.pnnx.op_table import HANDLERS as PNNX
from graphc.frontend.pnnx.op_table import WRITERS as PNNX_WRITERS
from graphc.frontend.torch.op_table import HANDLERS as ATEN
from graphc.frontend.tvm.op_table import OPERATORS as TVM
from graphc.frontend.tvm.params import read_params
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.ir.registry import lookup, names
from support.every_op import SHAPE
from support.graphs import random_input
from support.row_examples import row_example

CONVERTED: dict[str, tuple[Collection[str], Collection[str]]] = {
    "onnx": (ONNX, ONNX_WRITERS),
    "ge": (GE, GE_WRITERS),
    "pnnx": (PNNX, PNNX_WRITERS),
    "tvm": (TVM, names()),  # every op is written: what TVM has no name for by ours
}
"""The formats that read and write with the table so far."""


def cells(format_name: str) -> Iterator[tuple[Row, Spelling]]:
    for row in TABLE.rows:
        for spelling in row.spellings(format_name):
            yield row, spelling


def test_core_aten_reads_what_it_spells() -> None:
    spelled = {name for _, s in cells("aten") if s.is_read for name in s.types}
    assert spelled <= set(ATEN)


@pytest.mark.parametrize("format_name", CONVERTED)
def test_the_format_reads_and_writes_what_it_spells(format_name: str) -> None:
    read, written = CONVERTED[format_name]
    for row, spelling in cells(format_name):
        assert not spelling.is_read or set(spelling.types) <= set(read), spelling.text
        assert not isinstance(row, Op) or not spelling.is_written or row.name in written


@pytest.mark.parametrize("format_name", ["onnx", "ge", "pnnx", "tvm", "hlo", "aten"])
def test_names_of_attributes_are_those_of_the_op_or_function(format_name: str) -> None:
    for row, spelling in cells(format_name):
        if isinstance(row, Op):
            lookup(row.name)
        elif hasattr(row, "function"):
            assert spelling.mentioned <= set(inspect.signature(row.function).parameters), (
                spelling.text
            )
        if not spelling.pair:
            for name in spelling.mentioned - {"rank"}:
                assert row.kind(name), spelling.text


def test_operands_and_attributes_of_ge_are_those_of_its_signatures() -> None:
    for _, spelling in cells("ge"):
        for type_name in spelling.types:
            signature = signatures()[type_name]
            known = {name.rstrip("?*") for name in signature.inputs}
            if not spelling.pair:
                assert {f.name for f in spelling.formals} <= known, spelling.text
                assert {a.name for a in spelling.attributes} <= {
                    *signature.defaults,
                    *signature.required,
                }


WRITTEN = [
    pytest.param(name, row, spelling, id=f"{name}-{spelling.text}")
    for name in CONVERTED
    for row, spelling in cells(name)
    if isinstance(row, Op) and spelling.is_written
]


@pytest.mark.exhaustive
@pytest.mark.parametrize(("target", "row", "spelling"), WRITTEN)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_what_a_row_writes_it_reads(
    target: str, row: Row, spelling: Spelling, tmp_path: Path
) -> None:
    graph = row_example(row, spelling)
    path = tmp_path / f"m{FORMATS[target].suffix}"
    files = FORMATS[target].write(graph, path)
    specs = {op.name: str(op.outputs[0].details) for op in graph.inputs} if target == "ge" else None
    again = load(path, specs, read_params(files[1]) if target == "ge" and len(files) > 1 else None)
    inputs = [
        random_input(np.random.default_rng(0), x.details) for op in graph.inputs for x in op.outputs
    ]
    for mine, wanted in zip(again.evaluate(inputs), graph.evaluate(inputs), strict=True):
        assert (mine.dtype, mine.shape) == (wanted.dtype, wanted.shape)
        np.testing.assert_allclose(mine.astype(float), wanted.astype(float), rtol=2e-6, atol=1e-6)
    if not spelling.pair:
        (mine_op,), (op,) = ([o for o in g.ops if o.op_name == row.name] for g in (again, graph))
        mine_attrs = attributes_of(mine_op)
        assert all(same(mine_attrs.get(k), v) for k, v in attributes_of(op).items())


@pytest.mark.parametrize("format_name", ["onnx", "ge", "pnnx"])
def test_what_no_cell_says_is_refused_with_its_reason(format_name: str, tmp_path: Path) -> None:
    graph = Graph("example")
    x = graph.make_input(LogicalTensor(F32, SHAPE), "x")
    graph.make_output(graph.make("arg_min", [x], {"axis": 1, "last": True}).outputs[0])
    graph.make_output(
        graph.make("popcount", [graph.make_input(LogicalTensor(S32, (3,)), "i")]).outputs[0]
    )
    with pytest.raises(UnsupportedError, match="cannot express: .*popcount"):
        FORMATS[format_name].write(graph, tmp_path / f"m{FORMATS[format_name].suffix}")
