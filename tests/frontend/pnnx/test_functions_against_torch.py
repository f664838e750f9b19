"""Indexing, ordering, assignment and arithmetic against PyTorch itself; skipped where it is not installed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphc import compile
from graphc.frontend import load
from graphc.graph_ir.ir.graph import Array
from support.pnnx_models import annotation, run_operator, write_model
from support.tolerance import assert_close

torch = pytest.importorskip("torch")
F = torch.nn.functional


def floats(*shape: int, seed: int = 0) -> Array:
    return (np.random.default_rng(seed).random(shape) * 4 - 2).astype(np.float32)


def check(folder: Path, line: str, inputs: list[Array], result: Any) -> None:
    """Every output of a model of one operator is what PyTorch gives, in its dtype."""
    expected = list(result) if isinstance(result, (tuple, list)) else [result]
    found = run_operator(folder, line, inputs, outputs=len(expected))
    for mine, theirs in zip(found, expected, strict=True):
        assert mine.dtype == theirs.numpy().dtype
        assert_close(mine, theirs.numpy(), 8)


X, Y = floats(2, 6, 4), floats(2, 6, 4, seed=1)
POSITIONS = np.random.default_rng(2).integers(0, 4, (2, 6, 4))
ROWS = np.array([0, 5, -2])
COLUMNS = np.array([[1], [-1]])

ORDERING: dict[str, tuple[list[Array], Callable[..., Any]]] = {
    "torch.topk k=3 dim=1 largest=True sorted=True": ([X], lambda x: x.topk(3, 1)),
    "torch.topk k=2 largest=False": ([X], lambda x: x.topk(2, largest=False)),
    "torch.sort dim=1 descending=True": ([X], lambda x: x.sort(1, True)),
    "torch.sort": ([POSITIONS], lambda x: x.sort(stable=True)),
    "torch.argsort dim=0 descending=False": ([X], lambda x: x.argsort(0)),
    "aten::kthvalue k=2 dim=1 keepdim=True": ([X], lambda x: x.kthvalue(2, 1, True)),
    "torch.cumsum dim=-1": ([X], lambda x: x.cumsum(-1)),
    "torch.cumsum dim=1 dtype=torch.float": ([POSITIONS], lambda x: x.cumsum(1, dtype=torch.float)),
    "torch.cumsum dim=0": ([POSITIONS > 1], lambda x: x.cumsum(0)),
    "torch.cumprod dim=1": ([X], lambda x: x.cumprod(1)),
}

INDEXING: dict[str, tuple[list[Array], Callable[..., Any]]] = {
    "torch.gather dim=2": ([X, POSITIONS], lambda x, i: x.gather(2, i)),
    "torch.take_along_dim dim=1": (
        [X, POSITIONS[:, :1]],
        lambda x, i: torch.take_along_dim(x, i, 1),
    ),
    "torch.take_along_dim": ([X, POSITIONS], lambda x, i: torch.take_along_dim(x, i)),
    "Tensor.index expr=[None,@0]": ([X, ROWS], lambda x, i: x[:, i]),
    "Tensor.index expr=[None,@0,@1]": ([X, ROWS, COLUMNS], lambda x, i, j: x[:, i, j]),
    "Tensor.index expr=[@0,None,@1]": ([X, np.array([1]), COLUMNS], lambda x, i, j: x[i, :, j]),
    "Tensor.index expr=[@0]": ([X, COLUMNS], lambda x, i: x[i]),
    "aten::unfold dim=1 size=3 step=2": ([X], lambda x: x.unfold(1, 3, 2)),
    "aten::diagonal offset=1 dim1=1 dim2=2": ([X], lambda x: x.diagonal(1, 1, 2)),
    "aten::diagonal offset=-2 dim1=2 dim2=1": ([X], lambda x: x.diagonal(-2, 2, 1)),
    "torch.tril diagonal=1": ([X], lambda x: x.tril(1)),
    "aten::triu diagonal=-1": ([X], lambda x: x.triu(-1)),
    "torch.roll shifts=(3) dims=None": ([X], lambda x: x.roll(3)),
}

ASSIGNMENT: dict[str, tuple[list[Array], Callable[..., Any]]] = {
    "aten::scatter dim=2 $input=a $index=b $src=c": (
        [X, POSITIONS[:, :2, :1], Y],
        lambda x, i, y: x.scatter(2, i, y),
    ),
    "aten::scatter dim=2 value=1.5": ([X, POSITIONS], lambda x, i: x.scatter(2, i, 1.5)),
    "torch.scatter_add dim=2": ([X, POSITIONS, Y], lambda x, i, y: x.scatter_add(2, i, y)),
    "torch.scatter_reduce dim=2 reduce=prod": (
        [X, POSITIONS, Y],
        lambda x, i, y: x.scatter_reduce(2, i, y, "prod"),
    ),
    "torch.index_add dim=1 alpha=2.0": (
        [X, ROWS % 6, Y[:, :3]],
        lambda x, i, y: x.index_add(1, i, y, alpha=2),
    ),
    "torch.index_copy dim=1": ([X, ROWS % 6, Y[:, :3]], lambda x, i, y: x.index_copy(1, i, y)),
    "torch.index_fill dim=2 value=3.0": (
        [X, np.array([3, 1])],
        lambda x, i: x.index_fill(2, i, 3.0),
    ),
    "Tensor.slice_copy dim=1 start=1 end=5 step=2": (
        [X, Y[:, :2]],
        lambda x, y: torch.slice_scatter(x, y, 1, 1, 5, 2),
    ),
    "torch.slice_scatter dim=0 start=1 end=2147483647 step=1": (
        [X, Y[:1]],
        lambda x, y: torch.slice_scatter(x, y, 0, 1),
    ),
    "Tensor.slice_copy dim=1 start=0 end=0 step=0 select=2": (
        [X, Y[:, 0]],
        lambda x, y: torch.select_scatter(x, y, 1, 2),
    ),
    "torch.select_scatter dim=2 index=-1": (
        [X, Y[..., 0]],
        lambda x, y: torch.select_scatter(x, y, 2, -1),
    ),
    "Tensor.copy": ([X, Y[:, :1]], lambda x, y: y.expand_as(x)),
    "Tensor.fill value=2": ([X], lambda x: torch.full_like(x, 2)),
}


@pytest.mark.parametrize("line", [*ORDERING, *INDEXING, *ASSIGNMENT])
def test_operator(line: str, tmp_path: Path) -> None:
    inputs, function = {**ORDERING, **INDEXING, **ASSIGNMENT}[line]
    inputs = [np.ascontiguousarray(x) for x in inputs]
    check(tmp_path, line, inputs, function(*map(torch.from_numpy, inputs)))


@pytest.mark.parametrize("accumulate", [True, False])
def test_index_put(accumulate: bool, tmp_path: Path) -> None:
    """The list of indices comes from an expression, as the tool writes it."""
    i, j = np.array([1, 0, 1]), np.array([0, 3, 0 if accumulate else 5])
    lines = [
        *(f"pnnx.Input in_{n} 0 1 {n} #{n}={annotation(a)}"
          for n, a in zip("xijv", (X, i, j, Y[0, 0]), strict=True)),
        "pnnx.Expression e 2 1 i j e expr=[@0,@1]",
        f"Tensor.index_put p 3 1 x e v y accumulate={accumulate} $input=x $indices=e $values=v",
        "pnnx.Expression f 1 1 i f expr=[None,@0]",
        "Tensor.index q 2 1 x f z $input=x $expr=f",
        "pnnx.Output out_y 1 0 y", "pnnx.Output out_z 1 0 z",
    ]  # fmt: skip
    put, picked = load(write_model(tmp_path, lines)).evaluate([X, i, j, Y[0, 0]])
    x, v = torch.from_numpy(X), torch.from_numpy(Y[0, 0].copy())
    indices = (torch.from_numpy(i), torch.from_numpy(j))
    np.testing.assert_array_equal(put, torch.index_put(x, indices, v, accumulate).numpy())
    np.testing.assert_array_equal(picked, X[:, i])


QUOTIENTS = np.array(
    [[-6, 6, -6, 6, -0.0, 0, 7.5, -7.5, 1e20, 3e38], [3, -3, -3, 3, 3, -3, -np.inf, 2, 3, 1e-38]],
    np.float32,
)
V, W = floats(5, 3), floats(5, 3, seed=1)
ODD = np.array([np.nan, np.inf, -np.inf, 2.5, -1e30], np.float32)
COMPOSITE: dict[str, tuple[list[Array], Callable[..., Any]]] = {
    "aten::addcmul value=0.5": ([X, Y, X], lambda x, y, z: torch.addcmul(x, y, z, value=0.5)),
    "torch.addcdiv value=2": ([X, X, Y], lambda x, y, z: torch.addcdiv(x, y, z, value=2)),
    "aten::lerp weight=0.3": ([X, Y], lambda x, y: torch.lerp(x, y, 0.3)),
    "torch.lerp": ([X, Y, Y], torch.lerp),
    "aten::rsub other=2.0 alpha=3": ([X], lambda x: torch.rsub(x, 2.0, alpha=3)),
    "aten::hypot": (
        [np.append(ODD, [0, 3e38]).astype(np.float32), np.append([0, 3e38], ODD).astype(np.float32)],
        torch.hypot,
    ),
    "aten::exp2": ([X], torch.exp2),
    "aten::isfinite": ([ODD], torch.isfinite),
    "aten::nan_to_num": ([ODD], torch.nan_to_num),
    "torch.sign": ([ODD], torch.sign),
    "Tensor.sgn": ([ODD], torch.sgn),
    "torch.nan_to_num nan=1.0 posinf=2.0 neginf=-3.0": (
        [ODD], lambda x: torch.nan_to_num(x, 1.0, 2.0, -3.0)),
    "aten::one_hot num_classes=4": ([POSITIONS], lambda x: F.one_hot(x, 4)),
    "torch.cross dim=1": ([V, W], lambda x, y: torch.cross(x, y, dim=1)),
    "torch.cross dim=None": (  # the first axis of 3, as PyTorch warns when it does so
        [floats(2, 3, 5, 3), floats(2, 3, 5, 3, seed=1)], partial(torch.linalg.cross, dim=1)),
    "aten::cross": (
        [floats(3, 4, 3), floats(3, 4, 3, seed=1)], partial(torch.linalg.cross, dim=0)),
    "torch.linalg.cross": ([floats(3, 4, 3), floats(3, 1, 3, seed=1)], torch.linalg.cross),
    "aten::cosine_similarity dim=1 eps=1e-8": ([X, Y], lambda x, y: F.cosine_similarity(x, y, 1)),
    "aten::cdist p=2.0 compute_mode=None": ([X, Y], torch.cdist),
    "aten::clamp_min min=0.3": ([X], lambda x: x.clamp_min(0.3)),
    "torch.clamp_max": ([X, Y], lambda x, y: x.clamp_max(y)),
    "F.bilinear": ([V, floats(5, 4), floats(2, 3, 4), floats(2)], F.bilinear),
    "torch.var dim=(1) keepdim=False unbiased=2": ([X], lambda x: torch.var(x, 1, correction=2)),
    "aten::std_mean dim=(0,2) unbiased=3 keepdim=True": (
        [X],
        lambda x: torch.std_mean(x, (0, 2), correction=3, keepdim=True),
    ),
    "torch.var_mean dim=1 unbiased=True": ([X], lambda x: torch.var_mean(x, 1)),
    "aten::std_mean dim=(0,2) unbiased=False keepdim=True": (
        [X], lambda x: torch.std_mean(x, (0, 2), False, True)),
    "aten::aminmax dim=1": ([X], lambda x: torch.aminmax(x, dim=1)),
    "torch.norm p=3 dim=1": ([X], lambda x: x.norm(3, 1)),
    "torch.norm p=inf dim=(0,1) keepdim=True": ([X], lambda x: x.norm(np.inf, (0, 1), True)),
    "torch.norm p=-inf dim=1": ([X], lambda x: x.norm(-np.inf, 1)),
    "torch.norm p=0 dim=1": ([X * (X > 0)], lambda x: x.norm(0, 1)),
    "F.normalize p=3 dim=-1": ([X], lambda x: F.normalize(x, 3, -1)),
    "torch.repeat_interleave repeats=2 dim=1": ([X], lambda x: x.repeat_interleave(2, 1)),
    "torch.repeat_interleave repeats=3": ([X], lambda x: x.repeat_interleave(3)),
    "aten::movedim source=(0,2) destination=(2,1)": ([X], lambda x: x.movedim((0, 2), (2, 1))),
    "torch.einsum equation=bij,bkj,bkl->bil": (
        [X, Y, X], lambda *a: torch.einsum("bij,bkj,bkl->bil", *a)),
    "torch.einsum equation=...ij,...kj->...ik": (
        [X, Y], lambda *a: torch.einsum("...ij,...kj->...ik", *a)),
    "torch.einsum equation=ijj,ij->i": (
        [floats(2, 4, 4), V[:2, :1] + floats(2, 4)], lambda *a: torch.einsum("ijj,ij->i", *a)),
    "torch.einsum equation=iij": ([floats(4, 4, 3)], lambda x: torch.einsum("iij", x)),
    "torch.diag diagonal=-1": ([V], lambda x: x.diag(-1)),
    "torch.diag diagonal=2": ([V[0]], lambda x: x.diag(2)),
    "aten::diag_embed offset=-1 dim1=0 dim2=2": ([V], lambda x: torch.diag_embed(x, -1, 0, 2)),
    "F.pairwise_distance p=2.0 eps=0.01 keepdim=True": (
        [X, Y], lambda x, y: F.pairwise_distance(x, y, 2, 0.01, True)),
    "nn.PairwiseDistance p=3.0 eps=1e-6 keepdim=False": ([X, Y], torch.nn.PairwiseDistance(3)),
    "torch.lgamma": ([np.append(X * 9, [0, -3, 1, 2, 50, *ODD]).astype(np.float32)], torch.lgamma),
    "Tensor.index expr=[[0,1],[5,2]]": ([X], lambda x: x[[0, 1], [5, 2]]),
    "aten::trace": ([POSITIONS[0, :4]], torch.trace),
    "aten::outer": ([V[0], W[1]], torch.outer),
    "aten::kron": ([V, POSITIONS[0].astype(np.float32)], torch.kron),
    "aten::tensordot dims_self=(-2,-1) dims_other=(1,0)": (
        [X, floats(4, 6, 3)], lambda x, y: torch.tensordot(x, y, ([-2, -1], [1, 0]))),
    "aten::linalg_matrix_power n=5": (
        [floats(3, 4, 4)], lambda x: torch.linalg.matrix_power(x, 5)),
    "aten::rot90 k=1 dims=(0,2)": ([X], lambda x: x.rot90(1, (0, 2))),
    "aten::rot90 k=-1 dims=(2,1)": ([X], lambda x: x.rot90(-1, (2, 1))),
    "aten::rot90 k=2 dims=(0,1)": ([X], lambda x: x.rot90(2)),
    "aten::diff n=2 dim=1": ([X], lambda x: x.diff(2, 1)),
    "aten::diff n=1 dim=1 $input=a $append=b": ([X > 0, Y > 0], lambda x, y: x.diff(1, 1, append=y)),
    "aten::diagonal_scatter offset=1 dim1=2 dim2=1": (
        [X, Y[:, 0, :4]], lambda x, y: torch.diagonal_scatter(x, y, 1, 2, 1)),
    "aten::logaddexp2": ([np.append(ODD, 3).astype(np.float32)] * 2, torch.logaddexp2),
    "aten::logcumsumexp dim=1": ([np.where(X > 1, -np.inf, 40 * X)], lambda x: x.logcumsumexp(1)),
    "aten::cummax dim=1": ([np.where(X > 1.8, np.nan, X.round())], lambda x: x.cummax(1)),
    "torch.cummin dim=2": ([POSITIONS], lambda x: x.cummin(2)),
    "aten::median dim=1 keepdim=True": ([X], lambda x: x.median(1, True)),
    "torch.median": ([np.where(X > 1.9, np.nan, X)], torch.median),
    "aten::quantile q=0.3 dim=1 keepdim=False interpolation=linear": (
        [X], lambda x: x.quantile(0.3, 1)),
    "aten::quantile q=0.5 dim=None keepdim=True interpolation=lower": (
        [X], lambda x: x.quantile(0.5, keepdim=True, interpolation="lower")),
    "aten::nanquantile q=0.4 dim=1 keepdim=True interpolation=linear": (
        [np.where(X > 1.5, np.nan, X)], lambda x: x.nanquantile(0.4, 1, keepdim=True)),
    "aten::quantile q=0.4 dim=1 keepdim=False interpolation=midpoint": (
        [np.where(X > 1.5, np.nan, X)], lambda x: x.quantile(0.4, 1, interpolation="midpoint")),
    "aten::dist p=2": ([X, X * 2], torch.dist),
    "aten::trapezoid dx=2 dim=1": ([X], lambda x: torch.trapezoid(x, dx=2, dim=1)),
    "aten::cumulative_trapezoid dx=1 dim=-1": ([X], torch.cumulative_trapezoid),
    "aten::msort": ([X], torch.msort),
    "torch.quantile q=(0.2,0.9,0.5) dim=1 keepdim=False": (
        [X], lambda x: x.quantile(torch.tensor([0.2, 0.9, 0.5]), 1)),
    "torch.nanmedian dim=1 keepdim=True": ([np.where(X > 0, np.nan, X)], lambda x: x.nanmedian(1, True)),
    "torch.mode dim=1 keepdim=False": ([POSITIONS], lambda x: x.mode(1)),
    "aten::searchsorted out_int32=False right=True side=None sorter=None": (
        [np.sort(V, 1), np.sort(V, 1)], lambda s, x: torch.searchsorted(s, x, right=True)),
    "aten::bucketize out_int32=True right=False": (
        [np.append(ODD, [0, 1, 2]).astype(np.float32), np.array([0, 1, 2.5], np.float32)],
        lambda x, s: torch.bucketize(x, s, out_int32=True)),
    "aten::heaviside": ([X.round(), Y], torch.heaviside),
    "aten::logit eps=0.01": ([Y / 4 + 0.5], lambda x: torch.logit(x, 0.01)),
    "aten::sinc": ([X.round(1)], torch.sinc),
    "aten::xlogy": ([X.round(), abs(Y)], torch.xlogy),
    "torch.xlogy": (
        [np.array([0, 0, 0, 2, np.nan], np.float32), np.array([0, np.nan, np.inf, 3, 0], np.float32)],
        torch.xlogy),
    "torch.remainder": (list(QUOTIENTS), torch.remainder),
    "torch.fmod": (list(QUOTIENTS), torch.fmod),
    "torch.floor_divide": (list(QUOTIENTS[:, :-2]), torch.floor_divide),
    "aten::frac": ([ODD[3:] * X[0, 0, :1]], torch.frac),
    "aten::rad2deg": ([X], torch.rad2deg),
    "aten::linalg_norm ord=None dim=None keepdim=True dtype=None": (
        [X], lambda x: torch.linalg.norm(x, keepdim=True)),
    "aten::linalg_matrix_norm ord=fro dim=(0,2)": (
        [X], lambda x: torch.linalg.matrix_norm(x, dim=(0, 2))),
    "aten::std unbiased=False": ([X], lambda x: x.std(unbiased=False)),
    "aten::fake_quantize_per_tensor_affine scale=0.0625 zero_point=3 quant_min=0 quant_max=255": (
        [X * 5], lambda x: torch.fake_quantize_per_tensor_affine(x, 0.0625, 3, 0, 255)),
    "torch.einsum equation=i...,i": (
        [V, floats(5)], lambda *a: torch.einsum("i...,i", *a)),
    "torch.einsum equation=ij,jk,kl,lm->im": (
        [V, W.T.copy(), V, W.T.copy()], lambda *a: torch.einsum("ij,jk,kl,lm->im", *a)),
}  # fmt: skip


@pytest.mark.parametrize("line", COMPOSITE)
def test_composite(line: str, tmp_path: Path) -> None:
    inputs, function = COMPOSITE[line]
    inputs = [np.ascontiguousarray(x) for x in inputs]
    check(tmp_path, line, inputs, function(*map(torch.from_numpy, inputs)))


def test_assignment_by_a_mask(tmp_path: Path) -> None:
    mask = X > 0
    (y,) = run_operator(tmp_path, "Tensor.index_put values=1.5", [X, mask])
    np.testing.assert_array_equal(y, np.where(mask, np.float32(1.5), X))


def test_lists_masks_and_bytes(tmp_path: Path) -> None:
    """Functions that need several operators: meshgrid of a list, a constant mask, bytes and back, nested tuples."""
    mask = X[0, 0] > 0
    lines = [
        "pnnx.Input x 0 1 x #x=(4)f32", "pnnx.Input y 0 1 y #y=(3)f32",
        "pnnx.Expression e 2 1 x y e expr=[@0,@1]",
        "aten::meshgrid m 1 1 e m indexing=xy",
        "pnnx.Attribute a 0 1 a @data=(4)bool",
        "torch.masked_select s 2 1 x a s", "Tensor.index i 2 1 x a i expr=[@0]",
        "aten::quantize_per_tensor q 1 1 x q scale=0.25 zero_point=50 dtype=13",
        "Tensor.reshape r 1 1 q r shape=(2,2)", "torch.dequantize d 1 1 r d",
        "prim::TupleConstruct t 2 1 s i t", "prim::TupleConstruct u 3 1 m t d u",
        "pnnx.Output out 1 0 u",
    ]  # fmt: skip
    graph = load(write_model(tmp_path, lines, {"a.data": mask}))
    *grid, selected, indexed, back = graph.evaluate([X[0, 0], V[0]])
    for mine, theirs in zip(grid, np.meshgrid(X[0, 0], V[0]), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    for found in (selected, indexed):
        np.testing.assert_array_equal(found, X[0, 0][mask])
    np.testing.assert_array_equal(back, (np.rint(X[0, 0] * 4) / 4).reshape(2, 2))


def test_lists_of_atens_functions(tmp_path: Path) -> None:
    """Parts and indices that a next operator takes apart."""
    lines = [
        "pnnx.Input x 0 1 x #x=(2,3,4)f32", "pnnx.Expression n 0 1 n expr=2",
        "aten::unsafe_chunk s 3 1 x n n s", "prim::ListUnpack p 1 2 s y0 y1",
        "torch.gt g 1 1 y0 m other=0.5", "aten::where w 1 1 m w",
        "prim::ListUnpack q 1 3 w i0 i1 i2", "torch.add t 2 1 i0 i2 i",
        "pnnx.Output a 1 0 y0", "pnnx.Output b 1 0 y1", "pnnx.Output c 1 0 i",
    ]  # fmt: skip
    x = floats(2, 3, 4)
    with compile(write_model(tmp_path, lines), threads=1) as model:
        first, second, found = model(x)
    np.testing.assert_array_equal(np.concatenate([first, second], 2), x)
    rows = np.nonzero(first > 0.5)
    np.testing.assert_array_equal(found, rows[0] + rows[2])


def test_ranges_to_what_data_decide(tmp_path: Path) -> None:
    lines = [
        "pnnx.Input x 0 1 x #x=(3)i64", "torch.max m 1 1 x m", "torch.arange a 1 1 m a $end=m",
        "pnnx.Expression s 1 1 m s expr=neg(@0)", "torch.arange b 2 1 s m b step=2 $start=s $end=m",
        "pnnx.Output y 1 0 a", "pnnx.Output z 1 0 b",
    ]  # fmt: skip
    with compile(write_model(tmp_path, lines), threads=1) as model:
        for most in (5, 1, 200):
            y, z = model(np.array([1, most, 0]))
            np.testing.assert_array_equal(y, np.arange(most))
            np.testing.assert_array_equal(z, np.arange(-most, most, 2))


def test_results_of_as_many_rows_as_a_mask_keeps(tmp_path: Path) -> None:
    lines = [
        "pnnx.Input x 0 1 x #x=(6,4)f32", "pnnx.Input r 0 1 r #r=(6)bool",
        "torch.gt g 1 1 x m other=0.5", "torch.masked_select s 2 1 x m y",
        "aten::nonzero n 1 1 m n", "Tensor.index i 2 1 x r p expr=[@0]", "torch.sum t 1 1 y t",
        "pnnx.Output a 1 0 y", "pnnx.Output b 1 0 n", "pnnx.Output c 1 0 p", "pnnx.Output d 1 0 t",
    ]  # fmt: skip
    with compile(write_model(tmp_path, lines), threads=1) as model:
        for x, rows in ((X[0], X[0, :, 0] > 0), (np.zeros_like(X[0]), np.zeros(6, bool))):
            kept, positions, picked, total = model(x, rows)
            np.testing.assert_array_equal(kept, x[x > 0.5])
            np.testing.assert_array_equal(positions, np.argwhere(x > 0.5))
            np.testing.assert_array_equal(picked, x[rows])
            assert_close(total, x[x > 0.5].sum(), 8)
