"""`options={"frozen": True}`: modules that do not change any more, at which calls do not look.

Dynamo walks through all modules before each call to check its guards, and through them again to fetch parameters. Where
the weights of a network have driven these objects out of the CPU's caches, this takes up to a millisecond.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any


def freeze(module: Any, positions: Sequence[int], examples: Sequence[Any]) -> list[int]:
    """Make parameters attributes of a graph that Dynamo has just captured, so that it fetches them no more.

    Its guards on the modules that have them become one per outermost module: that it is the same object. `positions`
    are those of parameters; what remains is returned: the positions of arguments in calls from now on.
    """
    from torch._dynamo.guards import GuardBuilder
    from torch._guards import TracingContext

    guards = TracingContext.get().guards_context.dynamo_guards
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    owners = {i: _outermost_module(placeholders[i].meta["grapharg"].source) for i in positions}
    for owner in {owner for owner in owners.values() if owner is not None}:
        guards.remove_guards_with_source(owner)
        guards.add(owner.make_guard(GuardBuilder.ID_MATCH))
    for i, owner in owners.items():
        if owner is not None:
            _make_attribute(module, placeholders[i], examples[i])
    return [i for i in range(len(placeholders)) if owners.get(i) is None]


def with_gaps(
    call: Callable[[Sequence[Any]], list[Any]], count: int, positions: Sequence[int]
) -> Callable[..., list[Any]]:
    """A function of the arguments at some positions, for one of a list of `count` that reads no others."""

    def run(*args: Any) -> list[Any]:
        given: list[Any] = [None] * count
        for i, x in zip(positions, args, strict=True):
            given[i] = x
        return call(given)

    return run


def _outermost_module(source: Any) -> Any:
    """Return the source by which Dynamo finds the module that owns the parameter `source`, or None."""
    from torch._dynamo.source import NNModuleSource

    found = None
    while source is not None:
        if isinstance(source, NNModuleSource):
            found = source.base
        source = getattr(source, "base", None)
    return found


def _make_attribute(module: Any, node: Any, value: Any) -> None:
    """Replace an input of a graph by an attribute."""
    name = f"{node.name}_frozen"
    setattr(module, name, value)
    with module.graph.inserting_before(node):
        attribute = module.graph.get_attr(name)
    node.replace_all_uses_with(attribute)
    module.graph.erase_node(node)
