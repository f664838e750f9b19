"""The contents of a graph JSON: nodes, entries (tensors) and their types."""

from __future__ import annotations

from dataclasses import field
from typing import Any

from ...base.records import dataclass
from ..correspondence.element_types import element_types, written_names

DTYPES = element_types("tvm")
"""TVM's names of element types."""

NAMES = written_names(DTYPES)
"""The name of each element type."""

OLD_FLAGS = {0: "float32", 1: "float64", 2: "float16", 3: "uint8", 4: "int32", 5: "int8", 6: "int64", 7: "int16",
             8: "uint16", 9: "uint32", 10: "uint64"}  # fmt: skip
"""Element types of old files, which had numbers."""


@dataclass(frozen=True)
class Entry:
    """Output `output` of node number `node`."""

    node: int
    output: int = 0


DYNAMIC = -1
"""A dynamic size of a graph."""


@dataclass(frozen=True)
class TensorType:
    """Shape and TVM dtype of an entry; sizes may be `DYNAMIC`."""

    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Node:
    """`op` is null, tvm_op or, in uncompiled files, an operator; `attrs` are strings."""

    op: str
    name: str
    inputs: tuple[Entry, ...] = ()
    attrs: dict[str, str] = field(default_factory=dict)
    control_deps: tuple[int, ...] = ()


@dataclass(frozen=True)
class TvmGraph:
    """A graph JSON. `types` are those of all entries, None in an uncompiled file; `attrs` the other graph attributes,
    each a [tag, payload] pair."""

    label: str = field(compare=False)
    nodes: tuple[Node, ...]
    arg_nodes: tuple[int, ...]
    heads: tuple[Entry, ...]
    row_ptr: tuple[int, ...]
    types: tuple[TensorType, ...] | None
    storage_id: tuple[int, ...] | None = None
    attrs: dict[str, Any] = field(default_factory=dict)

    @property
    def compiled(self) -> bool:
        """Return whether its nodes are calls of kernels, not operators."""
        return self.types is not None

    def type_of(self, entry: Entry) -> TensorType | None:
        """Type of an entry, None in an uncompiled file."""
        return None if self.types is None else self.types[self.row_ptr[entry.node] + entry.output]
