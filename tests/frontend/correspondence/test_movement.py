"""Movements that formats share, where their work could grow faster than what they make."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, ClassVar

from graphc.frontend.correspondence.compositions.movement import split


class Counted(int):
    """A size that counts how often sizes are added."""

    additions: ClassVar[int] = 0

    def __add__(self, other: int) -> Counted:
        Counted.additions += 1
        return Counted(int(self) + other)

    __radd__ = __add__


def test_splitting_adds_each_size_a_few_times() -> None:
    x: Any = SimpleNamespace(details=SimpleNamespace(plain_dims=(6000,)))
    node: Any = SimpleNamespace(sliced=lambda x, axis, start, size: (start, size))
    parts = split(node, x, 0, [Counted(2)] * 3000)
    assert parts == [(2 * number, 2) for number in range(3000)]
    assert Counted.additions < 4 * 3000
