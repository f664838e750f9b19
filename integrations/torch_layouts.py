"""Results in the memory that PyTorch's own operators would give them: their strides, and views of one another."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from math import prod
from typing import Any

from ..base.dims import Dim, Size, evaluate
from ..base.errors import UnsupportedError
from ..base.records import dataclass
from ..base.size_queries import solved
from ..frontend.torch.sizes import Sizes


@dataclass(frozen=True)
class Layout:
    """The strides and the offset of a result, in elements."""

    result: int
    shape: tuple[Size, ...]
    strides: tuple[Size, ...]
    offset: Size = 0

    def at(self, values: Mapping[str, int]) -> Layout:
        """The same with numbers for dynamic dimensions."""
        shape, strides = (
            tuple([evaluate(size, values) for size in sizes])
            for sizes in (self.shape, self.strides)
        )
        return Layout(self.result, shape, strides, evaluate(self.offset, values))


@dataclass(frozen=True)
class Memory:
    """Results that are views of one memory: a write to one is seen in the others.

    `whole`: the one among them that is all of it, in the usual order. The others follow from it: nobody computes them.
    """

    views: tuple[Layout, ...]
    whole: int | None = None

    @property
    def following(self) -> Iterator[int]:
        """The results that follow from another."""
        return (x.result for x in self.views if self.whole not in (None, x.result))


def layouts_of(
    module: Any, sizes: Sizes | None = None, without: Collection[int] = ()
) -> tuple[Memory, ...]:
    """Return the layouts of the results of a graph with examples that alias memory or have unusual strides, except
    those at positions in `without`. Raise UnsupportedError if a stride is not an expression of dynamic `sizes`."""
    sizes = sizes or Sizes()
    shared: dict[Any, list[tuple[int, Any]]] = {}
    for i, x in _examples(module):
        if i not in without and (memory := memory_of(x)) is not None:
            shared.setdefault((memory, str(x.dtype)), []).append((i, x))
    groups = [group for same in shared.values() for group in _overlapping(same)]
    return tuple(
        _shared(group, sizes) for group in groups if len(group) > 1 or not _is_dense(group[0][1])
    )


def move_to_memory(
    results: list[Any], memories: Iterable[Memory], values: Mapping[str, int]
) -> None:
    """Move results to where they belong, if they are not there; `values` are those of dynamic dimensions.

    Dimensions that the run has counted are those of the results.
    """
    for memory in memories:
        counted = {
            found[0].name: found[1]
            for view in memory.views
            if results[view.result] is not None
            for dim, number in zip(view.shape, results[view.result].shape, strict=True)
            if isinstance(dim, Dim) and (found := solved(dim, number))
        }
        views = [view.at({**counted, **values}) for view in memory.views]
        if len(views) == 1 and results[views[0].result].stride() == views[0].strides:
            continue
        first = min(evaluate(view.offset, {}) for view in views)
        if memory.whole is not None:
            base = results[memory.whole]
        else:
            end = max(_end(view.shape, view.strides, view.offset) for view in views)
            base = results[views[0].result].new_empty(end - first)
        for view in views:
            if view.result == memory.whole:
                continue
            begin = base.storage_offset() + view.offset - first
            target = base.as_strided(view.shape, view.strides, begin)
            if memory.whole is None:
                _fill(target, results[view.result])
            results[view.result] = target


def _fill(target: Any, x: Any) -> None:
    """Copy `x`: elements along a stride of zero are one, which PyTorch writes only by itself."""
    for axis, step in enumerate(target.stride()):
        if step == 0 and target.shape[axis] > 1:
            target, x = target.narrow(axis, 0, 1), x.narrow(axis, 0, 1)
    target.copy_(x)


def _examples(module: Any) -> Iterator[tuple[int, Any]]:
    """The tensors among the results, by position."""
    (output,) = [node for node in module.graph.nodes if node.op == "output"]
    for i, node in enumerate(output.args[0]):
        example = getattr(node, "meta", {}).get("val")
        if hasattr(example, "stride"):
            yield i, example


def memory_of(example: Any) -> int | None:
    """Return an identifier of the memory of a tensor; None for one without storage, such as a sparse tensor."""
    import torch

    return int(example.untyped_storage()._cdata) if example.layout is torch.strided else None


def _layout(i: int, x: Any, sizes: Sizes) -> Layout:
    def known(values: Iterable[Any]) -> tuple[Size, ...]:
        found = [sizes.of(value) for value in values]
        if any(value is None for value in found):
            what = f"result {i} has strides that are not expressions of sizes"
            raise UnsupportedError(what, "return it contiguous")
        return tuple(value for value in found if value is not None)

    return Layout(i, known(x.shape), known(x.stride()), *known([x.storage_offset()]))


def _is_dense(example: Any) -> bool:
    """Return whether the elements are known to be in the usual order, without gaps."""
    from torch.fx.experimental.symbolic_shapes import statically_known_true

    step: Any = 1
    for size, stride in zip(reversed(example.shape), reversed(example.stride()), strict=True):
        if not statically_known_true(size == 1) and not statically_known_true(stride == step):
            return False
        step = step * size
    return True


def _shared(group: Sequence[tuple[int, Any]], sizes: Sizes) -> Memory:
    """Return the memory that example results share: all of it if they have dynamic dimensions of unknown range."""
    views = tuple(_layout(i, x, sizes) for i, x in group)
    if _are_known(x for _, x in group):
        first = min(evaluate(view.offset, {}) for view in views)
        count: Size | None = (
            max(_end(x.shape, x.stride(), x.storage_offset()) for _, x in group) - first
        )
    else:
        _, x = group[0]
        first, stored = 0, sizes.of(x.untyped_storage().nbytes())
        count = None if stored is None else stored // x.element_size()
    whole = (
        view.result
        for view, (_, x) in zip(views, group, strict=True)
        if _is_dense(x) and (view.offset, prod(view.shape)) == (first, count)
    )
    return Memory(views, next(whole, None))


def _are_known(examples: Iterable[Any]) -> bool:
    numbers = (n for x in examples for n in (*x.shape, *x.stride(), x.storage_offset()))
    return all(type(number) is int for number in numbers)


def _overlapping(same: list[tuple[int, Any]]) -> list[list[tuple[int, Any]]]:
    """Groups of results, of one type and memory, that reach into one another's range; all of them where sizes
    are open."""
    if not _are_known(x for _, x in same):
        return [same]
    groups: list[list[tuple[int, Any]]] = []
    end = 0
    for i, x in sorted(same, key=lambda pair: (pair[1].storage_offset(), pair[0])):
        if groups and x.storage_offset() < end:
            groups[-1].append((i, x))
        else:
            groups.append([(i, x)])
            end = 0
        end = max(end, _end(x.shape, x.stride(), x.storage_offset()))
    return groups


def _end(shape: Sequence[Any], strides: Sequence[Any], offset: Any) -> int:
    """Behind the last element."""
    if 0 in shape:
        return int(offset)
    steps = zip(shape, strides, strict=True)
    return int(offset + 1 + sum((size - 1) * step for size, step in steps))
