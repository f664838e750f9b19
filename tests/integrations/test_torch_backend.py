"""torch.compile with graphc: results, frozen parameters, mutations, sizes, what PyTorch runs itself, gradients."""

from __future__ import annotations

import copy
import gc
import io
import logging
import math
import weakref
from functools import partial
from importlib.metadata import entry_points
from typing import Any

import pytest

import graphc
from graphc.integrations import torch_backend, torch_call
from graphc.integrations.torch_parameters import Parameters
from support.dynamo import fresh, torch  # noqa: F401

pytestmark = pytest.mark.filterwarnings("ignore")  # of torch, about itself
Module: Any = torch.nn.Module


class Net(Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x: Any) -> Any:
        self.calls.add_(1)
        y = torch.relu(self.linear(x)) + self.calls
        return y, x.view(-1), x.shape[0], y.t()


def compiled(module: Any, **options: Any) -> Any:
    return torch.compile(module.eval(), backend=graphc.torch.backend, options=options)


def check(mine: Any, theirs: Any) -> None:
    """Values, sizes and strides."""
    for a, b in zip(mine, theirs, strict=True):
        if not isinstance(b, torch.Tensor):
            assert a == b
            continue
        torch.testing.assert_close(a, b)
        assert a.stride() == b.stride()


def test_results_of_several_sizes_and_mutated_buffers() -> None:
    eager = Net().eval()
    module = copy.deepcopy(eager)
    fast = compiled(module, strict=True)
    for rows in (2, 3, 5, 3):
        x = torch.randn(rows, 4)
        check(fast(x), eager(x))
        assert torch.equal(module.calls, eager.calls)


@pytest.fixture
def compiles(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The graphs that are compiled."""
    graphs: list[Any] = []

    def counted(graph: Any, **options: Any) -> Any:
        graphs.append([str(op.outputs[0].details) for op in graph.inputs])
        return graphc.compile(graph, **options)

    monkeypatch.setattr(torch_backend, "compile_model", counted)
    return graphs


def test_one_piece_of_code_for_all_sizes(compiles: list[Any]) -> None:
    module = torch.nn.Linear(4, 6)

    def transposed(x: Any) -> Any:
        return module(x).view(x.shape[0], 2, 3).transpose(1, 2), x.shape[0] * 2, x[:, 1:]

    fast = torch.compile(transposed, backend=graphc.torch.backend, dynamic=True)
    for rows in (3, 7, 30):
        x = torch.randn(rows, 4)
        check(fast(x), transposed(x))
    ((details,),) = compiles
    assert details.endswith(",4]") and details.startswith("f32[s")
    module.weight.mul_(2)
    check(fast(x), transposed(x))
    assert len(compiles) == 2


def test_sizes_marked_with_a_range(compiles: list[Any]) -> None:
    fast = torch.compile(torch.nn.functional.relu, backend=graphc.torch.backend)
    for rows in (3, 8):
        x = torch.randn(rows, 4)
        torch._dynamo.mark_dynamic(x, 0, min=2, max=9)
        check([fast(x)], [torch.relu(x)])
    assert len(compiles) == 1


def test_sizes_that_cannot_be_open_have_code_of_their_own(
    compiles: list[Any], caplog: pytest.LogCaptureFixture
) -> None:
    def filtered(x: Any) -> Any:
        return torch.conv1d(x[None], x[None, :, :2])

    fast = torch.compile(filtered, backend=graphc.torch.backend, dynamic=True)
    with caplog.at_level(logging.INFO, "graphc.torch"):
        for size in (5, 7):
            x = torch.randn(3, size)
            check([fast(x)], [filtered(x)])
    (message,) = [r.getMessage() for r in caplog.records if r.name == "graphc.torch"]
    assert message.startswith("each combination of sizes is compiled by itself: ")
    assert compiles[-2:] == [["f32[3,5]"], ["f32[3,7]"]]


def test_numbers_among_the_arguments(compiles: list[Any]) -> None:
    """Dynamo makes symbols of those that differ; what no tensor's size tells cannot stay dynamic."""

    def scaled(x: Any, factor: float, count: int) -> Any:
        return x * factor, x[:count]

    fast = torch.compile(scaled, backend=graphc.torch.backend, options={"strict": True})
    x = torch.randn(5)
    for factor, count in ((1.5, 2), (2.5, 3), (-1.0, -4), (0.5, 4)):
        check(fast(x, factor, count), scaled(x, factor, count))
    assert len(compiles) <= 4


def test_large_numbers_among_the_arguments() -> None:
    fast = torch.compile(lambda x, n: x * n, backend=graphc.torch.backend)
    x = torch.arange(4)
    for n in (2, 1 << 40, -7, 0):
        check([fast(x, n)], [x * n])


def test_empty_tensors_grouped_heads_shifts_and_signs() -> None:
    def mixed(x: Any, q: Any, k: Any) -> Any:
        y = torch.nn.functional.scaled_dot_product_attention(q, k, k, enable_gqa=True)
        n = q.to(torch.int64)
        signs = torch.sign(torch.cat([q[0, 0, 0], q[0, 0, 0] * math.nan, n[0, 0, 0] * 0.0]))
        return x * 2, torch.cat([x, x], 1), y, n << 2, n >> 1, signs, torch.sign(n)

    args = torch.randn(0, 4), torch.randn(1, 4, 3, 8) * 9, torch.randn(1, 2, 3, 8)
    fast = torch.compile(mixed, backend=graphc.torch.backend, options={"strict": True})
    check(fast(*args), mixed(*args))


@pytest.mark.exhaustive
@pytest.mark.parametrize("dynamic", [False, True])
def test_native_code_gets_the_addresses_of_tensors(
    monkeypatch: pytest.MonkeyPatch, dynamic: bool
) -> None:
    """Arrays in between cost a tenth of a millisecond where the CPU's caches are empty. Results of all sizes."""

    def mixed(x: Any, n: Any) -> Any:
        return (
            x + 1,
            (x * 2).bfloat16(),
            n > 3,
            torch.cat([x[:0], x[:0]]),
            x.expand(1 << 15, *x.shape) * 2,
        )

    monkeypatch.setattr(torch_call, "to_array", None)
    options = {"strict": True}
    fast = torch.compile(mixed, backend=graphc.torch.backend, dynamic=dynamic, options=options)
    n = torch.arange(6).view(2, 3).t()
    for x in (torch.randn(7, 5).t(), torch.randn(3, 7, dtype=torch.complex64).conj().imag):
        check(fast(x, n), mixed(x, n))


def test_tensors_of_other_devices_are_sentences() -> None:
    fast = torch.compile(torch.relu, backend=graphc.torch.backend)
    with pytest.raises(graphc.UserError, match="must be in main memory, got a tensor on meta"):
        fast(torch.ones(3, device="meta"))


def test_halves_of_dynamic_sizes(compiles: list[Any]) -> None:
    """Windows in steps of 2, halves, every second element and their strides."""
    narrow = torch.nn.Conv2d(3, 4, 3, stride=2, padding=1)

    def halved(x: Any) -> Any:
        y = torch.nn.functional.max_pool2d(narrow(x), 3, 2, 1)
        a, b = x.chunk(2, 3)
        n = x.shape[2] // 2
        return y.transpose(2, 3), torch.cat([b, a], 3), x[:, :, :n] + n, x[:, :, ::2]

    fast = torch.compile(halved, backend=graphc.torch.backend, dynamic=True)
    for height, width in ((8, 11), (13, 6), (31, 24)):
        x = torch.randn(1, 3, height, width)
        check(fast(x), halved(x))
    assert len(compiles) == 1


def test_dynamic_sizes_that_must_be_multiples(compiles: list[Any]) -> None:
    """A halved and doubled length is added to the input, so that its length must be even."""
    down, up = torch.nn.Conv1d(2, 2, 2, stride=2), torch.nn.ConvTranspose1d(2, 2, 2, stride=2)
    fast = torch.compile(lambda x: (up(down(x)) + x).mT, backend=graphc.torch.backend, dynamic=True)
    for length in (8, 14, 22):
        x = torch.randn(1, 2, length)
        check([fast(x)], [(up(down(x)) + x).mT])
    assert len(compiles) == 1


def test_normalizations_of_16_bits_are_not_left_to_pytorch() -> None:
    """Their statistics are of that type too."""
    layers = torch.nn.GroupNorm(2, 4), torch.nn.LayerNorm(3)
    model = torch.nn.Sequential(*layers).bfloat16().eval()
    x = torch.randn(2, 4, 3, dtype=torch.bfloat16)
    torch.testing.assert_close(compiled(model, strict=True)(x), model(x), rtol=0.05, atol=0.05)


def test_complex_numbers_are_left_to_pytorch() -> None:
    """Inputs, constants and results of such calls, and calls of them that are read for other types."""

    class Transposed(Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(8, 8)
            self.register_buffer("turn", torch.polar(torch.ones(4), torch.arange(4.0)))

        def forward(self, x: Any, z: Any) -> Any:
            transposed = torch.view_as_complex(self.linear(x).view(-1, 4, 2)) * self.turn
            return (
                self.linear(torch.view_as_real(transposed).flatten(1)),
                transposed.abs() + 1,
                z,
                transposed,
            )

    model, args = Transposed().eval(), (torch.randn(3, 8), torch.randn(2, dtype=torch.complex64))
    check(compiled(model)(*args), model(*args))
    found = graphc.torch.explain(model, *args)
    assert {(r.op, r.reason) for r in found.refused} >= {
        ("view_as_complex", "view_as_complex is not supported"),
        ("abs", "abs of complex64 is not supported"),
    }


def test_tracing_lists_no_composites_and_collects_no_garbage(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each took a tenth of the time in which graphc's part of a first result was ready."""
    monkeypatch.delattr(torch.export, "default_decompositions")
    collecting = []

    def activation(x: Any) -> Any:
        collecting.append(gc.isenabled())
        return torch.where(x > 0, x, -x)

    rules = {torch.ops.aten.celu.default: activation}
    x = torch.randn(3, 4)
    fast = compiled(torch.nn.CELU(), strict=True, decompositions=rules)
    check([fast(x)], [x.abs()])
    assert collecting and not any(collecting)


@torch._dynamo.config.patch(allow_rnn=True)  # type: ignore[untyped-decorator,unused-ignore]
def test_recurrent_layers_that_dynamo_is_allowed_to_capture() -> None:
    """On CPUs PyTorch makes one operator of each direction of an LSTM, with biases or without."""
    for biases in (True, False):
        module = torch.nn.LSTM(3, 4, bidirectional=True, bias=biases).eval()
        x = torch.randn(2, 1, 3)
        (y, last), (wanted, state) = compiled(module, strict=True)(x), module(x)
        check([y, *last], [wanted, *state])


def test_operators_of_users_and_their_decompositions() -> None:
    with torch.library._scoped_library("graphc_tests", "DEF") as library:
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: x * 2, "CPU")
        library.impl("twice", lambda x: x.new_empty(x.shape), "Meta")
        twice = torch.ops.graphc_tests.twice
        rules = {twice.default: lambda x: x + x}

        class Model(Module):
            def forward(self, x: Any) -> Any:
                return torch.relu(twice(x))

        x = torch.randn(3, 4)
        wanted = torch.relu(x * 2)
        check([compiled(Model(), strict=True, decompositions=rules)(x)], [wanted])
        check([graphc.torch.compile(Model(), x, decompositions=rules)(x)], [wanted])
        with pytest.raises(graphc.UnsupportedError, match="graphc_tests::twice is not supported"):
            graphc.torch.compile(Model(), x)


def test_parameters_that_change_are_seen(compiles: list[Any]) -> None:
    module, x = torch.nn.Linear(4, 2), torch.randn(3, 4)
    fast = compiled(module, strict=True)
    check([fast(x)], [module(x)])
    module.weight.mul_(2)
    check([fast(x)], [module(x)])
    module.load_state_dict({"weight": torch.ones(2, 4), "bias": torch.zeros(2)})
    check([fast(x)], [module(x)])
    module.bias.data = torch.randn(2)
    check([fast(x)], [module(x)])
    assert len(compiles) == 4 and all(len(inputs) == 1 for inputs in compiles)
    with torch.inference_mode():
        module.weight = torch.nn.Parameter(torch.randn(2, 4))
        check([fast(x)], [module(x)])


def test_modules_that_share_a_graph_have_code_of_their_own(compiles: list[Any]) -> None:
    """Dynamo has one graph for layers that are compiled one at a time. Code is forgotten with its layer."""
    layers: list[Any] = [Odd() for _ in range(3)]
    x = torch.randn(3, 4)
    for layer in layers:
        layer.forward = partial(torch.compile(_scaled, backend=graphc.torch.backend), layer)
    for _ in range(2):
        for layer in layers:
            check([layer(x.t())], [x.t() * layer.scale])
    assert len(compiles) == 3


def _scaled(layer: Any, x: Any) -> Any:
    return x * layer.scale


def test_code_is_forgotten_with_its_parameters() -> None:
    """The next tensor may be at the same address."""
    parameters, tensors = Parameters([0, 2]), [torch.ones(2), torch.ones(3), torch.ones(4)]
    code = parameters.codes(tensors)
    code[None] = kept = Net()
    assert parameters.codes([*tensors]) is code
    tensors[1] = torch.zeros(3)
    assert parameters.codes(tensors) is code
    dead = weakref.ref(kept)
    del code, kept, tensors[2]
    assert dead() is None


def test_a_compiled_module_is_saved_with_its_backend(compiles: list[Any]) -> None:
    module, x = torch.nn.Linear(4, 2), torch.randn(3, 4)
    file = io.BytesIO()
    torch.save(compiled(module, strict=True), file)
    file.seek(0)
    check([torch.load(file, weights_only=False)(x)], [module(x)])
    assert compiles == [["f32[3,4]"]]


def test_parameters_that_dynamo_makes_attributes_are_frozen(compiles: list[Any]) -> None:
    module, x = torch.nn.Linear(4, 2), torch.randn(3, 4)
    with torch._dynamo.config.patch(prepare_freezing=True):
        fast = compiled(module, strict=True)
        check([fast(x)], [module(x)])
        module.weight.mul_(2)
        check([fast(x)], [module(x)])
    assert compiles == [["f32[3,4]"]] * 2


def test_channels_last_and_16_bits() -> None:
    module = torch.nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)
    x = torch.randn(1, 3, 6, 6).to(memory_format=torch.channels_last)
    check([compiled(module, strict=True)(x)], [module(x)])

    def halves(x: Any) -> Any:
        return (x * 2).to(torch.float16), x.t()

    x = torch.randn(3, 5).bfloat16()
    check(torch.compile(halves, backend=graphc.torch.backend)(x), halves(x))


class Odd(Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.randn(3))

    def forward(self, x: Any) -> Any:
        power = torch.special.airy_ai(torch.relu(x * self.scale) @ x.t() * 0.01)
        return torch.exp(power * 0.01) + 1, power.shape[0]


def test_what_is_not_supported_runs_in_pytorch_and_is_said(
    caplog: pytest.LogCaptureFixture,
) -> None:
    module, x = Odd(), torch.randn(3, 3)
    with caplog.at_level(logging.WARNING, "graphc"):
        fast = compiled(module)
        check(fast(x), module(x))
    (message,) = [r.getMessage() for r in caplog.records if r.name.startswith("graphc")]
    assert message.startswith("special_airy_ai runs in eager: special_airy_ai is not supported (")
    assert f"{__file__.rpartition('/')[2]}:" in message
    module.scale.mul_(2)  # what is divided is read again
    check(fast(x), module(x))
    explanation = graphc.torch.explain(module, x)
    assert [refusal.op for refusal in explanation.refused] == ["special_airy_ai"]
    assert str(explanation).startswith("1 graph, ")


def test_strict_refuses_it() -> None:
    with pytest.raises(graphc.UnsupportedError, match="special_airy_ai is not supported"):
        compiled(Odd(), strict=True)(torch.randn(3, 3))


def test_unknown_options_and_gradients_are_sentences() -> None:
    fast = torch.compile(torch.nn.Linear(4, 4), backend=graphc.torch.backend)
    with (
        torch.enable_grad(),
        pytest.raises(Exception, match="compiles inference, but gradients are"),
    ):
        fast(torch.ones(2, 4))
    with pytest.raises(Exception, match="has no option 'fast'; it has strict, threads"):
        compiled(Odd(), fast=True)(torch.ones(3, 3))


def test_an_installed_graphc_is_a_backend_by_name() -> None:
    found = entry_points(group="torch_dynamo_backends", name="graphc")
    if not found:
        pytest.skip("graphc is not installed here, only importable")
    assert next(iter(found)).load() is graphc.torch.backend


FLOAT8 = ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e8m0fnu")


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", FLOAT8)
def test_tensors_of_8_bit_floats(name: str) -> None:
    """Weights, inputs and results in 8-bit floats: NumPy has their bits, not their type."""
    dtype = getattr(torch, name)

    class Scaled(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("w", (torch.rand(6, 4) + 0.25).to(dtype))

        def forward(self, x: Any, y: Any) -> Any:
            result = x @ (self.w.float() * 0.5).T
            return result, (y.float() * 2).to(dtype), self.w

    model, x, y = Scaled(), torch.randn(3, 4), (torch.rand(5) + 0.5).to(dtype)
    with torch.no_grad():
        wanted = model(x, y)
        for run in (torch.compile(model, backend="graphc"), graphc.torch.compile(model, x, y)):
            for found, right in zip(run(x, y), wanted, strict=True):
                assert found.dtype == right.dtype
                torch.testing.assert_close(found.float(), right.float(), rtol=1e-6, atol=1e-6)
