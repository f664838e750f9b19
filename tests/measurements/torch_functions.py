"""Functions of PyTorch called with their defaults and at the edges of their options: right, refused or wrong.

    python tests/measurements/torch_functions.py [--door export|compile] [WORD ...]

prints what is not right, of calls whose name has one of the words, and the counts. Each line of CALLS is an expression
of tensors of `arguments`; PyTorch's own result is what is right.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from graphc.frontend import load
from graphc.integrations import torch_backend

CALLS = """
torch.argmax(x) | torch.argmax(x, 1) | torch.argmax(x, -1, keepdim=True) | torch.argmin(x) | torch.argmax(ties)
torch.max(x) | torch.max(x, 1) | torch.max(x, 0, keepdim=True) | torch.min(x) | torch.min(x, -1) | torch.max(x, x * 2)
torch.min(nan)
torch.amax(x) | torch.amax(x, (0, 2)) | torch.amin(x, 1, True) | torch.aminmax(x) | torch.aminmax(x, dim=1)
torch.amax(nan, 1)
torch.sum(x) | torch.sum(n) | torch.sum(bools) | torch.sum(x, 1) | torch.sum(x, (0, -1), keepdim=True)
torch.sum(x, dtype=torch.float64) | torch.sum(x, ())
torch.mean(x) | torch.mean(x, 1) | torch.mean(n, dtype=torch.float32) | torch.nanmean(nan) | torch.nansum(nan)
torch.nanmean(nan, 1)
torch.prod(x) | torch.prod(x, 1) | torch.prod(n) | torch.all(bools) | torch.any(bools, 1) | torch.all(x, 0)
torch.any(n)
torch.std(x) | torch.std(x, 1) | torch.std(x, 1, correction=0) | torch.std(x, unbiased=False) | torch.std(one)
torch.var(x) | torch.var(x, (0, 1)) | torch.var(x, 1, correction=2)
torch.std_mean(x) | torch.var_mean(x, 1) | torch.var_mean(x, 1, correction=0, keepdim=True) | torch.logsumexp(x, 1)
torch.logsumexp(x, (0, 2), True)
torch.norm(x) | torch.norm(x, 1) | torch.norm(x, 2, 1) | torch.norm(x, float("inf")) | torch.norm(x, 0)
torch.norm(x, 3, (0, 1)) | torch.norm(m, "fro") | torch.norm(m, "nuc") | x.norm() | x.norm(p=1, dim=-1)
torch.linalg.vector_norm(x) | torch.linalg.vector_norm(x, 3, 1) | torch.linalg.norm(x) | torch.linalg.norm(m, 2)
torch.linalg.norm(x, 1, 1) | torch.linalg.matrix_norm(x) | torch.dist(x, x * 2) | torch.dist(x, x * 2, 1)
torch.median(x) | torch.median(x, 1) | torch.median(nan, 1) | torch.median(even) | torch.nanmedian(x)
torch.nanmedian(nan) | torch.nanmedian(nan, 1) | torch.nanmedian(nan, 0, keepdim=True)
torch.mode(n) | torch.mode(n, 0) | torch.mode(n, 1, True) | torch.mode(ties) | torch.quantile(x, 0.3)
torch.quantile(x, 0.3, 1) | torch.quantile(x, q) | torch.quantile(x, q, 1) | torch.quantile(x, q, 1, keepdim=True)
torch.quantile(x, torch.tensor([0.1, 0.5]), dim=-1)
torch.quantile(x, q, 1, interpolation="nearest") | torch.quantile(x, q, interpolation="midpoint")
torch.quantile(x, 0.5, 0, interpolation="lower") | torch.nanquantile(nan, 0.4, 1) | torch.nanquantile(nan, q, 1)
torch.nanquantile(nan, 0.4) | torch.quantile(nan, 0.4, 1)
torch.bincount(counts) | torch.bincount(counts, minlength=9) | torch.bincount(counts, counts * 0.5, 3)
torch.count_nonzero(n) | torch.count_nonzero(n, 1) | torch.histc(x) | torch.histc(x, 5, -1, 1)
torch.unique(counts) | torch.unique(counts, return_inverse=True) | torch.unique(counts, return_counts=True)
torch.unique_consecutive(counts) | torch.unique(m, dim=0)
torch.cumsum(x, 1) | torch.cumsum(n, 0) | torch.cumsum(bools, 1) | torch.cumprod(x, -1) | torch.cumprod(n, 1)
torch.cummax(x, 1) | torch.cummin(ties, 0) | torch.logcumsumexp(x, 1) | torch.cummax(nan, 1)
torch.cumsum(x, 1, dtype=torch.float64) | torch.cumulative_trapezoid(x) | torch.trapezoid(x)
torch.trapezoid(x, dx=2, dim=0) | torch.diff(x) | torch.diff(x, 2, 1) | torch.diff(x, dim=0)
F.softmax(m) | F.softmax(v) | F.softmax(x) | F.softmax(x, 1) | F.log_softmax(m) | F.log_softmax(x, -1)
F.softmin(x, 1) | F.softmin(m) | F.softmax(b4) | F.softmax(x, 1, dtype=torch.float64) | nn.Softmax()(m)
nn.LogSoftmax()(x) | nn.Softmax2d()(b4)
torch.squeeze(one4) | torch.squeeze(one4, 1) | torch.squeeze(one4, 2) | torch.squeeze(one4, (0, 1))
torch.unsqueeze(x, -1) | torch.flatten(x) | torch.flatten(x, 1) | torch.flatten(s) | torch.unflatten(x, 1, (2, -1))
torch.ravel(x) | torch.atleast_1d(s) | torch.atleast_2d(v) | torch.atleast_3d(m) | torch.swapaxes(x, 0, 2)
torch.cross(c3, c3 + 1, dim=1) | torch.cross(c3, c3 * c3) | torch.cross(c43, c43 * c43)
torch.cross(c33, c33 * c33 + 1) | torch.linalg.cross(c43, c43 * c43)
torch.sort(x) | torch.sort(x, 0, True) | torch.sort(ties, stable=True) | torch.argsort(x) | torch.argsort(x, 1, True)
torch.msort(x) | torch.topk(x, 2) | torch.topk(x, 2, 1) | torch.topk(x, 2, 0, False) | torch.kthvalue(x, 2)
torch.kthvalue(x, 2, 1, True) | torch.sort(s) | torch.sort(bools)
torch.flip(x, (0, 2)) | torch.fliplr(m) | torch.flipud(m) | torch.rot90(m) | torch.rot90(m, 3)
torch.rot90(x, 2, (0, 2)) | torch.roll(x, 1) | torch.roll(x, (1, -1), (0, 2)) | torch.roll(x, 5, 1) | torch.tril(m)
torch.triu(m, 1) | torch.tril(x, -1) | torch.diag(v) | torch.diag(m) | torch.diag(m, 1) | torch.diagonal(x)
torch.diagonal(x, 1, 1, 2) | torch.diag_embed(m) | torch.diag_embed(m, 1, 0, 2) | torch.diagflat(m) | torch.trace(m)
torch.block_diag(m, m) | torch.vander(v) | torch.vander(v, 3, True) | torch.cartesian_prod(v, v)
torch.chunk(x, 2, 1)[1] | torch.split(x, 2, 1)[1] | torch.tensor_split(x, 3, 2)[2] | torch.hsplit(m, 1)[0]
torch.vsplit(m, 3)[1] | torch.dsplit(x, 5)[1] | torch.unbind(x)[1] | torch.unbind(x, 2)[3] | torch.hstack((m, m))
torch.vstack((m, m)) | torch.dstack((m, m)) | torch.column_stack((v, v)) | torch.stack((m, m))
torch.stack((m, m), -1) | torch.cat((m, m)) | torch.cat((m, m), -1)
torch.gather(m, 1, at) | torch.take(m, at) | torch.take_along_dim(m, at) | torch.take_along_dim(m, at, 1)
torch.index_select(m, 1, i1) | torch.masked_fill(m, m > 0, -1) | torch.where(m > 0, m, 0)
torch.scatter(m, 1, at, 5.0) | torch.scatter_add(m, 1, at, m[:, :2])
torch.scatter_reduce(m, 1, at, m[:, :2], "mean")
torch.scatter_reduce(m, 1, at, m[:, :2], "amax", include_self=False) | torch.index_add(m, 1, i1, m[:, :2])
torch.index_fill(m, 1, i1, 2) | torch.isin(counts, i1) | torch.isin(counts, i1, invert=True)
torch.searchsorted(edges, v) | torch.bucketize(v, edges) | torch.nonzero(counts)
F.interpolate(b4, 8) | F.interpolate(b4, scale_factor=2) | F.interpolate(b4, scale_factor=1.5)
F.interpolate(b4, (7, 3), mode="bilinear") | F.interpolate(b4, scale_factor=2, mode="bilinear", align_corners=True)
F.interpolate(b4, 7, mode="bicubic") | F.interpolate(b4, 3, mode="area") | F.interpolate(x, 9, mode="linear")
F.interpolate(b4, 3, mode="nearest-exact") | F.interpolate(b4, 3, mode="bilinear", antialias=True)
F.interpolate(b4, scale_factor=0.4, recompute_scale_factor=True) | F.upsample(b4, scale_factor=2)
nn.Upsample(scale_factor=2)(b4) | nn.UpsamplingBilinear2d(scale_factor=2)(b4)
F.pad(x, (1, 2)) | F.pad(x, (1, 2, 0, 3), value=7.0) | F.pad(x, (-1, 1)) | F.pad(x, (1, 2), "reflect")
F.pad(x, (2, 1), "replicate") | F.pad(x, (2, 1), "circular") | F.pad(b4, (1, 1, 2, 0), "reflect")
nn.ZeroPad2d(1)(b4) | nn.ReflectionPad1d(2)(x) | nn.CircularPad2d(1)(b4) | nn.ConstantPad1d(1, 3.5)(x)
F.max_pool2d(b4, 2) | F.max_pool2d(b4, 3, 2, 1) | F.max_pool2d(b4, 2, ceil_mode=True) | F.max_pool2d(b4, 3, 1, 1, 2)
F.max_pool2d(b4, 2, return_indices=True) | F.max_pool1d(x, 2) | F.avg_pool2d(b4, 2) | F.avg_pool2d(b4, 3, 2, 1)
F.avg_pool2d(b4, 3, 2, 1, count_include_pad=False) | F.avg_pool2d(b4, 3, 2, 1, True)
F.avg_pool2d(b4, 2, divisor_override=3) | F.avg_pool1d(x, 3) | F.lp_pool2d(b4, 2, 2) | F.lp_pool1d(x, 3, 2)
F.adaptive_avg_pool2d(b4, 3) | F.adaptive_avg_pool2d(b4, (None, 2)) | F.adaptive_max_pool2d(b4, 2)
F.adaptive_avg_pool1d(x, 2) | F.adaptive_max_pool1d(x, 2, True)
F.max_unpool2d(*F.max_pool2d(b4[..., :4], 2, return_indices=True), 2)
F.gelu(x) | F.gelu(x, approximate="tanh") | F.elu(x) | F.elu(x, 0.5) | F.selu(x) | F.celu(x) | F.celu(x, 2.0)
F.leaky_relu(x) | F.relu6(x) | F.hardtanh(x) | F.hardsigmoid(x) | F.hardswish(x) | F.softplus(x) | F.softplus(x, 2, 1)
F.softshrink(x) | F.hardshrink(x) | F.tanhshrink(x) | F.softsign(x) | F.logsigmoid(x) | F.mish(x) | F.silu(x)
F.threshold(x, 0.1, 20) | F.glu(x[..., :4]) | F.glu(b4, 1) | F.prelu(b4, v[:2]) | F.rrelu(x) | nn.PReLU()(x)
F.normalize(x) | F.normalize(x, 1, -1) | F.layer_norm(x, (5,)) | F.layer_norm(x, (4, 5), eps=1e-3)
F.instance_norm(b4) | F.group_norm(b4, 2) | F.local_response_norm(b4, 2) | F.rms_norm(x, (5,))
F.batch_norm(b4, v[:2], v[:2].abs()) | F.cosine_similarity(x, x * x) | F.cosine_similarity(x, x + 1, -1)
F.pairwise_distance(m, m * 2) | F.pdist(m) | torch.cdist(m, m * 2) | torch.cdist(m, m * 2, 1)
torch.renorm(m, 2, 0, 1.0) | F.one_hot(counts, 9)
F.mse_loss(m, m * m) | F.l1_loss(m, m * m, reduction="sum") | F.smooth_l1_loss(m, m * m)
F.smooth_l1_loss(m, m * m, beta=0.5) | F.huber_loss(m, m * m) | F.cross_entropy(m, t3)
F.cross_entropy(m, t3, label_smoothing=0.1) | F.cross_entropy(m, t3, reduction="none", ignore_index=1)
F.nll_loss(m, t3) | F.binary_cross_entropy(m.sigmoid(), m.sigmoid())
F.binary_cross_entropy_with_logits(m, m.sigmoid()) | F.kl_div(m, m.sigmoid())
F.kl_div(m, m, reduction="batchmean", log_target=True) | F.hinge_embedding_loss(m, m.sign())
F.margin_ranking_loss(m, m * m, m.sign()) | F.soft_margin_loss(m, m.sign()) | F.triplet_margin_loss(m, m * 2, m * m)
F.cosine_embedding_loss(m, m * m, v[:3].sign()) | F.poisson_nll_loss(m, m.abs())
F.mse_loss(m, m * m, reduction="none") | F.multi_margin_loss(m, t3)
F.multilabel_soft_margin_loss(m, m.sigmoid().round())
torch.clamp(x, 0) | torch.clamp(x, max=0.5) | torch.clamp(x, x * 0, x * 0 + 1) | torch.clip(n, 1, 2)
torch.round(x, decimals=1) | torch.round(half) | torch.fmod(x, 0.3) | torch.remainder(x, -0.3)
torch.remainder(n, -3) | torch.fmod(n, -3) | torch.div(x, 0.3, rounding_mode="floor") | torch.div(n, 2)
torch.div(n, -2, rounding_mode="trunc") | torch.floor_divide(n, -2) | n // 2 | torch.true_divide(n, 2)
torch.pow(x, 2) | torch.pow(2, x) | torch.pow(n, 2) | torch.float_power(n, 0.5) | torch.sign(nan) | torch.sgn(x)
torch.heaviside(x, x * 0 + 0.5) | torch.copysign(x, -1.0) | torch.nan_to_num(nan) | torch.nan_to_num(nan, 1.0)
torch.xlogy(x.abs(), x.abs()) | torch.special.entr(x.abs()) | torch.logit(p) | torch.logit(p, 0.2)
torch.lerp(x, x * 2, 0.3) | torch.addcmul(x, x, x) | torch.addcdiv(x, x, x.abs() + 1, value=2) | torch.hypot(x, x + 1)
torch.atan2(x, x + 1) | torch.logaddexp(x, x * 2) | torch.fmax(nan, x[0]) | torch.maximum(nan, x[0]) | torch.frexp(x)
torch.ldexp(x, n) | torch.gcd(n, n * 2 + 1) | torch.lcm(n, n + 1) | torch.isclose(x, x + 1e-6) | torch.sinc(x)
torch.deg2rad(x) | torch.signbit(x) | torch.erfinv(p) | torch.lgamma(x.abs() + 1) | torch.digamma(x.abs() + 1)
torch.i0(x) | torch.nextafter(x, x + 1) | torch.bitwise_xor(n, 3) | torch.bitwise_left_shift(n, 2)
torch.logical_xor(x, n)
torch.arange(5) + x[0] | torch.linspace(0, 1, 5) + x | torch.full((2,), 3) + s | torch.zeros_like(n) + n
torch.ones(5) * x | torch.empty_like(x).fill_(2) + x | torch.logspace(0, 1, 5) + x
torch.tril_indices(3, 3) + n[0, 0, 0] | torch.meshgrid(v, v)[0] | torch.meshgrid(v, v, indexing="xy")[1]
torch.matmul(m, m.T) | torch.mm(m, m.T) | torch.bmm(x, x.mT) | torch.mv(m, v[:4]) | torch.dot(v, v)
torch.addmm(m[:, :3], m, m.T) | torch.addmm(m[:, :3], m, m.T, beta=0.5, alpha=2)
torch.baddbmm(x[..., :4] * 0, x, x.mT) | torch.addmv(v[:3], m, v[:4]) | torch.addr(m, v[:3], v[:4])
torch.outer(v, v) | torch.inner(m, m) | torch.kron(m, m) | torch.tensordot(x, x, ([0, 1], [0, 1]))
torch.einsum("bij,bkj->bik", x, x) | torch.chain_matmul(m, m.T, m) | torch._int_mm(i8, i8.T.contiguous())
torch.linalg.multi_dot((m, m.T, m)) | F.linear(m, m) | F.bilinear(m, m, x[:, :4, :4], None)
F.scaled_dot_product_attention(x[None], x[None], x[None])
F.scaled_dot_product_attention(x[None], x[None], x[None], is_causal=True) | F.embedding(counts, m6)
F.embedding_bag(counts[None], m6) | F.conv1d(x, x) | F.conv2d(b4, b4[:1, :, :3, :3])
F.conv2d(b4, b4[:, :, :3, :3], padding="same") | F.conv_transpose2d(b4, b4[:, :, :3, :3], stride=2, output_padding=1)
F.unfold(b4, 3) | F.fold(F.unfold(b4, 2), (6, 5), 2) | F.pixel_shuffle(b4.reshape(1, 4, 6, 5), 2)
F.pixel_unshuffle(b4[..., :4], 2) | F.channel_shuffle(b4, 2) | F.grid_sample(b4, b4[:, 0, :, :4].reshape(2, 3, 4, 2))
F.affine_grid(x[:, :2, :3], (2, 1, 3, 4))
"""
"""Calls, several a line, of the tensors of `arguments`: `x`, `m`, `v` and `b4` are floats, `n` integers."""


def arguments() -> dict[str, Any]:
    """The tensors that calls name."""
    import torch

    make = torch.Generator().manual_seed(5)

    def normal(*dims: int) -> Any:
        return torch.randn(dims, generator=make)

    found = {
        "x": normal(2, 4, 5), "m": normal(3, 4), "v": normal(5), "b4": normal(2, 2, 6, 5), "s": normal(),
        "one": normal(1), "one4": normal(1, 1, 3, 1), "c3": normal(2, 3, 4), "c43": normal(4, 3),
        "c33": normal(3, 2, 3), "even": normal(6), "m6": normal(6, 4), "edges": normal(4).sort().values,
        "n": torch.randint(-4, 5, (2, 4, 5), generator=make), "q": torch.tensor([0.0, 0.25, 0.6, 1.0]),
        "ties": torch.tensor([[2.0, 1.0, 2.0, 1.0], [1.0, 1.0, 3.0, 3.0]]), "p": torch.rand(7, generator=make),
        "counts": torch.tensor([1, 5, 3, 1, 0, 5, 5]), "at": torch.tensor([[0, 3], [1, 1], [2, 0]]),
        "i1": torch.tensor([3, 0]), "t3": torch.tensor([1, 3, 0]), "half": torch.tensor([0.5, 1.5, -2.5]),
        "i8": torch.randint(-9, 9, (32, 64), generator=make).to(torch.int8),
    }  # fmt: skip
    found["nan"] = found["x"][0].clone()
    found["nan"][[0, 2, 2], [1, 0, 4]] = float("nan")
    found["bools"] = found["n"] > 0
    return found


def calls(words: list[str]) -> Iterator[str]:
    """Yield the expressions that have one of the words, all without words."""
    for line in CALLS.strip().splitlines():
        for text in line.split(" | "):
            if not words or any(word in text for word in words):
                yield text


def outcome(text: str, given: dict[str, Any], door: str) -> tuple[str, str]:
    """Return `right`, `refused`, `wrong` or `no program` (PyTorch cannot run or export it), and why."""
    import torch

    names = [name for name in given if name in compile(text, text, "eval").co_names]
    scope = {"torch": torch, "F": torch.nn.functional, "nn": torch.nn}

    function = eval(f"lambda {', '.join(names)}: {text}", scope)

    class Module(torch.nn.Module):  # type: ignore[misc]
        def forward(self, *tensors: Any) -> Any:
            return function(*tensors)

    tensors = tuple(given[name].clone() for name in names)
    try:
        wanted = torch.utils._pytree.tree_leaves(Module()(*tensors))
        program = DOORS[door](Module().eval(), tensors)
    except Exception as error:  # noqa: BLE001 - PyTorch's own
        return "no program", f"{type(error).__name__}: {error}".splitlines()[0]
    try:
        found = program()
    except Exception as error:  # noqa: BLE001 - this is what is looked for
        text = f"{type(error).__name__}: {error}"
        return ("refused" if "UnsupportedError" in text else "wrong"), text
    return _compared(found, [x.detach().numpy() for x in wanted])


def _exported(module: Any, tensors: tuple[Any, ...]) -> Callable[[], list[Any]]:
    import torch

    program = torch.export.export(module, tensors)
    return lambda: load(program).evaluate([x.numpy() for x in tensors])


def _compiled(module: Any, tensors: tuple[Any, ...]) -> Callable[[], list[Any]]:
    """A call as Dynamo captures it, in native code."""
    import torch

    torch._dynamo.reset()
    fast = torch.compile(module, backend=torch_backend.backend, options={"strict": True})

    def run() -> list[Any]:
        with torch.no_grad():
            return [y.numpy() for y in torch.utils._pytree.tree_leaves(fast(*tensors))]

    return run


DOORS = {"export": _exported, "compile": _compiled}
"""Ways to capture a module, with the runner of each."""


def _compared(found: list[Any], wanted: list[Any]) -> tuple[str, str]:
    if len(found) != len(wanted):
        return "wrong", f"{len(found)} results for {len(wanted)}"
    for mine, theirs in zip(found, wanted, strict=True):
        if (mine.shape, mine.dtype) != (theirs.shape, theirs.dtype):
            return "wrong", f"{mine.dtype}{mine.shape} for {theirs.dtype}{theirs.shape}"
        if not np.allclose(mine, theirs, rtol=1e-4, atol=1e-5, equal_nan=True):
            return "wrong", f"{mine.ravel()[:6]} for {theirs.ravel()[:6]}"
    return "right", ""


def main() -> None:
    """Print what is not right, and the counts; exit code 1 if anything is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("words", nargs="*")
    parser.add_argument("--door", choices=[*DOORS], default="export")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    counts: Counter[str] = Counter()
    given = arguments()
    for text in calls(chosen.words):
        result, why = outcome(text, given, chosen.door)
        counts[result] += 1
        if result != "right":
            print(f"{result:<10} {text}: {why[:160]}", flush=True)
    print(", ".join(f"{number} {result}" for result, number in sorted(counts.items())))
    sys.exit(counts["wrong"] > 0)


if __name__ == "__main__":
    main()
