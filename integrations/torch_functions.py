"""`graphc.torch`: PyTorch's modules compiled by graphc. Needs the package torch.

    model = torch.compile(model, backend="graphc")        # under torch.no_grad()
    print(graphc.torch.explain(model, x))                 # what graphc compiles and what PyTorch runs itself
    model = graphc.torch.compile(model, x)                # the whole module, for inputs like x

The module is not named `graphc.torch`, as a file torch.py in the root of a checkout would shadow torch itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..base.errors import UserError
from ..base.records import dataclass
from .torch_backend import backend
from .torch_capture import export
from .torch_pieces import Pieces, Refusal

if TYPE_CHECKING:
    from .torch_module import CompiledModule

__all__ = ["CompiledModule", "Explanation", "backend", "compile", "explain"]


def __getattr__(name: str) -> Any:
    """The class of what `compile` gives, one of torch's own."""
    if name != "CompiledModule":
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    import_torch()
    from .torch_module import CompiledModule

    return CompiledModule


def compile(
    module: Any,
    *args: Any,
    kwargs: Mapping[str, Any] | None = None,
    dynamic: Any = None,
    **options: Any,
) -> CompiledModule:
    """Compile a whole module or function for inference. Unlike with `torch.compile`, nothing runs in PyTorch.

    Args:
        module: A `torch.nn.Module` or a function of tensors.
        *args: Example tensors, with the dtypes and shapes of later calls.
        kwargs: The same, by keyword.
        dynamic: Dynamic dimensions, as `dynamic_shapes` of `torch.export`: `{"x": {0: Dim("rows", max=512)}}`. True
            keeps all dimensions dynamic that `torch.export` can keep.
        **options: Arguments of `graphc.compile`; and `decompositions`, a function for each unsupported operator that
            computes it from supported ones.

    Returns:
        A module that takes and returns tensors, and can be pickled.

    Raises:
        UnsupportedError: Lists every unsupported operator, with its line in the source of the model.
    """
    torch = import_torch()
    from .torch_module import CompiledModule

    given = dict(kwargs or {})
    if not isinstance(module, torch.nn.Module):
        module = _as_module(torch, module)
    if dynamic is True:
        dynamic = _all_sizes(torch, (args, given))
    program = export(module, args, given, dynamic)
    return CompiledModule(program, options)


def _all_sizes(torch: Any, arguments: Any) -> Any:
    """`dynamic_shapes` that let all sizes of tensors be open that can be."""
    found = torch.export.ShapesCollection()
    for leaf in torch.utils._pytree.tree_leaves(arguments):
        if isinstance(leaf, torch.Tensor):
            found[leaf] = dict.fromkeys(range(leaf.dim()), torch.export.Dim.AUTO)
    return found


def _as_module(torch: Any, function: Any) -> Any:
    """A module that calls a function. Raise UserError for what cannot be called."""
    if not callable(function):
        raise UserError(
            f"graphc.torch.compile takes a module or a function, got {type(function).__name__}"
        )
    module = torch.nn.Module()
    module.forward = function
    return module


@dataclass(frozen=True)
class Explanation:
    """The partition of a model: the graphs that Dynamo captures of it, and the calls in them that PyTorch
    runs itself."""

    graphs: tuple[Pieces, ...]

    @property
    def refused(self) -> tuple[Refusal, ...]:
        """All calls that graphc does not compile."""
        return tuple(refusal for graph in self.graphs for refusal in graph.refused)

    def __str__(self) -> str:
        ops, left = sum(graph.ops for graph in self.graphs), len(self.refused)
        title = f"{len(self.graphs)} graph{'s' * (len(self.graphs) != 1)}, {ops} of {ops + left} calls compiled"
        return "\n".join([title, *(f"  {text}" for text in dict.fromkeys(map(str, self.refused)))])


def explain(model: Any, *args: Any, **kwargs: Any) -> Explanation:
    """Compile and run a module or function once, without gradients, and report which calls graphc compiles."""
    torch = import_torch()
    report: list[Pieces] = []
    torch._dynamo.reset()
    compiled = torch.compile(model, backend=backend, options={"report": report})
    with torch.no_grad():
        compiled(*args, **kwargs)
    torch._dynamo.reset()
    return Explanation(tuple(report))


def import_torch() -> Any:
    """The package torch, with graphc among Dynamo's backends. Raise UserError if it is missing."""
    try:
        import torch
        import torch._dynamo
    except ImportError as error:
        raise UserError(
            f"graphc.torch needs the package torch, which is missing here ({error}); pip install torch"
        ) from error
    return torch
