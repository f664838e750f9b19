"""Operators of ATen against PyTorch itself: views of memory, searches, bags, masks, scalars, signs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from graphc.base.errors import UnsupportedError
from graphc.frontend import load

torch: Any = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore")  # of torch, about itself
F: Any = torch.nn.functional
aten: Any = torch.ops.aten


def read(function: Callable[..., Any], *args: Any) -> Any:
    class Module(torch.nn.Module):  # type: ignore[misc]
        def forward(self, *tensors: Any) -> Any:
            return function(*tensors)

    return load(torch.export.export(Module(), args))


X = torch.tensor([[3.0, -1.0, 2.0, 2.0], [0.5, float("nan"), -0.0, 7.0], [1.0, 4.0, 9.0, -3.0]])
ROWS = torch.tensor([1, 0, 2, 2, 1, 0])
STARTS = torch.tensor([0, 2, 2, 5])
MASK = torch.tensor([[True, False, False, True], [False] * 4, [True, True, False, True]])
SORTED = torch.tensor([[0.0, 1.0, 1.0, 4.0], [2.0, 2.0, 3.0, 5.0], [-1.0, 0.0, 2.0, 9.0]])


def bag(mode: str, **options: Any) -> Callable[..., Any]:
    return lambda rows, table: F.embedding_bag(rows, table, STARTS, mode=mode, **options)


def reduced(word: str, with_self: bool) -> Callable[..., Any]:
    index = torch.tensor([2, 0, 2])
    return lambda x, y: torch.index_reduce(x, 0, index, y, word, include_self=with_self)


CALLS: dict[str, tuple[Any, ...]] = {
    "a view of permuted memory": (lambda x: torch.as_strided(x, (4, 1, 3), (1, 7, 4)), X),
    "windows of memory": (lambda x: torch.as_strided(x, (3, 4), (2, 1), 1), X),
    "a view of a transposed tensor": (lambda x: torch.as_strided(x.t() * 1, (3, 2), (4, 2)), X),
    "memory assigned": (lambda x, y: torch.as_strided_scatter(x, y, (2, 2), (5, 1), 1), X, SORTED[:2, :2]),
    "searchsorted": (lambda s, x: torch.searchsorted(s, x), SORTED, X[:, :2]),
    "bucketize": (lambda s, x: torch.bucketize(x, s, right=True, out_int32=True), SORTED[0], X[0]),
    "bags, sums": (bag("sum", padding_idx=2), ROWS, SORTED),
    "bags, means": (bag("mean"), ROWS, SORTED),
    "bags, largest": (bag("max", include_last_offset=True), ROWS, SORTED),
    "masked_scatter": (lambda x, m, y: x.masked_scatter(m, y), X, MASK, SORTED),
    "rows put by a mask": (lambda x, m, y: x.index_put((m,), y), X, MASK[:, 0], SORTED[:2]),
    "put": (lambda x, i, y: x.put(i, y, accumulate=True), X, ROWS, SORTED.flatten()[:6]),
    "index_reduce mean": (reduced("mean", False), X, SORTED),
    "index_reduce amin": (reduced("amin", False), X, SORTED),
    "index_reduce prod": (reduced("prod", True), X, SORTED),
    "histogram": (lambda x: torch.histc(x, 4, -1, 3), SORTED),
    "histogram between minimum and maximum": (lambda x: torch.histc(x, 3), SORTED),
    "bools scattered": (
        lambda x, i, y: [x.scatter_reduce(0, i, y, word) for word in ("sum", "prod", "amax", "amin")]
        + [x.scatter_add(0, i, y), x.scatter_reduce(0, i, y, "amin", include_self=False),
           x.index_put((i[0],), y[:1], accumulate=True)],
        MASK, torch.tensor([[0, 2, 1, 0], [0, 1, 1, 2]]), ~MASK[:2],
    ),
    "steps cut to integers": (lambda x: x + torch.arange(0.1, -7.9, -4.0, dtype=torch.int64), ROWS[:2]),
    "numbers between two, cut to integers": (
        lambda x: [torch.linspace(36, -48, 37, dtype=torch.int64) + x.sum().long(), torch.linspace(-1, 2, 5) * x.sum()],
        SORTED * 0,
    ),
    "numbers between tensors": (
        lambda x, n: [
            torch.linspace(x[0, 1], n[2], 7), torch.linspace(2, x[0, 0], 4, dtype=torch.float64),
            torch.linspace(n[0], -3.5, 1), torch.linspace(x[0, 2], 1, 0), torch.logspace(x[0, 0], 1, 6, base=2),
        ],
        X, ROWS,
    ),
    "groups of rows": (
        lambda x, w, ends: aten._grouped_mm(x.bfloat16(), w.bfloat16(), ends).float(), torch.ones(6, 16) / 4,
        torch.arange(3 * 16 * 72).reshape(3, 16, 72) % 5 - 2.0, torch.tensor([2, 2, 6], dtype=torch.int32),
    ),
    "median": (lambda x: (x.median(), *x.median(1), *x.median(0, keepdim=True)), X),
    "medians of numbers": (
        lambda x: (x.nanmedian(), *x.nanmedian(1), *(x / 0 * 0).nanmedian(0, keepdim=True), *x[0, 0].nanmedian(0)), X,
    ),
    "modes": (
        lambda x, n: (*x.mode(), *x.mode(0, keepdim=True), *n.mode(0), *x[0, 0].mode(), *x[:, :1].mode()), SORTED, ROWS,
    ),
    "several quantiles": (
        lambda x, q: (
            x.quantile(q, 1), x.quantile(q[:3], keepdim=True), torch.quantile(x, q, 0, interpolation="nearest"),
            torch.quantile(x, 0.3), torch.quantile(x, 0.3, 1, keepdim=True, interpolation="higher"),
        ),
        torch.cat([X, SORTED]), torch.tensor([0.0, 0.3, 0.5, 1.0]),
    ),
    "axes exchanged": (lambda x: torch.swapaxes(x, 0, -1), X),
    "matmuls of bytes": (
        torch._int_mm, (torch.arange(18 * 24).reshape(18, 24) * 37 % 256 - 128).to(torch.int8),
        (torch.arange(24 * 16).reshape(24, 16) * 91 % 256 - 128).to(torch.int8),
    ),
    "scalars": (lambda x: (x.softmax(0), x.index_select(0, torch.tensor([0])), *x.kthvalue(1)), X[0, 0]),
    "fmax and fmin": (lambda x, y: (torch.fmax(x, y), torch.fmin(x, y)), X, SORTED),
    "signs": (lambda x, y: (x.signbit(), y.copysign(x), x.angle()), X, SORTED),
    "distances": (lambda x, y: (torch.cdist(x, y, 1.0), torch.cdist(x, y, 3.0)), SORTED[:2] + 1, SORTED),
    "addbmm": (lambda x, y: torch.addbmm(x, y, y, beta=2, alpha=3), X[:, :3], torch.ones(2, 3, 3) * 0.5),
    "bilinear": (F.bilinear, SORTED[:, :2], SORTED[:, 1:], torch.arange(24.0).reshape(4, 2, 3), torch.ones(4)),
    "a list with an empty vector": (lambda x, y: torch.cat([y, x], 1), X, torch.ones(0)),
    "lp pools of negative numbers and of extremes": (
        lambda x: [F.lp_pool1d(x[None], p, 2) for p in (3, 2, 1.5, float("inf"), -float("inf"))], X,
    ),
    "averages of integers": (lambda x: F.avg_pool1d(x[None], 2), torch.tensor([[-3, 2, 5, -8]])),
    "sums of integers divided": (
        lambda x: F.avg_pool2d(x[None], (1, 2), divisor_override=-3), torch.tensor([[-3, 2, 5, -9]]),
    ),
    "memory as new": (lambda x: torch.empty_strided((2, 2), (1, 2)).fill_(3) + x[0, 0], X),
    "types concatenated": (lambda x, i: torch.cat((i[None, :4], x), 0) + torch.stack((x[0, 0], i[0])).sum(), X, ROWS),
    "rows twice": (lambda x: torch.repeat_interleave(x, 2, 0, output_size=6), X),
    "columns": (lambda x: F.fold(x[None], (4, 3), (2, 2), padding=(0, 1)), torch.ones(4, 12)),
    "5-D grids": (lambda x, g: F.grid_sample(x, g, align_corners=False), torch.ones(1, 2, 2, 2, 3),
                  torch.linspace(-1, 1, 24).reshape(1, 2, 2, 2, 3)),
}  # fmt: skip


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", CALLS)
def test_operators(name: str) -> None:
    function, *args = CALLS[name]
    wanted = torch.utils._pytree.tree_leaves(function(*args))
    found = read(function, *args).evaluate([x.numpy() for x in args])
    for mine, theirs in zip(found, wanted, strict=True):
        assert (mine.dtype, mine.shape) == (theirs.numpy().dtype, tuple(theirs.shape))
        np.testing.assert_allclose(mine, theirs.numpy(), rtol=1e-5, atol=1e-6)


def test_memory_outside_of_a_tensor_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="a view of memory outside of its tensor"):
        read(lambda x: torch.as_strided(x[1], (4,), (1,), 0) + 1, X)


def test_antialiasing_of_aligned_corners_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="align_corners=True with antialiasing"):
        read(lambda x: aten._upsample_bilinear2d_aa(x, [2, 2], True), torch.ones(1, 1, 4, 4))


def test_integers_between_tensors_are_refused() -> None:
    """PyTorch cuts them after sums of as many as its vectors hold."""
    with pytest.raises(UnsupportedError, match="integers between numbers that depend on"):
        read(lambda x: torch.linspace(x[0], 9, 4, dtype=torch.int64), X[0])


def test_regions_of_torchvision() -> None:
    """The operator is declared here, because the package is not needed to read a program of it."""
    library = torch.library.Library("torchvision", "FRAGMENT")
    library.define(
        "roi_align(Tensor input, Tensor rois, float spatial_scale, int pooled_height, int pooled_width,"
        " int sampling_ratio, bool aligned) -> Tensor"
    )
    library.impl(
        "roi_align", lambda x, r, s, h, w, *_: x.new_zeros(len(r), x.shape[1], h, w), "Meta"
    )
    x, regions = torch.arange(48.0).reshape(2, 1, 4, 6), torch.tensor([[1.0, 0, 0, 8, 4]])
    for ratio, aligned in ((-1, False), (0, True), (3, False)):
        graph = read(
            lambda x, r, n=ratio, a=aligned: torch.ops.torchvision.roi_align(x, r, 0.5, 2, 2, n, a),
            x,
            regions,
        )
        rows, columns = (0.5, 1.5), (1.0, 3.0)  # centers of cells, of a linear function
        middle = [24 + 6 * (i - aligned / 2) + j - aligned / 2 for i in rows for j in columns]
        np.testing.assert_allclose(graph.evaluate([x.numpy(), regions.numpy()])[0].ravel(), middle)
