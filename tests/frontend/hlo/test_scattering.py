"""scatter and select-and-scatter against NumPy loops over every update."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphc
from graphc.frontend.hlo import import_hlo, parse_hlo
from support.hlo_text import ADD, module, one_op, run

RNG = np.random.default_rng(13)
SECOND = "second {\n  a = f32[] parameter(0)\n  ROOT b = f32[] parameter(1)\n}\n\n"
ODD = """odd {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  c = f32[] constant(0.5)
  d = f32[] multiply(a, c)
  ROOT r = f32[] subtract(d, b)
}

"""
BODIES: dict[str, tuple[str, str, Callable[[Any, Any], Any]]] = {
    "add": (ADD, "add_f32", lambda a, b: a + b),
    "assign": (SECOND, "second", lambda a, b: b),
    "odd": (ODD, "odd", lambda a, b: a * np.float32(0.5) - b),
}


def scattered(
    data: np.ndarray, indices: np.ndarray, updates: np.ndarray, f: Callable[[Any, Any], Any],
    window: tuple[int, ...], inserted: tuple[int, ...], mapped: tuple[int, ...], vector: int,
    batching: tuple[int, ...] = (), index_batching: tuple[int, ...] = (),
) -> np.ndarray:  # fmt: skip
    """The fact sheet's rule, one update after the other; a window that would fall outside is dropped."""
    result = data.copy()
    rows = np.moveaxis(indices, vector, -1) if vector < indices.ndim else indices[..., None]
    kept = [axis for axis in range(data.ndim) if axis not in (*inserted, *batching)]
    outer = [axis for axis in range(updates.ndim) if axis not in window]
    for index in np.ndindex(*(updates.shape[axis] for axis in outer)):
        start = [0] * data.ndim
        for number, axis in enumerate(mapped):
            start[axis] = int(rows[index][number])
        for number, axis in enumerate(batching):
            source = index_batching[number]
            start[axis] = index[source - (source > vector)]
        sizes = {axis: updates.shape[w] for axis, w in zip(kept, window, strict=True)}
        ends = [s + sizes.get(axis, 1) for axis, s in enumerate(start)]
        if min(start) < 0 or any(e > n for e, n in zip(ends, data.shape, strict=True)):
            continue
        for offset in np.ndindex(*sizes.values()):
            target = list(start)
            for axis, o in zip(kept, offset, strict=True):
                target[axis] += o
            source_index = [0] * updates.ndim
            for axis, i in zip((*outer, *window), (*index, *offset), strict=True):
                source_index[axis] = i
            old = result[tuple(target)]
            result[tuple(target)] = f(old, updates[tuple(source_index)])
    return result


def text(numbers: tuple[int, ...]) -> str:
    return f"{{{','.join(map(str, numbers))}}}"


CASES: dict[str, dict[str, Any]] = {
    "rows": {
        "data": (5, 4),
        "indices": (6, 1),
        "updates": (6, 4),
        "window": (1,),
        "inserted": (0,),
        "mapped": (0,),
        "vector": 1,
    },
    "columns": {
        "data": (5, 4),
        "indices": (6,),
        "updates": (5, 6),
        "window": (0,),
        "inserted": (1,),
        "mapped": (1,),
        "vector": 1,
    },
    "cells": {
        "data": (5, 4),
        "indices": (2, 7),
        "updates": (7,),
        "window": (),
        "inserted": (0, 1),
        "mapped": (1, 0),
        "vector": 0,
    },
    "blocks": {
        "data": (5, 6),
        "indices": (2, 3, 2),
        "updates": (2, 2, 3, 3),
        "window": (1, 3),
        "inserted": (),
        "mapped": (0, 1),
        "vector": 2,
    },
    "one": {
        "data": (5, 6),
        "indices": (1,),
        "updates": (5, 2),
        "window": (0, 1),
        "inserted": (),
        "mapped": (1,),
        "vector": 0,
    },
    "batched": {
        "data": (3, 5, 2),
        "indices": (4, 3, 1),
        "updates": (4, 3, 2),
        "window": (2,),
        "inserted": (1,),
        "mapped": (1,),
        "vector": 2,
        "batching": (0,),
        "index_batching": (1,),
    },
    "nothing": {
        "data": (5, 4),
        "indices": (0, 1),
        "updates": (0, 4),
        "window": (1,),
        "inserted": (0,),
        "mapped": (0,),
        "vector": 1,
    },
}


@pytest.mark.exhaustive
@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("name", CASES)
def test_scatter(name: str, body: str) -> None:
    case = dict(CASES[name])
    dims = {key: case.pop(key) for key in ("data", "indices", "updates")}
    before, called, f = BODIES[body]
    data = RNG.standard_normal(dims["data"]).astype(np.float32)
    updates = RNG.standard_normal(dims["updates"]).astype(np.float32)
    indices = RNG.integers(-1, 5, dims["indices"]).astype(np.int32)
    shapes = [f"f32{list(data.shape)}", f"s32{list(indices.shape)}", f"f32{list(updates.shape)}"]
    shapes = [shape.replace(" ", "") for shape in shapes]
    attributes = (
        f"update_window_dims={text(case['window'])}, inserted_window_dims={text(case['inserted'])}, "
        f"scatter_dims_to_operand_dims={text(case['mapped'])}, index_vector_dim={case['vector']}"
    )
    if "batching" in case:
        attributes += f", input_batching_dims={text(case['batching'])}"
        attributes += f", scatter_indices_batching_dims={text(case['index_batching'])}"
    operation = f"scatter(p0, p1, p2), {attributes}, to_apply={called}"
    source = one_op(shapes, shapes[0], operation, before)
    wanted = scattered(data, indices, updates, f, **case)
    (got,) = run(source, data, indices, updates)
    np.testing.assert_allclose(got, wanted, rtol=1e-6, atol=1e-6)
    native = graphc.compile(source.encode())(data, indices, updates)
    np.testing.assert_allclose(native, wanted, rtol=1e-6, atol=1e-6)


def test_rows_of_an_embedding_are_written_as_runs() -> None:
    source = one_op(
        ["f32[5,4,3]", "s32[6,1]", "f32[6,4,3]"],
        "f32[5,4,3]",
        "scatter(p0, p1, p2), update_window_dims={1,2}, inserted_window_dims={0}, "
        "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add_f32",
        ADD,
    )
    (op,) = [op for op in import_hlo(parse_hlo(source)).ops if op.op_name == "scatter"]
    assert (op.attr("run"), op.attr("reduction")) == (12, "add")


def test_several_arrays() -> None:
    """The largest value and where it is from."""
    body = """best {
  v = f32[] parameter(0)
  i = s32[] parameter(1)
  w = f32[] parameter(2)
  j = s32[] parameter(3)
  above = pred[] compare(w, v), direction=GT
  a = f32[] select(above, w, v)
  b = s32[] select(above, j, i)
  ROOT r = (f32[], s32[]) tuple(a, b)
}

"""
    source = one_op(
        ["f32[4]", "s32[4]", "s32[9,1]", "f32[9]", "s32[9]"],
        "(f32[4], s32[4])",
        "scatter(p0, p1, p2, p3, p4), update_window_dims={}, inserted_window_dims={0}, "
        "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=best",
        body,
    )
    segments = RNG.integers(0, 4, 9).astype(np.int32)
    values, where = RNG.standard_normal(9).astype(np.float32), np.arange(9, dtype=np.int32)
    start = np.full(4, -np.inf, np.float32), np.full(4, -1, np.int32)
    best = [values[segments == k].max(initial=-np.inf) for k in range(4)]
    got = run(source, *start, segments[:, None], values, where)
    np.testing.assert_array_equal(got[0], np.array(best, np.float32))
    assert all(i == -1 or values[i] == best[k] for k, i in enumerate(got[1]))


GE = """ge {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = pred[] compare(a, b), direction=GE
}

"""


@pytest.mark.parametrize(
    ("window", "size"), [("size=2 stride=2", 3), ("size=3 stride=2 pad=1_1", 4), ("size=3 pad=0_2", 7)]
)  # fmt: skip
def test_select_and_scatter(window: str, size: int) -> None:
    x = RNG.integers(-3, 4, 7).astype(np.float32)
    source, start = RNG.standard_normal(size).astype(np.float32), np.float32(0.5)
    width, stride = int(window[5]), 2 if "stride" in window else 1
    low = 1 if "pad=1" in window else 0
    wanted = np.full(7, start)
    for index in range(size):
        inside = [
            i for i in range(index * stride - low, index * stride - low + width) if 0 <= i < 7
        ]
        wanted[max(inside, key=lambda i: x[i])] += source[index]  # the first of equal ones
    operation = f"select-and-scatter(p0, p1, p2), window={{{window}}}, select=ge, scatter=add_f32"
    text_of = one_op(["f32[7]", f"f32[{size}]", "f32[]"], "f32[7]", operation, ADD + GE)
    np.testing.assert_allclose(run(text_of, x, source, start)[0], wanted, rtol=1e-6)


SCATTER = (
    "update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, "
    "to_apply=add_f32"
)


@pytest.mark.parametrize(
    ("shapes", "operation", "message"),
    [
        (
            ["f32[5,4]", "s32[6,1]", "f32[6,5]"],
            f"scatter(p0, p1, p2), {SCATTER}",
            "update_window_dims must name 1 axes that fit axes [1] of f32[5,4], got sizes [5]",
        ),
        (
            ["f32[5,4]", "s32[7,1]", "f32[6,4]"],
            f"scatter(p0, p1, p2), {SCATTER}",
            "s32[7,1] must hold 1 indices for each of the updates' [6], got 1 for each of [7]",
        ),
        (
            ["f32[5,4]", "s32[6,2]", "f32[6,4]"],
            f"scatter(p0, p1, p2), {SCATTER}",
            "scatter_dims_to_operand_dims must name an axis for each of the 2 indices in a vector of s32[6,2], got 1",
        ),
        (
            ["f32[5,4]", "s32[6,1]", "f64[6,4]"],
            f"scatter(p0, p1, p2), {SCATTER}",
            "its arrays must have one shape, got f32[5,4], f64[6,4]",
        ),
        (
            ["f32[5,4]", "s32[6,1]", "f32[6,4]"],
            f"scatter(p0, p1, p2), {SCATTER.replace('index_vector_dim=1', 'index_vector_dim=3')}",
            "index_vector_dim must be in [0, 2], got 3",
        ),
        (
            ["f32[7]", "f32[4]", "f32[]"],
            "select-and-scatter(p0, p1, p2), window={size=2 stride=2}, select=ge, scatter=add_f32",
            "its source must be f32[3] and its initial value f32[], got f32[4] and f32[]",
        ),
        (
            ["f32[6]", "f32[3]", "f32[]"],
            "select-and-scatter(p0, p1, p2), window={size=2 stride=2}, select=add_f32, scatter=add_f32",
            "select must give pred[], got f32[]",
        ),
    ],
)
def test_bad_shapes(shapes: list[str], operation: str, message: str) -> None:
    with pytest.raises(graphc.UserError) as error:
        run(one_op(shapes, shapes[0], operation, ADD + GE))
    assert str(error.value).endswith(f"'r': {message}")


def test_a_dilated_window_is_refused() -> None:
    operation = "select-and-scatter(p0, p1, p2), window={size=2 rhs_dilate=2}, select=ge, scatter=add_f32"  # fmt: skip
    source = one_op(["f32[6]", "f32[4]", "f32[]"], "f32[6]", operation, ADD + GE)
    with pytest.raises(graphc.UnsupportedError, match="'r': a dilated or reversed window is not"):
        import_hlo(parse_hlo(source))


def test_a_body_written_in_place() -> None:
    source = module(
        """p0 = f32[3] parameter(0)
        p1 = s32[2] parameter(1)
        p2 = f32[2] parameter(2)
        ROOT r = f32[3] scatter(p0, p1, p2), update_window_dims={}, inserted_window_dims={0},
        scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply={ a = f32[] parameter(0)
        ROOT b = f32[] parameter(1) }"""
    )
    got = run(source, np.zeros(3, np.float32), np.array([2, 0], np.int32), np.array([5, 6], np.float32))  # fmt: skip
    assert got[0].tolist() == [6, 0, 5]
