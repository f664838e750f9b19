"""Ops and the tensors between them: the nodes and edges of a graph. An op defines its meaning, not how it runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from ...base.dims import UndecidedSize
from ...base.errors import InternalError, UserError
from .contents import Comparable, Token, attribute_tokens
from .logical_tensor import LogicalTensor
from .schedule import Schedule
from .schema import OpSchema, schema_of_class

SIZE_REMEDY = "give that size as a number, or a range that decides it"

Array = np.ndarray[Any, Any]


class GraphTensor:
    """An edge of the graph: produced by one op, used by any number of op inputs."""

    def __init__(self, details: LogicalTensor, producer_owner: Op) -> None:
        self.details = details
        self.producer_owner = producer_owner
        self.uses: dict[tuple[int, Op], None] = {}  # in order; one of many is removed at no cost

    @property
    def index(self) -> int:
        """The position among the outputs of its producer; -1 in a broken graph, so that it can still be shown."""
        outputs = self.producer_owner.outputs
        return next((i for i, tensor in enumerate(outputs) if tensor is self), -1)

    @property
    def name(self) -> str:
        """The producer's name, with `:i` for outputs after the first."""
        return self.producer_owner.name + (f":{self.index}" if self.index else "")

    @property
    def is_constant(self) -> bool:
        """Return whether the producer is a constant."""
        return self.producer_owner.is_constant

    def replace_uses(self, other: GraphTensor) -> None:
        """Make every consumer of this tensor read `other`."""
        for index, op in list(self.uses):
            op.set_input(index, other)

    def __repr__(self) -> str:
        return f"<{self.name}: {self.details}>"


class Op(Comparable):
    """A node. Subclasses define its meaning: shapes, reference, work; layouts and code are looked up by its class
    (`schedule.query_format`, `lowering.registry`).

    `kind`: `source`, `sink`, `tunable` (own loop template), `fusible` (a computation over indices), `composite`
    (decomposed into others before lowering), `fused` (a subgraph lowered as one function), `control` (subgraphs that
    run depending on the data), `loop` (has its own loops, which never fuse).
    """

    kind: ClassVar[str] = "fusible"
    is_input: ClassVar[bool] = False
    """True for the op that stands for an input of its graph; `is_output` and `is_constant` accordingly."""
    is_output: ClassVar[bool] = False
    is_constant: ClassVar[bool] = False
    operations: ClassVar[int | None] = None
    """Operations of each element of the first operand, where these are the work of the op."""
    schema: ClassVar[OpSchema] = OpSchema()
    """Operands and attributes, from the members of the class and its bases."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.schema = schema_of_class(cls)

    def __init__(
        self, op_name: str, name: str, inputs: Sequence[GraphTensor], attrs: dict[str, Any]
    ) -> None:
        self.op_name = op_name
        self.name = name
        self.logical_op_id = -1
        self.schedule: Schedule | None = None  # how the kernel runs that this op is, once chosen
        self.inputs: list[GraphTensor] = list(inputs)
        self.schema.check_operands(self)
        self.attrs: dict[str, Any] = self.schema.checked(self, attrs)
        try:  # nothing is linked yet
            details = self.infer([tensor.details for tensor in inputs])
        except UndecidedSize as error:
            raise self.undecided(error) from error
        self.outputs = [GraphTensor(detail, self) for detail in details]
        for index, tensor in enumerate(self.inputs):
            tensor.uses[(index, self)] = None

    def infer(self, inputs: list[LogicalTensor]) -> list[LogicalTensor]:
        """Outputs for given inputs, in plain formats: of the first one's type unless the op says otherwise. Raise
        UserError if the op does not accept them."""
        return [LogicalTensor(inputs[0].dtype, inputs[0].plain_dims)]

    def reference(self, inputs: list[Array]) -> list[Array]:
        """NumPy meaning on plain arrays: the result every layout and kernel is checked against."""
        raise InternalError(f"op '{self.op_name}' has no reference")

    def get_gflop(self) -> float:
        """Floating-point (or integer) operations, in 1e9; one per element unless the op says otherwise."""
        if self.operations is None:
            return sum(tensor.details.typical.elements for tensor in self.outputs) / 1e9
        return self.operations and self.operations * self.inputs[0].details.typical.elements / 1e9

    def set_input(self, index: int, tensor: GraphTensor) -> None:
        """Read `tensor` as input `index`."""
        self.inputs[index].uses.pop((index, self), None)
        self.inputs[index] = tensor
        tensor.uses[(index, self)] = None

    def unlink(self) -> None:
        """Read nothing any more, before the op leaves its graph."""
        for index, tensor in enumerate(self.inputs):
            tensor.uses.pop((index, self), None)

    def attr(self, key: str) -> Any:
        """The value of an attribute, or its default; raise InternalError if the op has none of that name."""
        return self.schema.attribute(self.op_name, key).__get__(self, type(self))

    def set_attr(self, key: str, value: Any) -> None:
        """Change an attribute, checked as `Graph.make` does; shapes are not inferred again."""
        self.schema.attribute(self.op_name, key)
        self.schema.put(self, key, value)

    def content_tokens(self) -> Iterator[Token]:
        """Bytes that identify the op itself: its name and its attributes, whatever it reads."""
        yield self.op_name.encode()
        yield from attribute_tokens(self.attrs)

    def input_name(self, index: int) -> str:
        """The name of input `index` in texts and messages."""
        return self.schema.input_name(index, len(self.inputs))

    def rule(self, rule: str, values: str, remedy: str = "") -> UserError:
        """An error in the standard form: who, rule, values, remedy."""
        return UserError(
            f"{self.op_name} '{self.name}': {rule}, got {values}"
            + (f"; {remedy}" if remedy else "")
        )

    def undecided(self, error: UndecidedSize) -> UndecidedSize:
        """The error where something about this op depends on sizes that are known only when the model runs."""
        text = str(error)
        if text.endswith(SIZE_REMEDY):
            return error
        types = " and ".join(str(x.details) for x in self.inputs)
        message = f"{self.op_name} '{self.name}' of {types}: {text}; {SIZE_REMEDY}"
        return error.said(message)

    def __repr__(self) -> str:
        return f"<{self.op_name} '{self.name}' #{self.logical_op_id}>"
