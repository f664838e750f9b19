"""Operators that the tool leaves as ATen calls them, and results of other shapes than the file says.

Compared with PyTorch itself; skipped where it is not installed.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphc import UnsupportedError, compile
from graphc.frontend import load
from graphc.graph_ir.ir.graph import Array
from support.pnnx_models import annotation, load_operator, run_operator, write_model
from support.tolerance import assert_close

torch = pytest.importorskip("torch")
F = torch.nn.functional

X = (np.random.default_rng(0).random((2, 6, 4)) * 4 - 2).astype(np.float32)
Y = X[::-1].copy()
ODD = np.array([np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 2.5, -1e30], np.float32)
OTHER = ODD[[6, 7, 0, 2, 5, 4, 1, 3]]
BAGS = [X[0], np.array([0, 5, 5, 1, 2]), np.array([0, 2, 2])]
NAN = np.where(X > 1, np.nan, X)
TAILS = np.append(X * 3, [0, 9, -9, np.inf, -np.inf, np.nan]).astype(np.float32)

FUNCTIONS: dict[str, tuple[list[Array], Callable[..., Any]]] = {
    "aten::fmax": ([ODD, OTHER], torch.fmax),
    "aten::nextafter": ([ODD, OTHER], torch.nextafter),
    "aten::gcd": ([np.array([[0], [12], [-18]]), np.array([0, -4, 9])], torch.gcd),
    "aten::lcm": ([np.array([[0], [12], [-18]], np.int32), np.array([5, -4, 9])], torch.lcm),
    "aten::inner": ([X, Y[0]], torch.inner),
    "aten::pdist p=1.0": ([X[0]], lambda x: F.pdist(x, 1.0)),
    "F.pdist": ([X[0]], F.pdist),
    "aten::cdist p=3.0 compute_mode=None": ([X, Y[:1]], lambda x, y: torch.cdist(x, y, 3.0)),
    "aten::cdist p=inf": ([X, Y], lambda x, y: torch.cdist(x, y, np.inf)),
    "torch.fmin": ([ODD, OTHER], torch.fmin),
    "aten::copysign": ([ODD, OTHER], torch.copysign),
    "aten::signbit": ([ODD], torch.signbit),
    "aten::sgn": ([ODD], torch.sgn),
    "aten::erfc": ([TAILS], torch.erfc),
    "aten::log2": ([abs(X)], torch.log2),
    "aten::digamma": ([np.append(X * 9 + 0.01, [0, 30, 1e6])], torch.digamma),
    "aten::erfinv": ([np.append(X / 2.001, [1, -1, 0, 3, 1e-30])], torch.erfinv),
    "aten::special_entr": ([X.round()], torch.special.entr),
    "aten::special_ndtr": ([TAILS], torch.special.ndtr),
    "aten::special_xlog1py": ([X.round(), abs(Y)], torch.special.xlog1py),
    "aten::ldexp": ([X, np.arange(-2, 2)], torch.ldexp),
    "aten::count_nonzero dim=(1)": ([X.round()], lambda x: torch.count_nonzero(x, 1)),
    "aten::count_nonzero dim=None": ([NAN.round()], torch.count_nonzero),
    "aten::nansum dim=(0,2) keepdim=True dtype=None": ([NAN], lambda x: x.nansum((0, 2), True)),
    "aten::nanmean dim=None keepdim=False dtype=None": ([NAN], torch.nanmean),
    "aten::histc bins=7 min=-1 max=1": ([X], lambda x: torch.histc(x, 7, -1, 1)),
    "aten::channel_shuffle groups=3": ([X], lambda x: F.channel_shuffle(x, 3)),
    "aten::prod dtype=None": ([np.arange(1, 6)], torch.prod),
    "aten::i0": ([np.append(X * 8, [0, 14.99, 15.01, 40, 80, 100])], torch.i0),
    "aten::all dim=(1) keepdim=True": ([X > -1], lambda x: x.all(1, True)),
    "aten::any": ([X > 3], torch.any),
    "aten::linalg_cross dim=1": (
        [X[:, :3], Y[:, :3]],
        lambda x, y: torch.linalg.cross(x, y, dim=1),
    ),
    "aten::dot": ([X[0, 0], Y[0, 1]], torch.dot),
    "aten::view_as": ([X, Y.reshape(8, 6)], lambda x, y: x.view_as(y)),
    "aten::add alpha=2": ([X, Y], lambda x, y: torch.add(x, y, alpha=2)),
}


@pytest.mark.parametrize("line", FUNCTIONS)
def test_function(line: str, tmp_path: Path) -> None:
    inputs, function = FUNCTIONS[line]
    inputs = [np.ascontiguousarray(x, np.float32 if x.dtype == float else x.dtype) for x in inputs]
    wanted = function(*map(torch.from_numpy, inputs)).numpy()
    (found,) = run_operator(tmp_path, line, inputs)
    assert found.dtype == wanted.dtype
    assert_close(found, wanted, 8)


@pytest.mark.parametrize("line", ["aten::erfc", "aten::special_ndtr"])
def test_tails_keep_their_digits(line: str, tmp_path: Path) -> None:
    x = torch.from_numpy(TAILS).double()  # PyTorch's own ndtr cancels in f32, and in f64 at -9
    wanted = torch.erfc(x) if line == "aten::erfc" else torch.erfc(-x * 0.5**0.5) / 2
    (found,) = run_operator(tmp_path, line, [TAILS])
    np.testing.assert_allclose(found, wanted.numpy(), rtol=1e-5)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_of_rows(mode: str, tmp_path: Path) -> None:
    number = ["sum", "mean", "max"].index(mode)
    wanted = F.embedding_bag(*(torch.from_numpy(x) for x in (BAGS[1], BAGS[0], BAGS[2])), mode=mode)
    lines = [
        *(f"pnnx.Input {n} 0 1 {n} #{n}={annotation(x)}" for n, x in zip("xij", BAGS, strict=True)),
        "pnnx.Expression n 0 1 n expr=None",
        "pnnx.Expression f 0 1 f expr=False",
        f"pnnx.Expression m 0 1 m expr={number}",
        "aten::embedding_bag b 9 4 x i j f m f n f n y u v w",
        "pnnx.Output o 1 0 y",
    ]
    (found,) = load(write_model(tmp_path, lines)).evaluate(BAGS)
    assert_close(found, wanted.numpy(), 8)


def test_a_border_of_an_even_kernel_that_the_tool_leaves_out(tmp_path: Path) -> None:
    """`padding=same` along one axis is a border of 0 and 1 elements, which is written `()`."""
    module = torch.nn.Conv1d(6, 3, 4, padding="same", padding_mode="circular", bias=False)
    line = "nn.Conv1d bias=False padding=() padding_mode=circular"
    weight = module.weight.detach().numpy()
    (found,) = run_operator(tmp_path, line, [X], {"weight": weight})
    assert_close(found, module(torch.from_numpy(X)).detach().numpy(), 32)


def test_a_result_of_another_shape_than_the_file_says(tmp_path: Path) -> None:
    line = "F.avg_pool1d kernel_size=2 #y0=(2,6,3)f32"
    with pytest.raises(UnsupportedError, match=r"a result of \(2,6,3\)f32, as the file says, read"):
        load_operator(tmp_path, line, [X])


def test_an_attention_whose_query_is_called_input(tmp_path: Path) -> None:
    """The tool writes it for Swin transformers."""
    module = torch.nn.MultiheadAttention(4, 2, batch_first=True)
    weights = {name: x.detach().numpy() for name, x in module.state_dict().items()}
    line = "nn.MultiheadAttention num_heads=2 batch_first=True $input=a"
    (found,) = run_operator(tmp_path, line, [X], weights)
    x = torch.from_numpy(X)
    assert_close(found, module(x, x, x)[0].detach().numpy(), 32)


@pytest.mark.parametrize(
    ("name", "arguments", "function"),
    [
        (
            "sort",
            ("True", "1", "True"),
            lambda x: torch.sort(x, stable=True, dim=1, descending=True),
        ),
        ("sort", ("1", "False"), lambda x: torch.sort(x, 1)),
        ("argsort", ("True", "0", "False"), lambda x: [torch.argsort(x, stable=True, dim=0)]),
        ("std_mean", ("False",), lambda x: torch.std_mean(x, unbiased=False)),
        ("var_mean", ("True",), torch.var_mean),
        ("frexp", (), torch.frexp),
    ],
)
def test_overloads_have_their_own_order(
    name: str, arguments: tuple[str, ...], function: Callable[..., Any], tmp_path: Path
) -> None:
    x = X.round() if "sort" in name else X
    wanted = function(torch.from_numpy(x))
    given, results = (
        " ".join(f"{c}{i}" for i in range(len(n))) for c, n in (("a", arguments), ("y", wanted))
    )
    lines = [
        f"pnnx.Input in 0 1 x #x={annotation(x)}",
        *(f"pnnx.Expression e{i} 0 1 a{i} expr={text}" for i, text in enumerate(arguments)),
        f"aten::{name} p {1 + len(arguments)} {len(wanted)} x {given} {results}",
        *(f"pnnx.Output out{i} 1 0 y{i}" for i in range(len(wanted))),
    ]
    for found, want in zip(load(write_model(tmp_path, lines)).evaluate([x]), wanted, strict=True):
        assert_close(found, want.numpy(), 4)


@pytest.mark.parametrize("name", ["vsplit", "hsplit", "dsplit"])
@pytest.mark.parametrize("sections", ["2", "[1,-1]"])
def test_splits_along_the_first_axes(name: str, sections: str, tmp_path: Path) -> None:
    count, given = (2, 2) if sections == "2" else (3, (1, -1))
    lines = [
        f"pnnx.Input in 0 1 x #x={annotation(X)}",
        f"pnnx.Expression e 0 1 n expr={sections}",
        f"aten::{name} p 2 1 x n all",
        f"prim::ListUnpack u 1 {count} all {' '.join(f'y{i}' for i in range(count))}",
        *(f"pnnx.Output out{i} 1 0 y{i}" for i in range(count)),
    ]
    wanted = getattr(torch, name)(torch.from_numpy(X), given)
    for found, want in zip(load(write_model(tmp_path, lines)).evaluate([X]), wanted, strict=True):
        np.testing.assert_array_equal(found, want.numpy())


def test_the_number_of_elements_of_a_dynamic_size(tmp_path: Path) -> None:
    lines = [
        "pnnx.Input in 0 1 x #x=(?,3)f32",
        "aten::numel n 1 1 x count",
        "pnnx.Expression e 2 1 x count y expr=mul(@0,@1)",
        "pnnx.Output out 1 0 y",
    ]
    with compile(load(write_model(tmp_path, lines)), threads=1) as compiled:
        for rows in (1, 5):
            x = np.arange(3 * rows, dtype=np.float32).reshape(rows, 3)
            np.testing.assert_array_equal(compiled(x), x * x.size)
