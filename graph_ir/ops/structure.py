"""Sources and sinks of a graph: input, constant, output."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from ...base.dtypes import from_numpy
from ..ir.graph import Array, Op
from ..ir.logical_tensor import LogicalTensor
from ..ir.registry import register


@register("input")
class Input(Op):
    """A tensor that the caller passes to each run. attrs: `details` (LogicalTensor)."""

    kind: ClassVar[str] = "source"

    def infer(self, inputs: list[LogicalTensor]) -> list[LogicalTensor]:
        """The declared tensor."""
        return [self.attrs["details"]]

    def get_gflop(self) -> float:
        """No work."""
        return 0.0


@register("constant")
class Constant(Op):
    """A tensor known at compile time. attrs: `value` (plain array), `format` (layout in memory, None for plain)."""

    kind: ClassVar[str] = "source"

    def infer(self, inputs: list[LogicalTensor]) -> list[LogicalTensor]:
        """dtype and shape of the value, in the chosen format."""
        value = self.value
        layout: Any = self.attrs.get("format")
        return [LogicalTensor(from_numpy(value.dtype), value.shape, layout)]

    @property
    def value(self) -> np.ndarray[Any, Any]:
        """The plain array."""
        return np.asarray(self.attrs["value"])

    def reference(self, inputs: list[Array]) -> list[Array]:
        """The value itself."""
        return [self.value]

    def get_gflop(self) -> float:
        """No work."""
        return 0.0


@register("output")
class Output(Op):
    """A tensor returned to the caller. attrs: `temp.result`, its public name."""

    kind: ClassVar[str] = "sink"

    @property
    def result_name(self) -> str:
        """The public name of the result, which an op of the graph may share."""
        return str(self.attrs.get("temp.result", self.name))

    def infer(self, inputs: list[LogicalTensor]) -> list[LogicalTensor]:
        """No outputs of its own."""
        return []

    def get_gflop(self) -> float:
        """No work."""
        return 0.0
