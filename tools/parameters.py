"""The inputs and constants that a debug executor is given, by name or number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..base.errors import UserError
from ..frontend.tvm.params import read_params
from ..graph_ir.ir.graph import Array, Graph, Op


class Parameters:
    """Values of a model's inputs, and new ones of its constants."""

    def __init__(self, source: Graph, inputs: Sequence[str]) -> None:
        self._source = source
        self._inputs = tuple(inputs)
        self._values: dict[str, Array] = {}
        self._constants: dict[str, Array] = {}

    def set(self, key: str | int, value: Any) -> None:
        """Give an input or a constant. Raise UserError for one the model does not have, or a constant of another
        type."""
        name = self._name(key)
        if name in self._inputs:
            self._values[name] = np.asarray(value)
            return
        constant = self._constant(name)
        if constant is None:
            raise UserError(f"there is no input '{name}'; the inputs are {', '.join(self._inputs)}")
        old, new = constant.attr("value"), np.asarray(value)
        if (old.shape, old.dtype) != (new.shape, new.dtype):
            raise UserError(
                f"constant '{name}' must be {old.dtype}{list(old.shape)}, got {new.dtype}{list(new.shape)}"
            )
        if not np.array_equal(old, new):
            self._constants[name] = new

    def load(self, params: bytes) -> None:
        """Set what a `.params` file holds of the model; the names in a dump end in the numbers of their nodes."""
        for key, value in read_params(params).items():
            name = key.split("____topo-index:")[0]
            if name in self._inputs or self._constant(name) is not None:
                self.set(name, value)

    def input(self, key: str | int) -> Array:
        """A copy of the value of an input. Raise UserError for one that is not set."""
        name = self._name(key)
        if name not in self._inputs:
            raise UserError(f"there is no input '{name}'; the inputs are {', '.join(self._inputs)}")
        self._check_set([name])
        return self._values[name].copy()

    def values(self) -> dict[str, Array]:
        """The values of all inputs. Raise UserError for one that is not set."""
        self._check_set(self._inputs)
        return self._values

    def changed_model(self) -> Graph | None:
        """The model with the constants given since the last call; None if there are none."""
        if not self._constants:
            return None
        self._source = self._source.copy()
        for name, value in self._constants.items():
            constant = self._constant(name)
            assert constant is not None
            constant.attrs["value"] = value
        self._constants.clear()
        return self._source

    def _name(self, key: str | int) -> str:
        if isinstance(key, str):
            return key
        if not 0 <= key < len(self._inputs):
            raise UserError(f"there is no input {key}; the model has {len(self._inputs)}")
        return self._inputs[key]

    def _constant(self, name: str) -> Op | None:
        ops = (op for op in self._source.ops if op.is_constant and op.name == name)
        return next(ops, None)

    def _check_set(self, names: Sequence[str]) -> None:
        for name in names:
            if name not in self._values:
                raise UserError(f"input '{name}' is not set; call set_input('{name}', array)")
