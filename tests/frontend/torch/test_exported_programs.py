"""Exported programs against PyTorch itself: whole modules, files, dynamic sizes, mutations, refusals."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphc
from graphc.base.errors import UnsupportedError, UserError
from graphc.frontend import format_of, load

torch: Any = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore")  # of torch, about itself
nn: Any = torch.nn
F: Any = torch.nn.functional
Module: Any = nn.Module


def exported(module: Any, *args: Any, **options: Any) -> Any:
    torch.manual_seed(0)
    return torch.export.export(module.eval(), args, **options)


def check(program: Any, module: Any, *args: Any) -> None:
    """The graph gives what the module gives, in the same dtypes and shapes."""
    graph = load(program)
    with torch.no_grad():
        wanted = torch.utils._pytree.tree_leaves(module(*args))
    arrays = [arg.numpy() for arg in args]
    for mine, theirs in zip(graph.evaluate(arrays), wanted, strict=True):
        assert (mine.dtype, mine.shape) == (theirs.numpy().dtype, tuple(theirs.shape))
        np.testing.assert_allclose(mine, theirs.numpy(), rtol=2e-4, atol=2e-5)


class Block(Module):
    """A transformer block with what exporters make of one: views, splits, a mask, attention, norms."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.qkv = nn.LayerNorm(16), nn.Linear(16, 48)
        self.out = nn.Linear(16, 16, bias=False)
        self.register_buffer("bias", torch.linspace(-1, 1, 6))

    def forward(self, x: Any) -> Any:
        q, k, v = (t.view(2, 6, 4, 4).transpose(1, 2) for t in self.qkv(self.norm(x)).chunk(3, -1))
        mask = torch.tril(torch.ones(6, 6, dtype=torch.bool), -1) & (self.bias > -2)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        y = self.out(y.transpose(1, 2).reshape(2, 6, 16))
        return x + F.gelu(y, approximate="tanh")


class Convolutions(Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8)
        self.second = nn.Conv2d(8, 8, 3, padding="same", groups=4)
        self.up, self.last = nn.ConvTranspose2d(8, 4, 2, 2), nn.Linear(4, 5)
        self.norm.running_var.fill_(0.5)

    def forward(self, x: Any) -> Any:
        y = F.relu_(self.norm(self.first(x)))
        y = F.max_pool2d(y, 2) + F.avg_pool2d(self.second(y), 2)
        y = F.interpolate(self.up(y), scale_factor=2, mode="bilinear")
        return self.last(torch.flatten(F.adaptive_avg_pool2d(y, 1), 1)).softmax(-1)


def encoder() -> Any:
    """An encoder that eager mode runs as one operator."""
    return nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, activation="gelu")


MODULES: dict[str, tuple[Callable[[], Any], tuple[int, ...]]] = {
    "block": (Block, (2, 6, 16)),
    "convolutions": (Convolutions, (2, 3, 16, 16)),
    "encoder layer": (encoder, (2, 5, 16)),
}


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", MODULES)
@pytest.mark.parametrize("form", ["as exported", "core ATen"])
def test_modules(name: str, form: str) -> None:
    make, shape = MODULES[name]
    torch.manual_seed(0)
    module, x = make().eval(), torch.randn(*shape)
    program = exported(module, x)
    check(program.run_decompositions() if form == "core ATen" else program, module, x)


def test_a_program_compiles_and_names_its_results_by_their_keys() -> None:
    class Pair(Module):
        def forward(self, x: Any) -> Any:
            return {"doubled": x * 2, "parts": [x + 1, x.sum()]}

    model = graphc.compile(exported(Pair(), torch.ones(2, 3)))
    assert [spec.name for spec in model.inputs] == ["x"]
    assert [spec.name for spec in model.outputs] == ["doubled", "parts.0", "parts.1"]
    assert [y.tolist() for y in model(np.ones((2, 3), np.float32))] == [[[2.0] * 3] * 2] * 2 + [6.0]


def test_files_and_their_bytes(tmp_path: Path) -> None:
    module, x = nn.Linear(4, 3), torch.randn(2, 4)
    path = tmp_path / "m.pt2"
    torch.export.save(exported(module, x), path)
    assert format_of(path) == "torch"
    for source in (path, path.read_bytes()):
        check(source, module, x)


def test_a_corrupt_file_is_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "m.pt2"
    path.write_bytes(b"PK\x03\x04 no archive")
    with pytest.raises(UserError, match=r"m.pt2' is not a program that torch.export.load reads"):
        load(path)


def test_a_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tensors of torchao's own types need torchao to be read."""

    def missing(source: Any) -> Any:
        raise ModuleNotFoundError("No module named 'torchao'", name="torchao")

    path = tmp_path / "m.pt2"
    path.write_bytes(b"PK")
    monkeypatch.setattr(torch.export, "load", missing)
    with pytest.raises(UserError, match="where the package 'torchao' is installed"):
        load(path)


def test_dynamic_sizes_stay_dynamic_or_are_fixed_by_the_caller() -> None:
    class Rows(Module):
        def forward(self, x: Any) -> Any:
            return x.reshape(x.shape[0] * 2, -1) + torch.arange(x.shape[0] * 2)[:, None]

    program = exported(Rows(), torch.ones(4, 6), dynamic_shapes={"x": {0: torch.export.Dim("n")}})
    with pytest.raises(UserError, match=r"is f32\[s\d+,6\] in it, got x=f32\[5,7\]; fixed and"):
        load(program, {"x": "f32[5,7]"})
    names = {None: "x_0", "f32[rows,6]": "rows", "f32[5,6]": "5"}
    for spec, size in names.items():
        graph = load(program, {"x": spec} if spec else None)
        assert str(graph.inputs[0].outputs[0].details) == f"f32[{size},6]"
    (result,) = graph.evaluate([np.ones((5, 6), np.float32)])
    assert np.array_equal(result, np.ones((10, 3)) + np.arange(10)[:, None])


def test_one_model_for_all_dynamic_sizes_of_a_program() -> None:
    class Reader(Module):
        """A table of 32 positions, attention, an end cut off."""

        def __init__(self) -> None:
            super().__init__()
            self.positions, self.linear = nn.Embedding(32, 8), nn.Linear(8, 8)

        def forward(self, x: Any) -> Any:
            batch, length, _ = x.shape
            q = self.linear(x + self.positions.weight[:length]).view(batch, length, 2, 4)
            q = q.transpose(1, 2)
            y = F.scaled_dot_product_attention(q, q, q, is_causal=True).transpose(1, 2)
            return y.reshape(batch * length, 8)[:, 1:], x[:, 0], torch.arange(length) + length

    module, dim = Reader(), torch.export.Dim
    shapes = {"x": {0: dim("batch", max=64), 1: dim("length", max=32)}}
    model = graphc.compile(exported(module, torch.randn(3, 5, 8), dynamic_shapes=shapes), threads=1)
    assert str(model.inputs[0]) == "x: f32[x_0,x_1,8]"
    for sizes in ((2, 3), (5, 32)):
        x = torch.randn(*sizes, 8)
        with torch.no_grad():
            wanted = module.eval()(x)
        for mine, theirs in zip(model(x.numpy()), wanted, strict=True):
            np.testing.assert_allclose(mine, theirs.numpy(), rtol=1e-4, atol=1e-5)


def test_mutated_buffers_are_inputs_and_outputs() -> None:
    class Counter(Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("calls", torch.zeros(2))

        def forward(self, x: Any) -> Any:
            self.calls.add_(1)
            return x * self.calls

    graph = load(exported(Counter(), torch.ones(2)))
    assert [op.name for op in graph.inputs] == ["x", "b_calls"]
    assert [op.attr("temp.result") for op in graph.outputs] == ["output", "calls"]
    x, calls = np.array([3, 4], np.float32), np.array([1, 2], np.float32)
    assert [y.tolist() for y in graph.evaluate([x, calls])] == [[6, 12], [2, 3]]


def test_what_is_not_supported_is_listed_with_its_line() -> None:
    class Odd(Module):
        def forward(self, x: Any) -> Any:
            values = torch.polygamma(1, x) + torch.polygamma(1, x * 2)
            return torch.special.airy_ai(x) + values

    with pytest.raises(UnsupportedError) as caught:
        load(exported(Odd(), torch.ones(3, 3)))
    for part in (
        "special_airy_ai",
        "special_airy_ai",
        "(2x, first at",
        "test_exported_programs.py:",
    ):
        assert part in str(caught.value)


def test_types_of_16_bits_and_integers() -> None:
    class Mixed(Module):
        def forward(self, x: Any, i: Any) -> Any:
            return x + 1, i // 2, (i * 1.5).to(torch.int32), x.float() / 3, i % 3, i > 2

    x, i = torch.arange(6.0).half(), torch.tensor([[-3, 5], [7, -8], [9, 2]])
    check(exported(Mixed(), x, i), Mixed(), x, i)
    (result, *_) = load(exported(Mixed(), x.bfloat16(), i)).evaluate(
        [x.numpy().astype("bfloat16"), i.numpy()]
    )
    assert result.dtype.name == "bfloat16"
    assert result.astype(float).tolist() == [1, 2, 3, 4, 5, 6]


def test_a_program_is_decomposed_once_for_all_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    class Second(Module):
        def forward(self, x: Any) -> Any:
            return x.clone().mul_(2).kthvalue(2, 0)[0]

    program = torch.export.export(
        Second(), (torch.ones(6, 2),), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},)
    )
    calls, decompose = [], type(program).run_decompositions

    def counted(*given: Any) -> Any:
        calls.append(0)
        return decompose(*given)

    monkeypatch.setattr(type(program), "run_decompositions", counted)
    graph = load(program)
    assert calls == [0] and graph.inputs[0].outputs[0].details.plain_dims[0].symbols[0].least == 2


def test_sizes_from_0_on_that_the_program_promises() -> None:
    class Grown(torch.nn.Module):
        def forward(self, past: Any, x: Any) -> Any:
            return torch.cat([past, x], 1).cumsum(1)

    given = torch.randn(2, 3, 4), torch.randn(2, 5, 4)
    sizes = {1: torch.export.Dim("P", min=0)}, {1: torch.export.Dim.DYNAMIC}
    model = graphc.compile(torch.export.export(Grown(), given, dynamic_shapes=sizes))
    for rows in (0, 2, 9):
        past, x = np.ones((2, rows, 4), np.float32), np.ones((2, 5, 4), np.float32)
        np.testing.assert_array_equal(model(past, x)[0, :, 0], np.arange(1, rows + 6))


def test_a_reflected_border_must_fit_in_each_run() -> None:
    class Padded(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.nn.functional.pad(x, (0, -x.shape[1] % 8), mode="reflect")

    sizes = ({1: torch.export.Dim.DYNAMIC},)
    model = graphc.compile(
        torch.export.export(Padded(), (torch.ones(2, 12),), dynamic_shapes=sizes)
    )
    for columns in (5, 7, 8, 13):
        x = torch.arange(2.0 * columns).reshape(2, columns)
        np.testing.assert_array_equal(model(x.numpy()), Padded()(x).numpy())
    with pytest.raises(UserError, match="a reflected border of .* must be narrower than x_1"):
        model(np.ones((2, 4), np.float32))
