"""Convolutions, pools, resampling and borders against PyTorch itself; skipped where it is not installed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphc.graph_ir.ir.graph import Array
from support.pnnx_models import run_operator
from support.tolerance import assert_close

torch = pytest.importorskip("torch")
F = torch.nn.functional


def floats(*shape: int, seed: int = 0) -> Array:
    return (np.random.default_rng(seed).random(shape) * 4 - 2).astype(np.float32)


def check(
    folder: Path,
    line: str,
    inputs: list[Array],
    result: Any,
    weights: dict[str, Array] | None = None,
) -> None:
    """Every output of a model of one operator is what PyTorch gives."""
    expected = result if isinstance(result, (tuple, list)) else [result]
    found = run_operator(folder, line, inputs, weights, len(expected))
    for mine, theirs in zip(found, expected, strict=True):
        assert mine.dtype == theirs.numpy().dtype
        assert_close(mine, theirs.numpy(), 8)


def tensors(*arrays: Array) -> list[Any]:
    return [torch.from_numpy(a) for a in arrays]


LINE, PLANE, ROOM = floats(2, 4, 13), floats(2, 4, 9, 11), floats(1, 4, 5, 6, 7)
IMAGES = {1: LINE, 2: PLANE, 3: ROOM}
CONVOLUTIONS = [
    (1, "stride=(2) padding=(1) dilation=(2) groups=2 padding_mode=zeros", 2),
    (2, "stride=(1,1) padding=same dilation=(1,2) groups=1", 1),
    (2, "stride=(2,1) padding=valid groups=4 padding_mode=zeros", 4),
    (2, "stride=(1,2) padding=(2,1) padding_mode=reflect", 1),
    (2, "stride=(1,1) padding=(2,1) padding_mode=circular", 1),
    (2, "stride=2 padding=1 padding_mode=replicate", 1),
    (3, "stride=(1,2,1) padding=(1,0,1) dilation=(1,1,2)", 1),
]


@pytest.mark.parametrize(("spatial", "words", "groups"), CONVOLUTIONS)
@pytest.mark.filterwarnings("ignore:Using padding=.same.")
@pytest.mark.parametrize("bias", [True, False])
def test_convolution(spatial: int, words: str, groups: int, bias: bool, tmp_path: Path) -> None:
    x, kernel = IMAGES[spatial], (3, 2, 3)[-spatial:]
    weights = {"weight": floats(8, 4 // groups, *kernel, seed=1)}
    if bias:
        weights["bias"] = floats(8, seed=2)
    module = getattr(torch.nn, f"Conv{spatial}d")(
        4, 8, kernel, bias=bias, **{k: v for k, v in pairs(words) if k != "groups"}, groups=groups
    )
    module.load_state_dict({k: torch.from_numpy(v) for k, v in weights.items()})
    shape = ",".join(map(str, kernel))
    line = (
        f"nn.Conv{spatial}d bias={bias} in_channels=4 out_channels=8 kernel_size=({shape}) {words}"
    )
    with torch.no_grad():
        check(tmp_path, line, [x], module(torch.from_numpy(x)), weights)
        check(tmp_path, line, [x[0]], module(torch.from_numpy(x[0])), weights)
        if "padding_mode" not in words:
            inputs = [x, *weights.values()]
            line = f"F.conv{spatial}d {words}" + ("" if bias else " bias=None")
            check(tmp_path, line, inputs, module(torch.from_numpy(x)))


def test_a_border_written_for_both_sides(tmp_path: Path) -> None:
    """The tool writes what a module with padding=same and a mode pads: the last axis first."""
    module = torch.nn.Conv2d(4, 8, (3, 2), padding="same", dilation=(2, 1), padding_mode="reflect")
    weights = {name: x.detach().numpy() for name, x in module.named_parameters()}
    with torch.no_grad():
        words = "bias=True dilation=(2,1) padding=(0,1,2,2) padding_mode=reflect"
        check(tmp_path, f"nn.Conv2d {words}", [PLANE], module(torch.from_numpy(PLANE)), weights)


def pairs(words: str) -> list[tuple[str, Any]]:
    """`key=value` words as PyTorch's keyword arguments."""
    texts = [word.split("=") for word in words.split()]
    known = {"True": True, "False": False, "None": None}
    return [
        (k, known[v] if v in known else v if v.isalpha() or "-" in v[1:] else literal(v))
        for k, v in texts
    ]


def literal(text: str) -> Any:
    numbers = [float(n) if "." in n else int(n) for n in text.strip("()").split(",")]
    return tuple(numbers) if text.startswith("(") else numbers[0]


@pytest.mark.parametrize(
    ("spatial", "words", "groups"),
    [
        (1, "stride=(2) padding=(1) output_padding=(1) dilation=(2) groups=2", 2),
        (2, "stride=(2,3) padding=(1,0) output_padding=(1,2) dilation=(1,1) groups=1", 1),
        (2, "stride=(1,1) padding=(2,1) dilation=(1,2) groups=4", 4),
        (3, "stride=(1,2,1) padding=(0,1,0) output_padding=(0,1,0) groups=1", 1),
    ],
)
def test_transposed_convolution(spatial: int, words: str, groups: int, tmp_path: Path) -> None:
    x, kernel = IMAGES[spatial], (3, 3, 3)[-spatial:]
    weights = {"weight": floats(4, 8 // groups, *kernel, seed=1), "bias": floats(8, seed=2)}
    shape = ",".join(map(str, kernel))
    line = f"nn.ConvTranspose{spatial}d bias=True in_channels=4 out_channels=8 kernel_size=({shape}) {words}"
    function = getattr(F, f"conv_transpose{spatial}d")
    expected = function(*tensors(x, *weights.values()), **dict(pairs(words)))
    check(tmp_path, line, [x], expected, weights)
    line = f"F.conv_transpose{spatial}d $input=a $weight=b $bias=c {words}"
    check(tmp_path, line, [x, *weights.values()], expected)


POOLS = [
    "max_pool1d kernel_size=(3) stride=(2) padding=(1) dilation=(2) ceil_mode=False return_indices=False",
    "max_pool2d kernel_size=(3,2) stride=None padding=(1,1) dilation=(1,1) ceil_mode=True",
    "max_pool2d kernel_size=(3,2) stride=(2,2) padding=(1,0) ceil_mode=True return_indices=True",
    "max_pool3d kernel_size=2 stride=(1,2,2) padding=(1,0,1)",
    "avg_pool1d kernel_size=(3) stride=(2) padding=(1) ceil_mode=True count_include_pad=False",
    "avg_pool2d kernel_size=(3,3) stride=(2,2) padding=(1,1) ceil_mode=True count_include_pad=True "
    "divisor_override=None",
    "avg_pool2d kernel_size=(3,3) stride=None padding=(1,1) divisor_override=7",
    "avg_pool3d kernel_size=(2,3,2) stride=(1,2,3) padding=(1,1,1) count_include_pad=False",
    "lp_pool1d norm_type=3 kernel_size=3 stride=2 ceil_mode=False",
    "lp_pool2d norm_type=2 kernel_size=(3,2) stride=(2,2) ceil_mode=False",
    "lp_pool2d norm_type=2 kernel_size=(3,2) stride=(2,3) ceil_mode=True",
    "adaptive_avg_pool1d output_size=(1)",
    "adaptive_avg_pool1d output_size=(5)",
    "adaptive_avg_pool2d output_size=(1,1)",
    "adaptive_avg_pool2d output_size=(3,11)",
    "adaptive_avg_pool2d output_size=(4,7)",
    "adaptive_avg_pool3d output_size=(2,3,9)",
    "adaptive_max_pool1d output_size=(4) return_indices=False",
    "adaptive_max_pool2d output_size=(3,1) return_indices=True",
    "adaptive_max_pool2d output_size=(4,15)",
    "adaptive_max_pool2d output_size=(4,2) return_indices=True",
    "adaptive_max_pool3d output_size=(2,3,2) return_indices=True",
    "local_response_norm size=3 alpha=0.5 beta=0.75 k=2.0",
    "local_response_norm size=2 alpha=0.5 beta=0.5 k=1.0",
    "unfold kernel_size=(3,2) dilation=(1,2) padding=(1,1) stride=(2,1)",
]


@pytest.mark.parametrize("words", POOLS)
def test_pool(words: str, tmp_path: Path) -> None:
    name, _, params = words.partition(" ")
    x = IMAGES[int(name[-2])] if name[-1] == "d" and name[-2].isdigit() else PLANE
    function, keywords = getattr(F, name), dict(pairs(params))
    result = function(torch.from_numpy(x), **keywords)
    check(tmp_path, f"F.{words}", [x], result)
    module = "".join(part.capitalize() for part in name.split("_"))
    module = {"Lp": "LP"}.get(module[:2], module[:2]) + module[2:]
    module = {"LocalResponseNorm": module}.get(module, module).replace("1d", "1d")
    check(tmp_path, f"nn.{module} {params}", [x], result)
    if name != "local_response_norm":
        check(tmp_path, f"F.{words}", [x[0]], function(torch.from_numpy(x[0]), **keywords))


def test_an_adaptive_size_that_stays_the_same(tmp_path: Path) -> None:
    expected = F.adaptive_avg_pool2d(torch.from_numpy(PLANE), (None, 4))
    for size in ("(None,4)", "(0,4)"):
        check(tmp_path, f"nn.AdaptiveAvgPool2d output_size={size}", [PLANE], expected)


def test_a_stride_that_is_an_empty_list_is_the_kernel(tmp_path: Path) -> None:
    expected = F.avg_pool2d(torch.from_numpy(PLANE), (3, 2))
    check(tmp_path, "F.avg_pool2d kernel_size=(3,2) stride=()", [PLANE], expected)


def test_fold(tmp_path: Path) -> None:
    params = "kernel_size=(3,2) dilation=(1,2) padding=(1,1) stride=(2,1)"
    columns = F.unfold(torch.from_numpy(PLANE), **dict(pairs(params)))
    expected = F.fold(columns, output_size=(9, 11), **dict(pairs(params)))
    check(tmp_path, f"F.fold output_size=(9,11) {params}", [columns.numpy()], expected)
    first = F.fold(columns[0], output_size=(9, 11), **dict(pairs(params)))
    check(tmp_path, f"nn.Fold output_size=(9,11) {params}", [columns[0].numpy()], first)


BORDERS = [
    ("nn.ZeroPad2d padding=(1,2,0,3)", "constant", (1, 2, 0, 3)),
    ("nn.ReflectionPad2d padding=(3,2,1,0)", "reflect", (3, 2, 1, 0)),
    ("nn.ReplicationPad2d padding=(3,2,1,0)", "replicate", (3, 2, 1, 0)),
    ("nn.CircularPad2d padding=(3,2,1,0)", "circular", (3, 2, 1, 0)),
    ("F.pad pad=(-1,2,0,-3) mode=constant value=None", "constant", (-1, 2, 0, -3)),
]


@pytest.mark.parametrize(("line", "mode", "pad"), BORDERS)
def test_borders(line: str, mode: str, pad: tuple[int, ...], tmp_path: Path) -> None:
    check(tmp_path, line, [PLANE], F.pad(torch.from_numpy(PLANE), pad, mode=mode))


RESIZES = [
    "nearest scale_factor=(2.0,3.0)", "nearest size=(5,23)", "nearest scale_factor=(0.5,1.7)",
    "nearest-exact size=(5,23)", "nearest-exact scale_factor=(1.5,0.7)",
    "bilinear size=(17,6) align_corners=False", "bilinear size=(17,6) align_corners=True",
    "bilinear scale_factor=(1.7,2.0) align_corners=False",
    "bilinear scale_factor=(1.7,2.3) align_corners=True",
    "bilinear scale_factor=(1.7,0.6) align_corners=False recompute_scale_factor=True",
    "bilinear size=(4,5) align_corners=False antialias=True",
    "bicubic size=(17,6) align_corners=False", "bicubic scale_factor=(0.6,2.0) align_corners=True",
    "bicubic size=(4,5) align_corners=False antialias=True",
    "area size=(3,4)", "area scale_factor=(2.0,0.5)", "nearest size=7", "bilinear scale_factor=2.0",
]  # fmt: skip


@pytest.mark.parametrize("words", RESIZES)
def test_resize(words: str, tmp_path: Path) -> None:
    mode, _, params = words.partition(" ")
    expected = F.interpolate(torch.from_numpy(PLANE), mode=mode, **dict(pairs(params)))
    check(tmp_path, f"F.interpolate mode={mode} {params}", [PLANE], expected)
    check(tmp_path, f"nn.Upsample mode={mode} {params}", [PLANE], expected)


def test_other_names_and_ranks_of_resize(tmp_path: Path) -> None:
    image = torch.from_numpy(PLANE)
    near = F.interpolate(image, size=(24, 40))
    check(tmp_path, "F.upsample_nearest size=(24,40)", [PLANE], near)
    check(tmp_path, "nn.UpsamplingNearest2d size=(24,40)", [PLANE], near)
    wide = F.interpolate(image, scale_factor=2, mode="bilinear", align_corners=True)
    check(tmp_path, "nn.UpsamplingBilinear2d scale_factor=2.0 size=None", [PLANE], wide)
    line = F.interpolate(torch.from_numpy(LINE), size=7, mode="linear")
    check(tmp_path, "F.upsample mode=linear size=(7) align_corners=False", [LINE], line)
    room = F.interpolate(torch.from_numpy(ROOM), scale_factor=(2, 1, 0.5), mode="trilinear")
    check(tmp_path, "F.interpolate mode=trilinear scale_factor=(2.0,1.0,0.5)", [ROOM], room)


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("aligned", [True, False])
def test_grid_sample(mode: str, padding: str, aligned: bool, tmp_path: Path) -> None:
    grid = floats(2, 5, 6, 2, seed=3)
    params = f"mode={mode} padding_mode={padding} align_corners={aligned}"
    expected = F.grid_sample(*tensors(PLANE, grid), mode, padding, aligned)
    check(tmp_path, f"F.grid_sample {params}", [PLANE, grid], expected)
    if padding == "zeros" and mode != "bicubic":
        points = floats(1, 2, 3, 4, 3, seed=4)
        expected = F.grid_sample(*tensors(ROOM, points), mode, padding, aligned)
        check(tmp_path, f"F.grid_sample {params}", [ROOM, points], expected)


@pytest.mark.parametrize("aligned", [True, False])
def test_affine_grid(aligned: bool, tmp_path: Path) -> None:
    for size in ((2, 4, 5, 7), (1, 1, 2, 3, 4)):
        theta = floats(size[0], len(size) - 2, len(size) - 1)
        line = f"F.affine_grid size=({','.join(map(str, size))}) align_corners={aligned}"
        expected = F.affine_grid(torch.from_numpy(theta), size, aligned)
        check(tmp_path, f"{line} $theta=a", [theta], expected)
