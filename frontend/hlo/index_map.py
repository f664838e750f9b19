"""Windows of an operand whose starts are given at run time: what gather reads and scatter writes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from ...base.dtypes import S64
from ...graph_ir.ir.graph import GraphTensor
from ..correspondence.compositions.indexing import positions
from .scope import Step


class IndexMap:
    """The start indices of windows. The arguments are the names of the attributes, which differ between gather
    and scatter.

    `kept` are the axes of the operand that windows have too, `mapped` those whose starts the indices hold, `batching`
    those that go along with an axis of the indices; `batch` are the sizes of the indices without their vectors.
    """

    def __init__(
        self,
        step: Step,
        x: GraphTensor,
        indices: GraphTensor,
        mapped: str,
        dropped: str,
        batching: str,
        index_batching: str,
    ) -> None:
        self.step = step
        self.dims = x.details.plain_dims
        rank = len(self.dims)
        self.mapped = step.axes(mapped, rank, ())
        self.batching = step.axes(batching, rank, ())
        sources = step.axes(index_batching, indices.details.rank, ())
        gone = {*step.axes(dropped, rank, ()), *self.batching}
        self.kept = [axis for axis in range(rank) if axis not in gone]
        vector: int = step.attribute("index_vector_dim")
        if not 0 <= vector <= indices.details.rank:
            raise step.rule(f"index_vector_dim must be in [0, {indices.details.rank}]", str(vector))
        sizes = indices.details.plain_dims
        self.batch = tuple(size for axis, size in enumerate(sizes) if axis != vector)
        self.entries = sizes[vector] if vector < len(sizes) else 1
        if len(self.mapped) != self.entries:
            raise step.rule(
                f"{mapped} must name an axis for each of the {self.entries} indices in a vector of "
                f"{step.shown(indices)}",
                str(len(self.mapped)),
            )
        if len(self.batching) != len(sources) or vector in sources:
            raise step.fail(f"{batching} and {index_batching} must be as many, without the vectors")
        self._sources = [axis - (axis > vector) for axis in sources]
        self._rows = self._vectors_last(indices, vector)

    def _vectors_last(self, indices: GraphTensor, vector: int) -> GraphTensor:
        indices = self.step.converted(indices, S64)
        if vector == indices.details.rank:
            return self.step.reshaped(indices, (*self.batch, 1))
        others = [axis for axis in range(indices.details.rank) if axis != vector]
        return self.step.transposed(indices, [*others, vector])

    def starts(self) -> Iterator[tuple[int, GraphTensor]]:
        """(axis of the operand, start for each of the batch) of mapped and batching axes; others start at 0."""
        step, rank = self.step, len(self.batch)
        for number, axis in enumerate(self.mapped):
            yield axis, step.reshaped(step.sliced(self._rows, rank, number, 1), self.batch)
        for axis, source in zip(self.batching, self._sources, strict=True):
            yield axis, positions(step, self.batch[source], source, rank)

    def added(self, position: GraphTensor | None, start: GraphTensor, axis: int) -> GraphTensor:
        """The flat index `position` with that of an index on an axis added."""
        stride = math.prod(self.dims[axis + 1 :])
        step = self.step
        offset = step.make("mul", start, step.constant(stride)) if stride != 1 else start
        return offset if position is None else step.make("add", position, offset)

    def spread(self, position: GraphTensor | None, window: Mapping[int, int]) -> GraphTensor:
        """[batch.., window..]: the flat index of each element of windows of these sizes by axis."""
        count = len(self.batch)
        start = self.step.constant(0) if position is None else position
        shape = start.details.plain_dims or (1,) * count
        result = self.step.reshaped(start, (*shape, *(1 for _ in window)))
        for number, (axis, size) in enumerate(window.items()):
            offset = positions(self.step, size, count + number, count + len(window))
            result = self.added(result, offset, axis)
        return result
