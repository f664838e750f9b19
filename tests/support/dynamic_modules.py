"""Ordinary PyTorch modules with dynamic batch, length, height or width, and their exports.

A module is traced at one size, exported with its dynamic axes by pnnx (`inputshape2=`), torch.export and torch.onnx,
and compared with PyTorch at other sizes.
"""

from __future__ import annotations

import contextlib
import io
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as f

import graphc
from graphc.base.records import dataclass

Sizes = dict[str, int]

TOKENS = ("B", "T", 8)
IMAGE = ("B", 4, "H", "W")


@dataclass(frozen=True)
class DynamicModule:
    """A module and the shape of its input: names are dynamic axes.

    `traced` are the sizes of the example that exporters see, `others` those of the comparison.
    """

    make: Callable[[], nn.Module]
    shape: tuple[int | str, ...]
    traced: Sizes
    others: tuple[Sizes, ...]


class Lambda(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Any) -> Any:
        """The value of the function."""
        return self.function(x)


_LENGTHS: tuple[Sizes, ...] = ({"B": 3, "T": 4}, {"B": 1, "T": 11}, {"B": 5, "T": 16})
_HEIGHTS: tuple[Sizes, ...] = (
    {"B": 3, "H": 8, "W": 8},
    {"B": 1, "H": 24, "W": 12},
    {"B": 5, "H": 12, "W": 40},
)


def _of_tokens(function: Callable[[Any], Any]) -> DynamicModule:
    return DynamicModule(lambda: Lambda(function), TOKENS, {"B": 2, "T": 6}, _LENGTHS)


def _of_images(function: Callable[[Any], Any]) -> DynamicModule:
    return DynamicModule(lambda: Lambda(function), IMAGE, {"B": 2, "H": 16, "W": 20}, _HEIGHTS)


class Positions(nn.Module):
    """A table of positions cut to the length."""

    def __init__(self, cut: Callable[[Any, Any], Any] = lambda table, t: table[:, :t]) -> None:
        super().__init__()
        self.table, self.cut = nn.Parameter(torch.randn(1, 20, 8)), cut

    def forward(self, x: Any) -> Any:
        """The sum of both."""
        return x + self.cut(self.table, x.shape[1])


class Embedded(nn.Module):
    """Embeddings of positions that are counted."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(16, 8)

    def forward(self, x: Any) -> Any:
        """The sum of both."""
        return x + self.table(torch.arange(x.shape[1], device=x.device))


class Tail(nn.Module):
    """A part of another module's result."""

    def __init__(self, inner: nn.Module, function: Callable[[Any], Any]) -> None:
        super().__init__()
        self.inner, self.function = inner, function

    def forward(self, x: Any) -> Any:
        """The part."""
        return self.function(self.inner(x))


class ClassToken(nn.Module):
    """A class token that is expanded and concatenated."""

    def __init__(self) -> None:
        super().__init__()
        self.token = nn.Parameter(torch.randn(1, 1, 8))

    def forward(self, x: Any) -> Any:
        """The token before all others."""
        return torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1)


def _views(x: Any) -> Any:
    b, t, c = x.shape
    heads = x.view(b, t, 2, c // 2).transpose(1, 2).reshape(b * 2, t, c // 2)
    return heads.reshape(b, 2, t, c // 2).transpose(1, 2).reshape(b, t * c)


def _masked_by_hand(x: Any) -> Any:
    t = x.shape[1]
    mask = torch.triu(torch.full((t, t), float("-inf")), 1)
    return torch.softmax(x @ x.transpose(1, 2) + mask, -1) @ x


def _patches(x: Any) -> Any:
    b, c, h, w = x.shape
    y = x.view(b, c, h // 2, 2, w // 2, 2)
    return y.permute(0, 1, 3, 5, 2, 4).reshape(b, c * 4, h // 2, w // 2)


def _assigned(x: Any, where: Any) -> Any:
    y = x * 2
    y[where] = 1.0
    return y


def _shifted_regions(x: Any) -> Any:
    """The regions of an image whose pixels shifted windows may compare (Swin)."""
    regions = torch.zeros(1, 1, *x.shape[2:])
    cuts = (slice(0, -4), slice(-4, -2), slice(-2, None))
    for number, (rows, columns) in enumerate((r, c) for r in cuts for c in cuts):
        regions[:, :, rows, columns] = number
    return x + regions


def _encoder() -> nn.Module:
    return nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.0)


def _downsampling() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(4, 6, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(3, 2, 1),
        nn.Conv2d(6, 5, 3, padding=1),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
    )


MODULES: dict[str, DynamicModule] = {
    "views": _of_tokens(_views),
    "arithmetic with a size": _of_tokens(lambda x: x * x.shape[1] + x.sum(1, True) / x.shape[1]),
    "first half": _of_tokens(lambda x: x[:, : x.shape[1] // 2]),
    "second half": _of_tokens(lambda x: x[:, x.shape[1] // 2 :]),
    "tail": _of_tokens(lambda x: x[:, x.shape[1] - 2 :]),
    "all but the last": _of_tokens(lambda x: x[:, :-1] - x[:, 1:]),
    "last": _of_tokens(lambda x: x[:, -1]),
    "new_zeros": _of_tokens(lambda x: torch.cat([x.new_zeros(x.shape[0], 1, 8), x], 1)),
    "tril": _of_tokens(lambda x: torch.tril(x @ x.transpose(1, 2))),
    "arange": _of_tokens(lambda x: x + torch.arange(x.shape[1]).to(x.dtype)[None, :, None]),
    "position table": DynamicModule(Positions, TOKENS, {"B": 2, "T": 6}, _LENGTHS),
    **{
        f"position table {how}": DynamicModule(
            partial(Positions, cut), TOKENS, {"B": 2, "T": 6}, _LENGTHS
        )
        for how, cut in {
            "by narrow": lambda table, t: table.narrow(1, 2, t),
            "from the back": lambda table, t: table[:, -t:],
            "from the second row": lambda table, t: table[:, 1 : t + 1],
        }.items()
    },
    "position embeddings": DynamicModule(Embedded, TOKENS, {"B": 2, "T": 6}, _LENGTHS),
    "causal attention": _of_tokens(
        lambda x: f.scaled_dot_product_attention(x[:, None], x[:, None], x[:, None], is_causal=True)
    ),
    "causal mask by hand": _of_tokens(_masked_by_hand),
    "encoder layer": DynamicModule(_encoder, TOKENS, {"B": 2, "T": 6}, _LENGTHS),
    "bidirectional LSTM": DynamicModule(
        lambda: Tail(
            nn.LSTM(8, 5, batch_first=True, bidirectional=True), lambda y: torch.cat(y[:1])
        ),
        TOKENS,
        {"B": 2, "T": 6},
        _LENGTHS,
    ),
    "GRU": DynamicModule(
        lambda: Tail(nn.GRU(8, 5, batch_first=True), lambda y: y[0] + 1.0),
        TOKENS,
        {"B": 2, "T": 6},
        _LENGTHS,
    ),
    "strided convolutions": DynamicModule(
        _downsampling, IMAGE, {"B": 2, "H": 16, "W": 20}, _HEIGHTS
    ),
    "resize back": _of_images(
        lambda x: x + f.interpolate(f.avg_pool2d(x, 2), size=x.shape[2:], mode="bilinear")
    ),
    "nearest by 2": _of_images(lambda x: f.interpolate(x, scale_factor=2.0)),
    "to half the size": _of_images(
        lambda x: f.interpolate(x, size=(x.shape[2] // 2, x.shape[3] // 2))
    ),
    "resize by 1.5": _of_images(lambda x: f.interpolate(x, scale_factor=1.5, mode="bilinear")),
    "adaptive pooling": _of_images(lambda x: f.adaptive_avg_pool2d(x, (3, 5))),
    "pixel_unshuffle": _of_images(lambda x: f.pixel_unshuffle(x, 2)),
    "space to depth by views": _of_images(_patches),
    "class token": DynamicModule(ClassToken, TOKENS, {"B": 2, "T": 6}, _LENGTHS),
    "sum": _of_tokens(lambda x: x.sum(1) + x.mean(1) + x.amax(1)),
    "cumsum": _of_tokens(lambda x: x.cumsum(1)),
    "softmax": _of_tokens(lambda x: x.softmax(1)),
    "top-k": _of_tokens(lambda x: x.topk(3, 1)[0]),
    "sort": _of_tokens(lambda x: x.sort(1)[0]),
    "argsort": _of_tokens(lambda x: x.argsort(1)),
    "argmax": _of_tokens(lambda x: x.argmax(1)),
    "std": _of_tokens(lambda x: x.std(1)),
    "flip": _of_tokens(lambda x: x.flip(1)),
    "roll": _of_tokens(lambda x: x.roll(1, 1)),
    "pad": _of_tokens(lambda x: f.pad(x, (0, 0, 1, 2))),
    "logsumexp": _of_tokens(lambda x: x.logsumexp(1)),
    "einsum": _of_tokens(lambda x: torch.einsum("btc,bsc->bts", x, x)),
    "pad to a multiple": _of_tokens(lambda x: f.pad(x, (0, 0, 0, -x.shape[1] % 8))),
    "top-k of at most 5": _of_tokens(lambda x: x.topk(min(5, x.shape[1]), 1)[0]),
    "eye": _of_tokens(lambda x: x @ x.transpose(1, 2) + torch.eye(x.shape[1])),
    "repeat": _of_tokens(lambda x: x.repeat(1, 2, 1)),
    "linspace mask": _of_tokens(
        lambda x: x.masked_fill((torch.arange(x.shape[1]) >= x.shape[1] // 2)[None, :, None], 0.0)
    ),
    "chunk": _of_tokens(lambda x: torch.cat(x.chunk(2, 2)[::-1], 2)),
    "unfold": _of_images(lambda x: f.unfold(x, 2, stride=2)),
    "grid_sample": _of_images(
        lambda x: f.grid_sample(x, x[:, :2].permute(0, 2, 3, 1).tanh(), align_corners=False)
    ),
    "instance norm": _of_images(lambda x: f.instance_norm(x)),
    "median": _of_tokens(lambda x: x.median(1)[0]),
    "diagonal": _of_tokens(lambda x: (x @ x.transpose(1, 2)).diagonal(1, 1, 2)),
    "spectrum": _of_tokens(lambda x: torch.fft.rfft(x, dim=2).abs()),
    "frames": _of_tokens(lambda x: x.flatten(1).unfold(1, 16, 8).mean(1)),
    "parts by sizes": _of_tokens(lambda x: x.split([x.shape[1] - 2, 2], 1)[0]),
    "assigned rows": _of_tokens(lambda x: _assigned(x, (slice(None), slice(1, -1)))),
    "an assigned first row": _of_tokens(lambda x: _assigned(x, (slice(None), 0))),
    "rows by a condition": _of_tokens(lambda x: torch.where(x[:, 0, 0] > 0)[0]),
    "shifted windows": _of_images(_shifted_regions),
    "fold": _of_images(lambda x: f.fold(f.unfold(x, 3, 1, 1, 2), x.shape[2:], 3, 1, 1, 2)),
    "reflected to a multiple": _of_images(
        lambda x: f.pad(x, (0, -x.shape[3] % 8, 0, -x.shape[2] % 8), mode="reflect")
    ),
    "resize by 0.57": _of_images(lambda x: f.interpolate(x, scale_factor=0.57, mode="bilinear")),
    "nearest by 1.7": _of_images(lambda x: f.interpolate(x, scale_factor=1.7)),
    "resize by 1.7, recomputed": _of_images(
        lambda x: f.interpolate(x, scale_factor=1.7, recompute_scale_factor=True)
    ),
    "areas by 0.3": _of_images(lambda x: f.interpolate(x, scale_factor=0.3, mode="area")),
    "antialiased": _of_images(
        lambda x: f.interpolate(x, scale_factor=0.57, mode="bicubic", antialias=True)
    ),
    "running extremes": _of_tokens(lambda x: x.cummax(1)[0] + x.cummin(1)[1]),
    "running logarithm of a sum": _of_tokens(lambda x: x.logcumsumexp(1)),
    "mode": _of_tokens(lambda x: x.round().mode(1)[0]),
    "lists of rows": _of_tokens(lambda x: torch.cat(torch.atleast_2d([x[0, 0], x[0, 1]]))),
    "batch as length": _of_tokens(lambda x: x.flatten(0, 1) @ torch.ones(8, 3)),
    "fold of wide windows": _of_images(
        lambda x: f.fold(f.unfold(x, (2, 3), stride=(2, 1)), x.shape[2:], (2, 3), stride=(2, 1))
    ),
    "quantiles": _of_tokens(lambda x: torch.quantile(x, torch.tensor([0.25, 0.6]), 1)),
    "integral": _of_tokens(lambda x: torch.trapezoid(x, dim=1) + torch.dist(x, x * 2)),
    "position of all": _of_tokens(lambda x: torch.argmax(x) + torch.median(x)),
    "sums along the batch": _of_tokens(lambda x: x.cumsum(0)),
    "a rounded half": _of_tokens(lambda x: x[:, : round(x.shape[1] / 2)]),
    "an element of all": _of_tokens(lambda x: torch.take(x, torch.tensor(-1))),
    "outer product": _of_tokens(lambda x: torch.tensordot(x, x[0, 0], dims=0)),
    "wrapped and cropped": _of_tokens(
        lambda x: f.pad(x.transpose(1, 2), (-1, 2), mode="circular")
    ),
    "reflected to a multiple of 8": DynamicModule(
        lambda: Lambda(lambda x: f.pad(x.mT, (0, -x.shape[1] % 8), mode="reflect")),
        TOKENS,
        {"B": 2, "T": 12},
        ({"B": 1, "T": 9}, {"B": 3, "T": 16}, {"B": 5, "T": 5}),
    ),
    "indices of a pool": _of_images(lambda x: f.max_pool2d(x, 3, 2, 1, return_indices=True)[1]),
    "unpooling": _of_images(lambda x: f.max_unpool2d(*f.max_pool2d(x, 2, return_indices=True), 2)),
}  # fmt: skip
"""Modules by their dynamic sizes; the first 35 are the measure of issue 29."""


def example(module: DynamicModule, sizes: Mapping[str, int], seed: int = 0) -> torch.Tensor:
    """An input of these sizes."""
    shape = [sizes[dim] if isinstance(dim, str) else dim for dim in module.shape]
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape, np.float32))


def made(module: DynamicModule) -> nn.Module:
    """The module with the same weights each time."""
    torch.manual_seed(0)
    return module.make().eval()


def from_pnnx(module: DynamicModule, folder: Path) -> Path:
    """The file that pnnx writes with two shapes of the input."""
    import pnnx  # type: ignore[import-not-found]

    shown = (example(module, module.traced),), (example(module, module.others[-1]),)
    # The files are complete where the Python text, which is written after them, has no valid syntax.
    with contextlib.chdir(folder), _quiet(), contextlib.suppress(SyntaxError):
        pnnx.export(made(module), "m.pt", *shown, check_trace=False, fp16=False)
    return folder / "m.pnnx.param"


def from_export(module: DynamicModule, folder: Path) -> Any:
    """The program of torch.export."""
    with _quiet():
        return torch.export.export(
            made(module), (example(module, module.traced),), dynamic_shapes=(_axes(module),)
        )


def from_onnx(module: DynamicModule, folder: Path) -> Path:
    """The file that torch.onnx writes of a program of torch.export."""
    return _onnx(module, folder, dynamo=True, dynamic_shapes=(_axes(module),))


def from_trace(module: DynamicModule, folder: Path) -> Path:
    """The file that torch.onnx writes of a trace (TorchScript)."""
    axes = {axis: dim for axis, dim in enumerate(module.shape) if isinstance(dim, str)}
    return _onnx(module, folder, dynamo=False, input_names=["x"], dynamic_axes={"x": axes})


def _onnx(module: DynamicModule, folder: Path, **options: Any) -> Path:
    path = folder / "m.onnx"
    with _quiet():
        torch.onnx.export(made(module), (example(module, module.traced),), str(path), **options)
    return path


DOORS: dict[str, Callable[[DynamicModule, Path], Any]] = {
    "pnnx": from_pnnx,
    "torch.export": from_export,
    "onnx": from_onnx,
    "onnx of a trace": from_trace,
}
"""Exporters of a module for each format."""


LOST = {
    (
        "pnnx",
        "all but the last",
    ): "pnnx writes x - x: slices of a dynamic axis whose ends differ are dropped",
    ("pnnx", "top-k of at most 5"): "k is the number of the trace",
    ("pnnx", "assigned rows"): "pnnx fills all rows",
    ("onnx of a trace", "wrapped and cropped"): "slices of the trace; ONNX Runtime gives the same",
    ("onnx of a trace", "top-k of at most 5"): "k is the number of the trace",
    (
        "onnx",
        "adaptive pooling",
    ): "the windows are those of the trace; ONNX Runtime gives the same or fails",
    (
        "onnx",
        "areas by 0.3",
    ): "windows as above; ONNX Runtime finds indices outside at two of three sizes",
    ("onnx", "antialiased"): "the scale of the coordinates; ONNX Runtime gives the same",
}
"""Information that an exporter loses, so that no reader can be right, by door and module."""


def _axes(module: DynamicModule) -> dict[int, Any]:
    return {
        axis: torch.export.Dim.DYNAMIC
        for axis, dim in enumerate(module.shape)
        if isinstance(dim, str)
    }


@contextlib.contextmanager
def _quiet() -> Any:
    """Without the words of exporters, of which pnnx writes some from C++."""
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        null, kept = os.open(os.devnull, os.O_WRONLY), [os.dup(1), os.dup(2)]
        try:
            os.dup2(null, 1)
            os.dup2(null, 2)
            yield
        finally:
            for number, old in enumerate(kept, 1):
                os.dup2(old, number)
                os.close(old)
            os.close(null)


def outcome(module: DynamicModule, exported: Any, sizes: Sequence[Sizes] = ()) -> str:
    """`right`, `refused: ...` or `wrong: ...` for an export compiled and called at sizes other than the traced ones."""
    try:
        model = graphc.compile(exported, cache=False)
    except (graphc.UnsupportedError, graphc.UserError) as error:
        return f"refused: {error}"
    except Exception as error:  # noqa: BLE001 (counted as wrong)
        return f"wrong: {type(error).__name__}: {error}"
    reference = made(module)
    for number, one in enumerate(sizes or module.others):
        x = example(module, one, number + 1)
        with torch.no_grad():
            wanted = reference(x).numpy()
        try:
            found = model.run(None, {model.inputs[0].name: x.numpy()})[0]
        except (graphc.UnsupportedError, graphc.UserError) as error:
            return f"refused at {one}: {error}"
        if found.shape != wanted.shape:
            return f"wrong: shape {found.shape} for {wanted.shape} at {one}"
        if not np.allclose(found, wanted, 1e-4, 1e-5):
            return f"wrong: by {np.abs(found - wanted).max():.2g} at {one}"
    return "right"
