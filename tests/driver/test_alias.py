"""Outputs in the memory of inputs: the bits of models that copy, nothing else written, a sentence for mistakes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphc
from graphc import CompiledModel, Graph
from graphc.base.dims import Symbol, size
from graphc.base.dtypes import F32, S64
from graphc.base.errors import UserError
from graphc.frontend import load
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.graph_ir.passes.alias_outputs import find_aliases
from support.decoder_step import feeds, step
from support.onnx_models import Array

RANGE = {"pk": "f32[1,2,P=0..511,16]"}
ALIAS = {"nk": "pk", "nv": "pv"}
ROOM = 140


@pytest.fixture(scope="module")
def copying() -> CompiledModel:
    return graphc.compile(step(), inputs={"pk": "f32[1,2,P=1..511,16]"})


@pytest.fixture(scope="module")
def growing() -> CompiledModel:
    return graphc.compile(step(), inputs=RANGE, alias=ALIAS)


def buffer(rows: int = ROOM) -> Array:
    return np.full((1, 2, rows, 16), 7, np.float32)


def token(length: int) -> dict[str, Array]:
    return {name: x for name, x in feeds(length).items() if name not in ("pk", "pv")}


def test_a_cache_grows_in_place_from_nothing(
    copying: CompiledModel, growing: CompiledModel
) -> None:
    whole = buffer(), buffer()
    k, v = (b[:, :, :0] for b in whole)
    _, k, v = growing(pk=k, pv=v, **token(0))
    own_k, own_v = k.copy(), v.copy()
    for length in range(1, ROOM):
        given = token(length)
        y, k, v = growing(pk=k, pv=v, **given)
        wanted, own_k, own_v = copying(pk=own_k, pv=own_v, **given)
        assert y.tobytes() == wanted.tobytes()
    for view, own, full in ((k, own_k, whole[0]), (v, own_v, whole[1])):
        assert view.base is full and np.array_equal(view, own)


def test_only_new_rows_are_written(growing: CompiledModel) -> None:
    given = feeds(20)
    k, v = buffer(), buffer()
    k[:, :, :20], v[:, :, :20] = given["pk"], given["pv"]
    before = k.copy()
    _, longer, _ = growing(pk=k[:, :, :20], pv=v[:, :, :20], **token(20))
    assert longer.shape == (1, 2, 21, 16) and np.shares_memory(longer, k)
    assert np.array_equal(np.delete(before, 20, 2), np.delete(k, 20, 2))
    assert not np.array_equal(before[:, :, 20], k[:, :, 20])


def test_the_rest_of_the_buffer_is_never_read(growing: CompiledModel) -> None:
    results = []
    for filler in (7, np.nan):
        k, v = (np.full((1, 2, ROOM, 16), filler, np.float32) for _ in "kv")
        y, k, v = growing(pk=k[:, :, :0], pv=v[:, :, :0], **token(0))
        results.append((y, *growing(pk=k, pv=v, **token(1))))
    for one, other in zip(*results, strict=True):
        assert np.isfinite(one).all() and np.array_equal(one, other)


def test_no_kernel_copies_the_cache(growing: CompiledModel) -> None:
    kernels = [call["kernel"] for call in growing.stats["calls"]]
    assert not [k for k in kernels if re.match(r"f32_(concat|slice|copy)_1x2xP", k)]
    assert sum("update_in_place" in k for k in kernels) == 2


def test_saved_and_loaded(growing: CompiledModel, tmp_path: Path) -> None:
    growing.save(tmp_path / "step.gcm")
    loaded = graphc.load(tmp_path / "step.gcm", threads=1)
    assert repr(loaded.inputs) == repr(growing.inputs)
    k, v = buffer(), buffer()
    given = token(0)
    results = [m(pk=k[:, :, :0], pv=v[:, :, :0], **given)[0] for m in (growing, loaded)]
    assert np.array_equal(*results)


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "full": (
        {"pk": buffer(20)[:, :, :20], "pv": buffer(20)[:, :, :20]},
        "input 'pk' has room for 20 rows on axis 2, and output 'nk' has 21; pass a part of a larger buffer",
    ),
    "another room": (
        {"pk": buffer(30)[:, :, :20], "pv": buffer(40)[:, :, :20]},
        r"inputs 'pk' and 'pv' must have the same room on axis 2, got 30 and 40 rows",
    ),
    "not the first part": (
        {"pk": buffer()[:, :, :40:2], "pv": buffer()[:, :, :20]},
        r"input 'pk' must be the first part of a dense buffer along axis 2, such as buffer\[:, :, :20\], got strides",
    ),
    "transposed": (
        {"pk": np.zeros((1, 2, 16, 20), np.float32).swapaxes(2, 3), "pv": buffer()[:, :, :20]},
        "input 'pk' must be the first part of a dense buffer along axis 2",
    ),
    "a list": (
        {"pk": buffer()[:, :, :20].tolist(), "pv": buffer()[:, :, :20]},
        "input 'pk' must be",
    ),
    "another type": (
        {"pk": buffer()[:, :, :20].astype(np.float64), "pv": buffer()[:, :, :20]},
        "input 'pk' must be",
    ),
    "other axes": (
        {"pk": buffer()[0, :, :20], "pv": buffer()[:, :, :20]},
        r"input 'pk' must be f32\[1,2,P,16\], got f32\[2,20,16\]",
    ),
    "lengths that differ": (
        {"pk": buffer()[:, :, :20], "pv": buffer()[:, :, :19]},
        "with P=20 as in 'pk'",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_wrong_buffers(growing: CompiledModel, name: str) -> None:
    given, text = WRONG[name]
    with pytest.raises(UserError, match=text):
        growing(**given, **token(20))


def test_a_buffer_that_must_not_be_written(growing: CompiledModel) -> None:
    k = buffer()[:, :, :20]
    k.flags.writeable = False
    with pytest.raises(
        UserError, match="input 'pk' is read-only: an output is written to its memory"
    ):
        growing(pk=k, pv=buffer()[:, :, :20], **token(20))
    with pytest.raises(UserError, match="input 'pk' is read-only"):
        growing.bind({"pk": k, "pv": k, **token(20)}, [None, None, None])


def test_a_bound_call_writes_behind_its_cache(growing: CompiledModel) -> None:
    """A bound call writes like any other call, each time that it runs."""
    called, bound = (buffer(), buffer()), (buffer(), buffer())
    given = token(20)
    wanted, *_ = growing(pk=called[0][:, :, :20], pv=called[1][:, :, :20], **given)
    y = np.empty_like(wanted)
    run = growing.bind(
        {"pk": bound[0][:, :, :20], "pv": bound[1][:, :, :20], **given}, [y, None, None]
    )
    for _ in range(2):
        assert run() == 0
        assert np.array_equal(y, wanted) and np.array_equal(called, bound)
        bound[0][:, :, 20:] = bound[1][:, :, 20:] = 7
    with pytest.raises(UserError, match="output 'y' shares memory"):
        growing.bind(
            {"pk": bound[0][:, :, :20], "pv": bound[1][:, :, :20], **given},
            [given["x"], None, None],
        )


def replaced(rows: int) -> Graph:
    """A cache that keeps its size, of which some rows are replaced."""
    graph = Graph("replaced")
    cache = graph.make_input(LogicalTensor(F32, (2, rows, 3)), "cache")
    new = graph.make_input(LogicalTensor(F32, (2, 2, 3)), "new")
    at = graph.make_input(LogicalTensor(S64, ()), "at")
    kept = graph.make("update_slice", [cache, new, at], {"axes": (1,)}).outputs[0]
    graph.make_output(graph.make("relu", [kept]).outputs[0], "y")
    graph.make_output(kept, "kept")
    return graph


def test_a_cache_that_keeps_its_size() -> None:
    model = graphc.compile(replaced(6), alias="auto")
    cache, new = (
        np.arange(-18, 18, dtype=np.float32).reshape(2, 6, 3),
        np.ones((2, 2, 3), np.float32),
    )
    wanted = cache.copy()
    wanted[:, 3:5] = 1
    y, kept = model(cache, new, np.array(3))
    assert kept is cache and np.array_equal(cache, wanted)
    assert np.array_equal(y, np.maximum(wanted, 0))
    at = np.array(0)
    run = model.bind({"cache": cache, "new": new, "at": at}, [y, None])
    for at[...] in (1, 4):
        run()
    assert (cache[:, 1:] == 1).all() and np.array_equal(y, np.maximum(cache, 0))


def test_outputs_that_can_lie_in_inputs_are_found() -> None:
    assert find_aliases(appended()) == {"present": "past"}
    assert find_aliases(replaced(6)) == {"kept": "cache"}
    assert find_aliases(load(step(), RANGE)) == ALIAS
    read_only = appended((1, 0))
    with pytest.raises(UserError, match="no output is an input with new rows behind its own"):
        graphc.compile(read_only, alias="auto")
    with pytest.raises(UserError, match="alias must map names of outputs"):
        graphc.compile(read_only, alias="all")


def read_twice() -> Graph:
    graph = replaced(6)
    cache = graph.inputs[0].outputs[0]
    graph.make_output(graph.make("neg", [cache]).outputs[0], "other")
    return graph


def appended(order: tuple[int, int] = (0, 1)) -> Graph:
    graph = Graph("appended")
    past = graph.make_input(LogicalTensor(F32, (2, size(Symbol("P")), 3)), "past")
    new = graph.make_input(LogicalTensor(F32, (2, 1, 3)), "new")
    both = [(past, new)[i] for i in order]
    graph.make_output(graph.make("concat", both, {"axis": 1}).outputs[0], "present")
    graph.make_output(graph.make("exp", [past]).outputs[0], "y")
    return graph


REFUSED: dict[str, tuple[Any, dict[str, str], str]] = {
    "no such output": (appended, {"z": "past"}, "alias z=past: there is no output 'z'; known are 'present', 'y'"),
    "no such input": (appended, {"present": "z"}, "there is no input 'z'; known are 'past', 'new'"),
    "rows in front": (
        lambda: appended((1, 0)), {"present": "past"},
        "output 'present' must be the input with new rows behind its own",
    ),
    "read twice": (
        read_twice, {"kept": "cache"},
        "output 'kept' must be the input with a part replaced, and nothing else may read it",
    ),
    "two outputs": (
        appended, {"present": "past", "y": "past"}, "input 'past' can hold one output, got two",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    make, alias, text = REFUSED[name]
    with pytest.raises(UserError, match=text):
        graphc.compile(make(), alias=alias)


def test_who_reads_the_past_reads_the_rows_it_had() -> None:
    model = graphc.compile(appended(), alias={"present": "past"})
    store = np.zeros((2, 9, 3), np.float32)
    present, y = model(store[:, :4], np.ones((2, 1, 3), np.float32))
    assert present.shape == (2, 5, 3) and y.shape == (2, 4, 3)
    assert (store[:, 4] == 1).all() and (store[:, 5:] == 0).all() and (y == 1).all()
