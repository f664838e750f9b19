"""One workload: a model with its inputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

import numpy as np

from ..base.aligned_memory import aligned_copy
from ..base.dtypes import from_numpy
from ..base.errors import UserError
from ..base.records import dataclass
from ..runtime.abi import ALIGNMENT

Array = np.ndarray[Any, Any]
IR_VERSION, OPSET = 9, 17  # supported by all engines of recent years
MIN_NOISE = 1e-4
"""Relative noise that f32 sums of some order may leave in any model."""


@dataclass(frozen=True)
class Case:
    """One row of a table: an ONNX model as bytes, or a file, and the shape of each input (f32 if none are `given`).

    `origin` is the f32 model that a quantized one was made of. It is compiled in `precision`; results that are right
    may have a relative `noise`. A single operator has `op_gflop`, its least work in 1e9 operations, and the type in
    which its left operand is `multiplied` if not that of the first input; one that `selects` reads from its first
    operand only as much as it writes (a gather of rows).
    """

    name: str
    model: bytes | Path
    inputs: Mapping[str, tuple[int, ...]]
    given: Mapping[str, Array] = field(default_factory=dict)
    origin: bytes | None = None
    op_gflop: float | None = None
    selects: bool = False
    precision: str = "f32"
    noise: float = MIN_NOISE
    multiplied: str = ""

    @property
    def may_be_refused(self) -> bool:
        """Return whether a table goes on after an engine that cannot run this case."""
        return self.origin is not None or self.op_gflop is not None

    def arrays(self) -> dict[str, Array]:
        """The given inputs, else normal ones with a fixed seed; aligned to cache lines for every engine."""
        rng = np.random.default_rng(1)
        values = self.given or {
            name: rng.standard_normal(shape, dtype=np.float32)
            for name, shape in self.inputs.items()
        }
        return {name: aligned_copy(value, ALIGNMENT) for name, value in values.items()}

    def exact(self) -> bytes:
        """The model that says what is right: where activations may be rounded or operands are, the f32 one."""
        is_noisy = self.noise > MIN_NOISE
        return self.origin if is_noisy and self.origin is not None else self.onnx()

    def onnx(self) -> bytes:
        """The model for other engines. Raise UserError if they cannot read it."""
        if isinstance(self.model, bytes):
            return self.model
        if self.model.suffix != ".onnx":
            raise UserError(
                f"other engines read ONNX only, got '{self.model}'; graphc convert it --to onnx first"
            )
        return self.model.read_bytes()


def chosen(names: Iterable[str], suite: str, only: str | None) -> list[str]:
    """Return the cases of a suite whose name contains a text, in any case. Raise UserError if there is none."""
    found = [name for name in names if (only or "").lower() in name.lower()]
    if not found:
        raise UserError(f"suite '{suite}' has no case with '{only}' in its name; leave --only out")
    return found


def specs_of(arrays: Mapping[str, Array]) -> dict[str, str]:
    """`dtype[dims]` of each input, which fixes dimensions that are dynamic in a model."""
    return {
        name: f"{from_numpy(a.dtype)}[{','.join(map(str, a.shape))}]" for name, a in arrays.items()
    }


def model_bytes(
    name: str,
    nodes: Sequence[Any],
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    constants: Sequence[Any],
    opset: int = OPSET,
    ir_version: int = IR_VERSION,
) -> bytes:
    """Return the ONNX model of nodes, declared inputs and outputs, and initializers."""
    from onnx import helper

    graph = helper.make_graph(nodes, name, inputs, outputs, constants)
    domains = sorted({node.domain for node in nodes} - {""})
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(one, 1) for one in domains)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=ir_version)
    return bytes(model.SerializeToString())
