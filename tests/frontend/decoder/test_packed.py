"""Operands of packed weights: the values of the file bit by bit, in about as many bytes."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.base.block_types import BLOCK_TYPES, BlockType
from graphc.base.dtypes import F32
from graphc.base.options import CompileOptions
from graphc.codegen.host import host_supports, target_for
from graphc.driver.compiler import compile as compile_model
from graphc.frontend.decoder.linear import HALVES, linear
from graphc.frontend.decoder.weights import Weight
from graphc.frontend.op_builder import OpBuilder
from graphc.graph_ir.ir.graph import Array, Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.ops.matmul_nbits import MatmulNBits
from graphc.graph_ir.schedule.context import LowerContext
from support.gguf_files import blocks
from support.lowered import check_interpreted

ISAS = [isa for isa in ("amx", "avx512", "avx2", "generic") if host_supports(isa)]
KINDS = {kind.name: kind for kind in BLOCK_TYPES}


def layer(kind: BlockType | str, raw: Array, m: int) -> tuple[Graph, MatmulNBits, list[Array]]:
    """A linear layer of m rows, its matmul and the operands of that after x."""
    graph = Graph("layer")
    size, elements = (kind.size, kind.elements) if isinstance(kind, BlockType) else (2, 1)
    k = raw.shape[1] // size * elements
    x = graph.make_input(LogicalTensor(F32, (m, k)), "x")
    weight = Weight("w", (len(raw), k), kind, raw)
    graph.make_output(linear(OpBuilder(graph, "layer", "layer"), x, weight))
    (op,) = (op for op in graph.ops if isinstance(op, MatmulNBits))
    return graph, op, [one.producer_owner.attr("value") for one in op.inputs[1:]]


@pytest.mark.parametrize("kind", BLOCK_TYPES, ids=lambda kind: kind.name)
def test_values_and_bytes_of_the_file(kind: BlockType) -> None:
    k = 512
    raw = np.random.default_rng(kind.code).integers(
        0, 256, (6, k // kind.elements * kind.size), np.uint8
    )
    _, op, constants = layer(kind, raw, 1)
    given = [np.zeros((1, k), np.float32), *constants]
    with np.errstate(all="ignore"):
        scale, minimum = op.scales(given)
        levels = op.levels(given).astype(np.float32)
        found = (levels * scale[..., None] + minimum[..., None]).reshape(6, k)
        wanted = kind.values(raw)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("kind", BLOCK_TYPES, ids=lambda kind: kind.name)
def test_packed_bytes_are_those_of_the_file(kind: BlockType) -> None:
    rows, k = 64, 1024
    raw = blocks(kind.name, rows, k, np.random.default_rng(0)).raw
    _, _, constants = layer(kind, raw, 1)
    assert sum(one.nbytes for one in constants) <= 1.06 * raw.nbytes


@pytest.mark.exhaustive
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("kind", BLOCK_TYPES, ids=lambda kind: kind.name)
def test_matmuls_of_every_type(kind: BlockType, isa: str) -> None:
    raw = blocks(kind.name, 37, 512, np.random.default_rng(kind.code), 1.0).raw
    values = kind.values(raw).astype(np.float64)
    for m in (1, 3, 17):
        graph, _, _ = layer(kind, raw, m)
        x = np.random.default_rng(m).standard_normal((m, 512)).astype(np.float32)
        found = compile_model(graph, target=isa, cache=False, threads=1)(x)
        largest = np.abs(x) @ np.abs(values).T
        assert (np.abs(found - x @ values.T) <= 2e-6 * largest).all()


@pytest.mark.exhaustive
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("kind", BLOCK_TYPES, ids=lambda kind: kind.name)
def test_rounded_rows_of_every_type(kind: BlockType, isa: str) -> None:
    """A row of several has the bits of the row alone."""
    raw = blocks(kind.name, 37, 512, np.random.default_rng(kind.code), 1.0).raw
    values = kind.values(raw).astype(np.float64)
    x = np.random.default_rng(0).standard_normal((12, 512)).astype(np.float32)
    graph, _, _ = layer(kind, raw, 12)
    found = compile_model(graph, target=isa, cache=False, threads=1, activations="q8")(x)
    largest = np.abs(x).reshape(12, -1, 32).max(2).repeat(32, 1) @ np.abs(values).T
    assert (np.abs(found - x @ values.T) <= (0.5 / 127 + 1e-6) * largest).all()
    graph, _, _ = layer(kind, raw, 1)
    alone = compile_model(graph, target=isa, cache=False, threads=1, activations="q8")
    np.testing.assert_array_equal(found, np.concatenate([alone(row[None]) for row in x]))


@pytest.mark.exhaustive
@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("kind", HALVES)
def test_floats_of_16_bits_stay_so(kind: str, isa: str) -> None:
    """Integers: every sum is exact. Rows in q8 meet them as they are."""
    for n, k in ((37, 66), (16, 640)):
        random = np.random.default_rng(n)
        weights = random.integers(-9, 10, (n, k)).astype(HALVES[kind].numpy)
        for m in (1, 3, 17):
            graph, _, constants = layer(kind, weights.view(np.uint8).reshape(n, 2 * k), m)
            assert sum(one.nbytes for one in constants) <= 2 * n * k + 4 * n + 4
            x = random.integers(-9, 10, (m, k)).astype(np.float32)
            found = compile_model(graph, target=isa, cache=False, threads=1, activations="q8")(x)
            np.testing.assert_array_equal(found, x @ weights.astype(np.float32).T)


@pytest.mark.parametrize("isa", ["amx", "avx512"])
@pytest.mark.parametrize("kind", HALVES)
def test_floats_of_16_bits_in_programs_for_other_cpus(kind: str, isa: str) -> None:
    weights = np.random.default_rng(0).integers(-9, 10, (52, 64)).astype(HALVES[kind].numpy)
    for m in (1, 3, 17):
        graph, _, _ = layer(kind, weights.view(np.uint8).reshape(52, 128), m)
        check_interpreted(graph, LowerContext(target_for(isa), CompileOptions(1)))


@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_rows_of_16_bits_that_words_do_not_hold_are_f32(k: int) -> None:
    graph, values = Graph("layer"), np.arange(7 * k).reshape(7, k)
    x = graph.make_input(LogicalTensor(F32, (3, k)), "x")
    raw = values.astype("<f2").view(np.uint8)
    weight = Weight("w", values.shape, "<f2", raw)
    graph.make_output(linear(OpBuilder(graph, "layer", "layer"), x, weight))
    rows = np.arange(3 * k, dtype=np.float32).reshape(3, k)
    found = compile_model(graph, cache=False, threads=1)(rows)
    np.testing.assert_array_equal(found, rows @ values.T.astype(np.float32))
