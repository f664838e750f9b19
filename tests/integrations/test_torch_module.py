"""graphc.torch.compile: a whole module, called with tensors, mutated, pickled, misused."""

from __future__ import annotations

import copy
import io
import pickle
from typing import Any

import pytest

import graphc

torch: Any = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore")  # of torch, about itself
Module: Any = torch.nn.Module


class Net(Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 3)
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x: Any, scale: float = 2.0, *, log: Any = None) -> Any:
        self.calls.add_(1)
        if log is not None:
            log.add_(x.sum())
        return {"y": self.linear(x) * scale, "calls": [self.calls + 0, scale]}


@pytest.fixture(scope="module")
def pair() -> Any:
    torch.manual_seed(0)
    module = Net()
    kwargs = {"log": torch.zeros(1)}
    return module, graphc.torch.compile(module, torch.randn(2, 4), 3.0, kwargs=kwargs)


def test_results_states_and_mutated_inputs(pair: Any) -> None:
    module, fast = pair
    assert module.training, "as it was"
    x, log = torch.randn(2, 4), torch.ones(1)
    for call in (1.0, 2.0):
        found = fast(x, 3.0, log=log)
        torch.testing.assert_close(found["y"], module.linear(x).detach() * 3)
        assert (float(found["calls"][0]), found["calls"][1]) == (call, 3.0)
    torch.testing.assert_close(log, 1 + 2 * x.sum().reshape(1))
    assert float(fast.states["calls"]) == 2


def test_it_is_pickled(pair: Any) -> None:
    _, fast = pair
    x = torch.randn(2, 4).t().contiguous().t()  # not dense
    wanted = fast(x, 3.0, log=torch.zeros(1))["y"]
    stream = io.BytesIO()
    torch.save(fast, stream)
    saved = torch.load(io.BytesIO(stream.getvalue()), weights_only=False)
    for again in (pickle.loads(pickle.dumps(fast)), saved):
        assert torch.equal(again(x, 3.0, log=torch.zeros(1))["y"], wanted)


def test_sizes_that_stay_dynamic() -> None:
    module, rows = torch.nn.Linear(4, 3), torch.export.Dim("rows", max=64)
    fast = graphc.torch.compile(module, torch.randn(2, 4), dynamic={"input": {0: rows}})
    for count in (1, 5, 64):
        x = torch.randn(count, 4)
        torch.testing.assert_close(fast(x), module(x).detach())
    assert torch.equal(pickle.loads(pickle.dumps(fast))(x), fast(x))


def test_sizes_as_results() -> None:
    class Sized(Module):
        def forward(self, x: Any, *, y: Any) -> Any:
            return x * 2, x.shape[0], {"all": x.numel() + 1, "other": y["a"].shape[0] // 2}

    given = torch.randn(2, 4), {"a": torch.ones(6)}
    fast = graphc.torch.compile(Sized(), given[0], kwargs={"y": given[1]}, dynamic=True)
    for rows, columns in ((3, 5), (2, 7)):
        _, count, found = fast(torch.randn(rows, columns), y={"a": torch.ones(columns)})
        assert (count, found) == (rows, {"all": rows * columns + 1, "other": columns // 2})


def test_other_arguments_are_sentences(pair: Any) -> None:
    _, fast = pair
    x, log = torch.randn(2, 4), torch.zeros(1)
    with pytest.raises(graphc.UserError, match=r"input 'x' must be f32\[2,4\], got f32\[3,4\]"):
        fast(torch.randn(3, 4), 3.0, log=log)
    with pytest.raises(graphc.UserError, match=r"input 'x' must be f32\[2,4\], got f64\[2,4\]"):
        fast(x.double(), 3.0, log=log)
    with pytest.raises(graphc.UserError, match=r"input 'scale' must be 3.0, as when it was"):
        fast(x, 4.0, log=log)
    with pytest.raises(
        graphc.UserError, match=r"input 'x' must be in main memory, got a tensor on meta"
    ):
        fast(x.to("meta"), 3.0, log=log)
    with pytest.raises(graphc.UserError, match="takes arguments TreeSpec"):
        fast(x)


def test_what_is_not_supported_is_refused() -> None:
    class Odd(Module):
        def forward(self, x: Any) -> Any:
            return torch.special.airy_ai(x)

    with pytest.raises(graphc.UnsupportedError, match="special_airy_ai is not supported"):
        graphc.torch.compile(Odd(), torch.ones(2, 2))


def test_functions_and_modes_of_parts() -> None:
    """The compiled module is inference; each part keeps its mode."""
    module = torch.nn.Sequential(torch.nn.BatchNorm1d(3).eval(), torch.nn.Dropout()).train()
    module[0].eval()
    x = torch.randn(4, 3)
    torch.testing.assert_close(graphc.torch.compile(module, x)(x), module[0](x).detach())
    assert [part.training for part in module.modules()] == [True, False, True]
    fast = graphc.torch.compile(lambda x, *, y: (x @ y, None, 3), x, kwargs={"y": x.t()})
    matmul, *rest = fast(x, y=x.t())
    torch.testing.assert_close(matmul, x @ x.t())
    assert rest == [None, 3]
    with pytest.raises(graphc.UserError, match="takes a module or a function, got int"):
        graphc.torch.compile(3, x)


def test_gradients_are_not_forgotten(pair: Any) -> None:
    _, fast = pair
    x = torch.randn(2, 4, requires_grad=True)
    with pytest.raises(graphc.UserError, match="gradients are wanted here; call the model under"):
        fast(x, 3.0, log=torch.zeros(1))
    for mode in (torch.no_grad(), torch.inference_mode()):
        with mode:
            assert not fast(x, 3.0, log=torch.zeros(1))["y"].requires_grad


def test_it_is_a_part_of_another_module(pair: Any) -> None:
    class Outer(Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.last = Net(), torch.nn.Linear(3, 2)

        def forward(self, x: Any) -> Any:
            return self.last(self.inner(x * 2, 3.0, log=torch.zeros(1))["y"])

    outer, x, calls = Outer().eval(), torch.randn(2, 4), []
    expected = outer(x).detach()
    kwargs = {"log": torch.zeros(1)}
    outer.inner = graphc.torch.compile(outer.inner, x, 3.0, kwargs=kwargs)
    outer.inner.register_forward_hook(lambda *_: calls.append(1))
    assert [*outer.state_dict()] == ["last.weight", "last.bias"]
    with torch.no_grad():
        for whole in (outer, copy.deepcopy(outer), torch.compile(outer, backend="eager")):
            torch.testing.assert_close(whole(x), expected)
    assert len(calls) == 3 and float(outer.inner.states["calls"]) == 3
    assert isinstance(outer.inner, graphc.torch.CompiledModule)


class Pair:
    """A pytree like registered caches: values that are not tensors are not leaves."""

    def __init__(self, *parts: Any) -> None:
        self.parts = parts

    def apart(self) -> Any:
        is_leaf = [isinstance(part, torch.Tensor) for part in self.parts]
        leaves = [part for part in self.parts if isinstance(part, torch.Tensor)]
        return leaves, [
            None if leaf else part for leaf, part in zip(is_leaf, self.parts, strict=True)
        ]

    @classmethod
    def made(cls, leaves: Any, rest: Any) -> Any:
        given = iter(leaves)
        return cls(*[next(given) if part is None else part for part in rest])


def test_results_of_classes() -> None:
    pytree = torch.utils._pytree
    key = pytree.SequenceKey
    pytree.register_pytree_node(
        Pair,
        Pair.apart,
        Pair.made,
        serialized_type_name="graphc.tests.Pair",
        flatten_with_keys_fn=lambda x: (
            [(key(i), leaf) for i, leaf in enumerate(x.apart()[0])],
            x.apart()[1],
        ),
    )
    x = torch.randn(2, 3)
    found = graphc.torch.compile(lambda x: {"y": Pair(x + 1, 3, x * 2)}, x)(x)["y"]
    assert found.parts[1] == 3
    torch.testing.assert_close(found.parts[::2], (x + 1, x * 2))


def test_what_torch_cannot_export_is_refused() -> None:
    def choose(x: Any) -> Any:
        return x if x.sum() > 0 else -x

    with pytest.raises(
        graphc.UnsupportedError, match="torch.export cannot capture this as a whole"
    ):
        graphc.torch.compile(choose, torch.ones(3))
    with pytest.raises(graphc.UnsupportedError, match="is not supported"):
        graphc.torch.compile(lambda x: x.to_sparse().sin(), torch.ones(3))


def test_autocast_is_captured_where_it_is_entered_inside() -> None:
    linear, x = torch.nn.Linear(4, 3), torch.randn(2, 4)

    def inside(x: Any) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return linear(x)

    with torch.no_grad():
        found = graphc.torch.compile(inside, x)(x)
        torch.testing.assert_close(found, inside(x), rtol=0.02, atol=0.02)
    with (
        torch.autocast("cpu", dtype=torch.bfloat16),
        pytest.raises(graphc.UnsupportedError, match="compiled under torch.autocast"),
    ):
        graphc.torch.compile(linear, x)


def test_a_buffer_that_is_called_as_an_input(pair: Any) -> None:
    class Count(Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("x", torch.zeros(3))
            self.weight = torch.nn.Parameter(torch.ones(3))

        def forward(self, x: Any) -> Any:
            self.x.add_(x)
            x.mul_(2)
            self.weight.add_(1)
            return self.x * self.weight

    module, fast, x, y = (
        Count(),
        graphc.torch.compile(Count(), torch.ones(3)),
        torch.ones(3),
        torch.ones(3),
    )
    with torch.no_grad():
        for _ in range(3):
            torch.testing.assert_close(fast(y), module(x))
            torch.testing.assert_close(y, x)
    assert set(fast.states) == {"x", "weight"}


def test_arguments_that_are_changed_otherwise_than_by_writes() -> None:
    class Steps(Module):
        def forward(self, x: Any, steps: Any) -> Any:
            steps["rows"].append(x * 2)
            return x + len(steps["rows"])

    class Cells(Module):
        def forward(self, x: Any, cells: Any) -> Any:
            cells["a"] = cells["a"] + x
            return x

    x = torch.ones(3)
    for module, given in ((Steps(), {"rows": []}), (Cells(), {"a": x})):
        with pytest.raises(graphc.UnsupportedError, match="replaces parts of its argument 1"):
            graphc.torch.compile(module, x, given)
        assert not module._forward_hooks and not module._forward_pre_hooks
