"""A whole module as an exported program, which computes what the module does for inference."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..base.errors import GraphcError, UnsupportedError
from ..frontend.torch.program import not_captured


def export(module: Any, args: Sequence[Any], kwargs: Mapping[str, Any], dynamic: Any) -> Any:
    """The ExportedProgram of a module for arguments like these. Raise UnsupportedError for what cannot be captured."""
    import torch

    if torch.is_autocast_enabled("cpu"):  # of which a program has the types, but not the casts
        raise UnsupportedError(
            "a module compiled under torch.autocast is not supported",
            "enter it inside of forward, or use torch.compile(model, backend='graphc')",
        )
    _know_caches(module)
    trained = [part for part in module.modules() if part.training]
    try:
        with torch.no_grad(), _arguments_stay(module):
            module.eval()
            return torch.export.export(module, tuple(args), dict(kwargs), dynamic_shapes=dynamic)
    except GraphcError:
        raise
    except Exception as error:
        raise not_captured(error) from error
    finally:
        for part in trained:
            part.training = True


def _know_caches(module: Any) -> None:
    """Have torch.export take apart the caches that models of transformers take and give."""
    parts = [part for part in module.modules() if type(part).__module__.startswith("transformers.")]
    if parts:
        with contextlib.suppress(ImportError):  # before version 5 there is none that takes all
            from transformers.exporters.exporter_dynamo import register_cache_pytrees_for_model

            for part in parts:
                if hasattr(part, "config"):
                    register_cache_pytrees_for_model(part)


@contextlib.contextmanager
def _arguments_stay(module: Any) -> Iterator[None]:
    """Raise UnsupportedError if a call replaces parts of its arguments, or changes numbers in them: a program has no
    such effects, only writes to tensors."""
    before: dict[Any, Any] = {}

    def remember(_: Any, args: Any, kwargs: Any) -> None:
        before.update(_parts(args, kwargs))

    def compare(_: Any, args: Any, kwargs: Any, __: Any) -> None:
        for name, (leaves, structure) in _parts(args, kwargs).items():
            old, known = before[name]
            if structure != known or any(a is not b for a, b in zip(leaves, old, strict=True)):
                what = f"a module that replaces parts of its argument {name!r}, or numbers in it,"
                raise UnsupportedError(
                    f"{what} is not supported",
                    "have it write to tensors (a StaticCache), or use torch.compile(model, backend='graphc')",
                )

    hooks = (
        module.register_forward_pre_hook(remember, with_kwargs=True),
        module.register_forward_hook(compare, with_kwargs=True),
    )
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _parts(args: Any, kwargs: Any) -> dict[Any, Any]:
    """The leaves and the structure of each argument, by position or name."""
    from torch.utils import _pytree as pytree

    return {name: pytree.tree_flatten(x) for name, x in (*enumerate(args), *kwargs.items())}
