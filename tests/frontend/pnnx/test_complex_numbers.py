"""Complex numbers and Fourier transforms of PNNX, which are pairs of real tensors here, against NumPy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphc.base.errors import UnsupportedError, UserError
from graphc.frontend import load
from graphc.graph_ir.ir.graph import Array
from support.pnnx_models import write_model

RNG = np.random.default_rng(3)
X = RNG.standard_normal((3, 12)).astype(np.float32)
Y = RNG.standard_normal((3, 12)).astype(np.float32)
Z = (X + 1j * Y).astype(np.complex64)
W = (Y - 2j * X).astype(np.complex64)
SIGNAL = RNG.standard_normal((2, 100)).astype(np.float32)
HANN = np.hanning(17)[:16].astype(np.float32)


def parts(array: Array) -> list[Array]:
    return [array.real.copy(), array.imag.copy()] if np.iscomplexobj(array) else [array]


def run(folder: Path, line: str, inputs: Sequence[Array]) -> list[Array]:
    """One operator: `type words`, on real and complex inputs a, b, c, ...."""
    type_name, *words = line.split()
    suffix = {"f": "f32", "c": "c64", "i": "i64"}
    names = "abcdefgh"[: len(inputs)]
    heads = [
        f"pnnx.Input {n} 0 1 {n} #{n}=({','.join(map(str, x.shape))}){suffix[x.dtype.kind]}"
        for n, x in zip(names, inputs, strict=True)
    ]
    body = " ".join([type_name, "op", str(len(inputs)), "1", *names, "y", *words])
    path = write_model(folder, [*heads, body, "pnnx.Output out 1 0 y"])
    with np.errstate(all="ignore"):
        return load(path).evaluate([part for x in inputs for part in parts(x)])


def check(folder: Path, line: str, inputs: Sequence[Array], expected: Array) -> None:
    found, wanted = run(folder, line, inputs), parts(np.asarray(expected))
    assert [a.shape for a in found] == [a.shape for a in wanted]
    for mine, theirs in zip(found, wanted, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=2e-4, atol=2e-5)


def expression(text: str) -> str:
    return f"pnnx.Expression expr={text}"


FORMULAS: list[tuple[str, list[Array], Any]] = [
    (expression("mul(@0,@1)"), [Z, W], Z * W),
    (expression("sub(add(@0,mul(@1,2)),div(@0,@1))"), [Z, W], Z + 2 * W - Z / W),
    (expression("mul(@0,0.000000e+00+1.500000e+00j)"), [X], 1.5j * X),
    (expression("mul(@0,@1)"), [X, Z], X * Z),
    (expression("exp(neg(@0))"), [Z], np.exp(-Z)),
    (expression("sqrt(square(reciprocal(@0)))"), [Z], np.sqrt(1 / Z**2)),
    (expression("sin(@0)"), [Z], np.sin(Z)),
    (expression("abs(@0)"), [Z], np.abs(Z)),
    ("aten::angle", [Z], np.angle(Z)),
    ("aten::_conj", [Z], Z.conj()),
    ("torch.real", [Z], X),
    ("torch.real", [X], X),
    ("torch.imag $input=a", [Z], Y),
    ("torch.eq", [Z, np.where(X > 0, Z, W)], X > 0),
    ("torch.view_as_real", [Z], np.stack([X, Y], -1)),
    ("torch.view_as_complex", [np.stack([X, Y], -1)], Z),
    ("torch.complex $real=a $imag=b", [X, Y], Z),
    ("aten::polar", [np.abs(X), Y], np.abs(X) * np.exp(1j * Y)),
    ("torch.permute dims=(1,0)", [Z], Z.T),
    ("torch.cat dim=1", [Z, W], np.concatenate([Z, W], 1)),
    ("torch.sum dim=(1) keepdim=True", [Z], Z.sum(1, keepdims=True)),
    ("torch.matmul", [Z, W.T.copy()], Z @ W.T),
    ("torch.matmul", [X, W.T.copy()], X @ W.T),
]


@pytest.mark.parametrize(("line", "inputs", "expected"), FORMULAS, ids=[c[0] for c in FORMULAS])
def test_complex_numbers(line: str, inputs: list[Array], expected: Any, tmp_path: Path) -> None:
    check(tmp_path, line, inputs, expected)


TRANSFORMS: list[tuple[str, Array, Callable[..., Any], dict[str, Any]]] = [
    ("fft dim=-1 n=None norm=None", X, np.fft.fft, {}),
    ("fft dim=0 n=5 norm=ortho", Z, np.fft.fft, {"axis": 0, "n": 5, "norm": "ortho"}),
    ("ifft dim=1 n=8 norm=forward", Z, np.fft.ifft, {"n": 8, "norm": "forward"}),
    ("rfft dim=1 norm=ortho", X, np.fft.rfft, {"norm": "ortho"}),
    ("irfft dim=1 n=None", Z, np.fft.irfft, {}),
    ("irfft dim=1 n=9 norm=ortho", Z, np.fft.irfft, {"n": 9, "norm": "ortho"}),
    ("hfft dim=1 norm=ortho", Z, np.fft.hfft, {"norm": "ortho"}),
    ("ihfft dim=1 norm=ortho", X, np.fft.ihfft, {"norm": "ortho"}),
    ("hfft2", Z, lambda z: np.fft.irfftn(z.conj(), axes=(-2, -1), norm="forward"), {}),
    ("ihfftn norm=forward", X, lambda x: np.fft.rfftn(x).conj(), {}),
    ("fft2 dim=(-2,-1)", X, np.fft.fft2, {}),
    ("ifft2 dim=(-2,-1) norm=ortho", Z, np.fft.ifft2, {"norm": "ortho"}),
    ("rfftn dim=None s=None", X, np.fft.rfftn, {}),
    ("irfftn dim=(0,1) s=(3,10)", Z, np.fft.irfftn, {"axes": (0, 1), "s": (3, 10)}),
    ("fftshift dim=(1)", Z, np.fft.fftshift, {"axes": 1}),
    ("ifftshift", X, np.fft.ifftshift, {}),
]


@pytest.mark.parametrize(
    ("line", "x", "function", "options"), TRANSFORMS, ids=[c[0] for c in TRANSFORMS]
)
def test_transforms(
    line: str, x: Array, function: Callable[..., Any], options: dict[str, Any], tmp_path: Path
) -> None:
    check(tmp_path, f"torch.fft.{line}", [x], function(x, **options))


def frames(x: Array, hop: int, centered: bool) -> Array:
    padded = np.pad(x, ((0, 0), (8, 8)), "reflect") if centered else x
    starts = range(0, padded.shape[1] - 15, hop)
    whole = np.stack([padded[:, i : i + 16] * HANN for i in starts], 1)
    found: Array = np.fft.rfft(whole).transpose(0, 2, 1)
    return found


@pytest.mark.parametrize(("hop", "centered"), [(4, True), (5, False)])
def test_frames_there_and_back(hop: int, centered: bool, tmp_path: Path) -> None:
    words = f"center={centered} hop_length={hop} n_fft=16 normalized=False onesided=None"
    spectrum = frames(SIGNAL, hop, centered)
    line = f"torch.stft {words} pad_mode=reflect return_complex=True"
    check(tmp_path, line, [SIGNAL, HANN], spectrum)
    check(
        tmp_path, line.replace("normalized=False", "normalized=True"), [SIGNAL, HANN], spectrum / 4
    )
    if centered:
        back = f"torch.istft {words} length=90 return_complex=False win_length=None"
        check(tmp_path, back, [spectrum, HANN], SIGNAL[:, :90])


def test_a_constant_of_complex_numbers(tmp_path: Path) -> None:
    lines = [
        "pnnx.Input in 0 1 x #x=(3,12)c64",
        "pnnx.Attribute freqs 0 1 w @data=(3,12)c64",
        "pnnx.Expression op 2 1 x w y expr=mul(@0,@1)",
        "pnnx.Output out 1 0 y",
    ]
    graph = load(write_model(tmp_path, lines, {"freqs.data": W}))
    assert [op.name for op in graph.inputs] == ["in.real", "in.imag"]
    assert [op.name for op in graph.outputs] == ["out.real", "out.imag"]
    real, imag = graph.evaluate([X, Y])
    np.testing.assert_allclose(real + 1j * imag, Z * W, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("line", "x", "error", "message"),
    [
        ("torch.imag", X, UserError, "the input must be complex, got a real tensor"),
        ("F.relu", Z, UnsupportedError, "an operand of complex numbers is not supported"),
        ("torch.fft.fft norm=other", X, UserError, "norm must be backward, ortho or forward, got 'other'"),
        ("torch.view_as_complex", X, UserError, "the last axis must hold a real and an imaginary part"),
        (expression("floor(@0)"), Z, UnsupportedError, "floor of complex numbers is not supported"),
        (expression("angle(@0)"), X, UnsupportedError, "angle of real numbers in an expression"),
        ("torch.istft n_fft=16", X, UnsupportedError, "an input of real ones"),
    ],
)  # fmt: skip
def test_what_is_refused(
    line: str, x: Array, error: type[Exception], message: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=message):
        run(tmp_path, line, [x])
