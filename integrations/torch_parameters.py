"""Compiled code for each set of parameters that a graph is called with.

Dynamo has one graph for all modules that share their code, such as the layers of a network that are compiled one at a
time; parameters are constants of what graphc compiles.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from functools import partial
from operator import itemgetter
from typing import Any

Codes = dict[Any, Any]
"""Compiled code, by sizes."""


class Parameters:
    """The tensors at some positions of a graph's arguments, and the code for each set of them."""

    def __init__(self, positions: Sequence[int]) -> None:
        # The first one twice, as one alone would be no tuple.
        self._pick = itemgetter(positions[0], *positions) if positions else lambda args: ()
        self._state_of = _reader_of_state()
        self._sets: dict[tuple[int, ...], _Set] = {}

    def codes(self, args: Sequence[Any]) -> Codes:
        """Return the code compiled with the parameters in `args`; empty if they were written to since."""
        tensors = self._pick(args)
        state, key = self._state_of(tensors), tuple(map(id, tensors))
        found = self._sets.get(key)
        if found is None or found.state != state:
            found = self._sets[key] = _Set(state, tensors, partial(_forget, weakref.ref(self), key))
        return found.codes


def _forget(parameters: weakref.ref[Parameters], key: tuple[int, ...], _: object) -> None:
    """Forget the code of a dead tensor. Only the graph holds the code, which is freed with it at once."""
    if (alive := parameters()) is not None:
        alive._sets.pop(key, None)


class _Set:
    """Code for the parameters of one module, which is forgotten with any of them: another may be at its address."""

    def __init__(self, state: Any, tensors: Sequence[Any], forget: Callable[[Any], None]) -> None:
        self.state, self.codes = state, Codes()
        self._alive = [weakref.ref(tensor, forget) for tensor in tensors]


def _reader_of_state() -> Callable[[Sequence[Any]], Any]:
    """Tells where tensors are in memory, and how often they were written to.

    It runs in every call, for hundreds of parameters: hence loops that are not Python's.
    """
    import torch

    address, version = torch._C.TensorBase.data_ptr, torch._C.TensorBase._version.__get__

    def state(tensors: Sequence[Any]) -> Any:
        try:
            written = list(map(version, tensors))
        except RuntimeError:  # of torch.inference_mode(): they do not count
            written = [None if x.is_inference() else x._version for x in tensors]
        return list(map(address, tensors)), written

    return state
