"""Conditions of sizes in exported programs: guards of the trace, assertions, and branches by a size."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphc
from graphc.base.errors import UserError

torch: Any = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore")  # of torch, about itself
AUTO: Any = torch.export.Dim.AUTO


class Function(torch.nn.Module):  # type: ignore[misc]
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Any, *others: Any) -> Any:
        return self.function(x, *others)


def exported(function: Callable[..., Any], *sizes: int) -> Any:
    tensors = tuple(torch.ones(n, 2) for n in sizes)
    others = [tuple({0: AUTO} for _ in sizes[1:])] if sizes[1:] else []
    return torch.export.export(Function(function), tensors, dynamic_shapes=({0: AUTO}, *others))


def outcome(run: Callable[..., Any], sizes: tuple[int, ...], as_array: bool) -> Any:
    """The sum of the result; None where the call is refused."""
    tensors = [torch.arange(n * 2.0).view(n, 2) for n in sizes]
    try:
        found = run(*((x.numpy() for x in tensors) if as_array else tensors))
    except (UserError, AssertionError, RuntimeError):
        return None
    return float(np.asarray(found).sum())


def doubled_if(holds: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *xs: xs[0] * 2 if holds(*(x.shape[0] for x in xs)) else xs[0]


GUARDS: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]]]] = {
    "truncated": (lambda n: int(1.5 * n) == 12, [(8,), (9,), (7,), (1,)]),
    "remainder": (lambda n: n % 4 == 1, [(9,), (5,), (8,), (1,), (2,)]),
    "unequal": (lambda n: n != 7, [(8,), (7,), (1,)]),
    "power": (lambda n: n**2 > 30, [(6,), (5,), (1,)]),
    "root": (lambda n: int(n**0.5) == 4, [(16,), (15,), (24,), (25,)]),
    "either": (lambda n: (n > 6) | (n == 3), [(8,), (3,), (4,), (7,)]),
    "ends": (lambda n, m: max(n, m) < 9 and min(n, m) > 2, [(6, 4), (4, 9), (9, 4), (5, 2), (3, 8)]),
}  # fmt: skip


@pytest.mark.parametrize("name", GUARDS)
def test_a_call_is_refused_where_pytorch_refuses_it(name: str) -> None:
    holds, cases = GUARDS[name]
    program = exported(doubled_if(holds), *cases[0])
    model, module = graphc.compile(program, threads=1), program.module()
    for sizes in cases:
        assert outcome(model, sizes, True) == outcome(module, sizes, False), sizes


def test_guards_of_files_strict_traces_and_nested_inputs(tmp_path: Path) -> None:
    class Nested(torch.nn.Module):  # type: ignore[misc]
        def forward(self, pair: Any, named: Any) -> Any:
            if pair[1].shape[0] % 3 == 0 and named["a b"].shape[0] != 7:
                return pair[0] * 2
            return pair[0]

    x, y, z = (torch.ones(n, 2) for n in (4, 6, 8))
    shapes = {"pair": ({0: AUTO}, {0: AUTO}), "named": {"a b": {0: AUTO}}}
    for strict in (False, True):
        program = torch.export.export(
            Nested(), ((x, y), {"a b": z}), dynamic_shapes=shapes, strict=strict
        )
        torch.export.save(program, tmp_path / "nested.pt2")
        model = graphc.compile(tmp_path / "nested.pt2", threads=1)
        fine, seven = np.ones((9, 2), np.float32), np.ones((7, 2), np.float32)
        assert model(x.numpy(), fine, fine).sum() == 16
        with pytest.raises(UserError, match="its trace holds only where pair_1_0 % 3 == 0"):
            model(x.numpy(), seven, fine)
        with pytest.raises(UserError, match="its trace holds only where named_a_b_0 != 7"):
            model(x.numpy(), fine, seven)


def test_a_guard_that_a_given_size_breaks_is_told_before_the_call() -> None:
    program = exported(doubled_if(lambda n: int(1.5 * n) == 12), 8)
    graphc.compile(program, inputs={"x": "f32[8,2]"}, threads=1)
    with pytest.raises(UserError, match=r"trunc\(1.5 \* sym_float\(9\)\) == 12"):
        graphc.compile(program, inputs={"x": "f32[9,2]"}, threads=1)


@pytest.mark.parametrize(
    "holds", [lambda n: n == 4, lambda n: n != 4, lambda n: n % 2 == 0, lambda n: n // 2 > 2]
)
def test_branches_by_a_dynamic_size(holds: Callable[[Any], Any]) -> None:
    def branch(x: Any) -> Any:
        return torch.cond(holds(x.shape[0]), lambda y: y * 2, lambda y: y + 1, (x,))

    program = exported(branch, 6)
    model, module = graphc.compile(program, threads=1), program.module()
    for n in (3, 4, 5, 6):
        assert outcome(model, (n,), True) == outcome(module, (n,), False)


def test_assertions_about_the_data() -> None:
    def asserted(x: Any, count: Any) -> Any:
        torch._assert_async(x.sum() > 0, "the sum must be positive")
        n = count.item()
        torch._check(n != 3)
        return x * n

    program = torch.export.export(Function(asserted), (torch.ones(2), torch.tensor(2)))
    model = graphc.compile(program, threads=1)
    ones = np.ones(2, np.float32)
    assert model(ones, np.array(-4)).tolist() == [-4, -4]
    with pytest.raises(UserError, match="the sum must be positive"):
        model(-ones, np.array(2))
    with pytest.raises(UserError, match=r"Ne\(u0, 3\)"):
        model(ones, np.array(3))
