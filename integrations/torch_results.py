"""Results of a whole module: tensors in PyTorch's memory, numbers, and new values of the tensors it writes to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..base.dims import Dim, evaluate
from ..base.errors import UnsupportedError, UserError
from ..base.size_queries import solved
from ..frontend.torch.sizes import Sizes
from ..graph_ir.ir.graph import Graph, Op
from .torch_layouts import layouts_of, move_to_memory
from .torch_overlap import overlap
from .torch_views import taken_by, views_of_inputs, written_by


class Results:
    """The results of an ExportedProgram, from those that native code computes and from the tensors that it takes.

    Those are its inputs that are tensors, then the buffers that it changes; `names` has them in this order.
    """

    def __init__(self, program: Any) -> None:
        sizes, taken = Sizes(ranges=program.range_constraints), taken_by(program)
        self.names = tuple(taken)
        self._open = _dynamic_axes(taken, sizes)
        specs = program.graph_signature.output_specs
        users = [i for i, spec in enumerate(specs) if spec.kind.name == "USER_OUTPUT"]
        (output,) = program.graph.find_nodes(op="output")
        nodes = output.args[0]
        self._users = tuple((i, _known(specs[i].arg, nodes[i], sizes)) for i in users)
        self._written = tuple(
            (i, self.names.index(name)) for i, name in written_by(program).items()
        )
        self._views = views_of_inputs(program)
        placed = {*self._views.results, *(i for i, _ in self._written)}
        self._memories = layouts_of(program, sizes, placed)
        follow = {i for memory in self._memories for i in memory.following}
        later = {*self._views.results, *follow}
        # Native code gives those of users first, as `load_graph` does.
        self._tensors = [i for i, known in self._users if known is None]
        self._tensors += [i for i, _ in self._written]
        found = [i for i in self._tensors if i not in later]
        self._computed = found or self._tensors[:1]  # native code has a result
        self._count = len(specs)

    def made_later(self, graph: Graph) -> list[Op]:
        """The outputs of the program's graph that nobody needs, as they are views of others or of what is taken."""
        pairs = zip(self._tensors, graph.outputs, strict=False)  # there may be counts behind
        return [op for i, op in pairs if i not in self._computed]

    def of(self, found: Sequence[Any], taken: Sequence[Any]) -> list[Any]:
        """Return the user's results, given those of native code, after writing to the tensors that the
        module changes."""
        results: list[Any] = [None] * self._count
        for i, tensor in zip(self._computed, found, strict=True):
            results[i] = tensor
        values = self._sizes_of(taken)
        move_to_memory(results, self._memories, values)
        for i, target in self._written:
            taken[target].copy_(results[i])
        for i, view in zip(self._views.results, self._views.of(*taken), strict=True):
            results[i] = view
        return [
            results[i] if known is None else _evaluated(known[0], values)
            for i, known in self._users
        ]

    def check(self, taken: Sequence[Any]) -> None:
        """Raise UserError if something that is written to shares memory with another: each is computed by itself."""
        for _, target in self._written:
            for other, tensor in enumerate(taken):
                if other != target and overlap(tensor, taken[target]):
                    name, names = self.names[target], self.names
                    raise UserError(
                        f"'{name}', which the module writes to, shares memory with '{names[other]}'; "
                        "pass a copy of one of them"
                    )

    def _sizes_of(self, taken: Sequence[Any]) -> dict[str, int]:
        """The values of dynamic dimensions, by name."""
        found = (solved(size, taken[i].shape[axis]) for i, axis, size in self._open)
        return {symbol.name: value for symbol, value in filter(None, found)}


def _dynamic_axes(taken: Mapping[str, Any], sizes: Sizes) -> list[tuple[int, int, Dim]]:
    """Positions of tensors, and axes of theirs whose sizes are dynamic, with what they are."""
    return [
        (i, axis, size)
        for i, node in enumerate(taken.values())
        for axis, dim in enumerate(node.meta["val"].shape)
        if isinstance(size := sizes.of(dim), Dim)
    ]


def _known(argument: Any, node: Any, sizes: Sizes) -> tuple[Any] | None:
    """Return the value of a result that is a number or a dynamic dimension; raise UnsupportedError if data decide
    it."""
    if type(argument).__name__ == "ConstantArgument":
        return (argument.value,)
    if type(argument).__name__ != "SymIntArgument":
        return None
    size = node if isinstance(node, int) else sizes.of(node.meta["val"])
    if size is None:
        what = f"'{argument.name}', a number that depends on the data, as a result is not supported"
        raise UnsupportedError(what, "return it as a tensor")
    return (size,)


def _evaluated(value: Any, sizes: Mapping[str, int]) -> Any:
    return evaluate(value, sizes) if isinstance(value, Dim) else value
