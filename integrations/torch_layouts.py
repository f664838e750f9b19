"""Results in the memory that PyTorch's own operators would give them: their strides, and views of one another."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ..base.dims import Size, evaluate
from ..base.errors import UnsupportedError
from ..base.records import dataclass
from ..frontend.torch.sizes import Sizes


@dataclass(frozen=True)
class Layout:
    """Where the elements of a result lie: strides and offset are in elements.

    Results of one `memory`, of so many elements, are views of it: a write to one is seen in the others.
    """

    result: int
    strides: tuple[Size, ...]
    offset: int = 0
    memory: int | None = None
    elements: int = 0


def layouts_of(module: Any) -> list[Layout]:
    """Of the results of a graph with examples that are not by themselves, in the usual order."""
    examples = dict(_examples(module))
    shared = {i for group in _overlapping(examples) for i in group}
    alone = [
        Layout(i, x.stride())
        for i, x in examples.items()
        if i not in shared and not x.is_contiguous()
    ]
    return [*alone, *_shared(examples)]


def open_layouts(module: Any, sizes: Sizes) -> list[Layout]:
    """Of all results, as expressions. UnsupportedError where a stride is none, and where results share memory."""
    layouts, memories = [], set[int]()
    for i, example in _examples(module):
        if (memory := _memory(example)) in memories:
            raise UnsupportedError(f"result {i} is a view of another", "return a copy of it")
        memories.add(memory)
        strides = [sizes.of(step) for step in example.stride()]
        known = tuple(step for step in strides if step is not None)
        if len(known) != len(strides):
            what = f"result {i} has strides that are no expressions of sizes"
            raise UnsupportedError(what, "return it contiguous")
        layouts.append(Layout(i, known))
    return layouts


def place(results: list[Any], layouts: Iterable[Layout], values: Mapping[str, int]) -> None:
    """Move results to where they belong, if they are not there; `values` are those of open sizes."""
    memories: dict[int, Any] = {}
    for layout in layouts:
        x = results[layout.result]
        strides = tuple(evaluate(step, values) for step in layout.strides)
        if layout.memory is not None:
            if layout.memory not in memories:
                memories[layout.memory] = x.new_empty(layout.elements)
            target = memories[layout.memory].as_strided(x.shape, strides, layout.offset)
        elif x.stride() != strides:
            target = x.new_empty_strided(x.shape, strides)
        else:
            continue
        _fill(target, x)
        results[layout.result] = target


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


def _memory(example: Any) -> int:
    return int(example.untyped_storage()._cdata)


def _shared(examples: Mapping[int, Any]) -> Iterator[Layout]:
    for group in _overlapping(examples):
        first = min(examples[i].storage_offset() for i in group)
        elements = max(_end(examples[i]) for i in group) - first
        for i in group:
            x = examples[i]
            yield Layout(i, x.stride(), x.storage_offset() - first, group[0], elements)


def _overlapping(examples: Mapping[int, Any]) -> list[list[int]]:
    """Groups of two and more results of one type that reach into one another's range of one memory."""
    groups: list[list[int]] = []
    memory, end = None, 0
    for i in sorted(examples, key=lambda i: (*_place(examples[i]), i)):
        x = examples[i]
        *mine, start = _place(x)
        if mine == memory and start < end:
            groups[-1].append(i)
        else:
            groups.append([i])
            memory, end = mine, 0
        end = max(end, _end(x))
    return [group for group in groups if len(group) > 1]


def _place(example: Any) -> Sequence[Any]:
    return _memory(example), str(example.dtype), example.storage_offset()


def _end(example: Any) -> int:
    """Behind the last element."""
    steps = zip(example.shape, example.stride(), strict=True)
    last = sum((size - 1) * step for size, step in steps)
    return int(example.storage_offset() + last + 1 if example.numel() else example.storage_offset())
