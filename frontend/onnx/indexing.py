"""Nodes that look elements up by index, and running sums: GatherElements, ScatterElements, TopK, CumSum."""

from __future__ import annotations

from .scope import Handler, NodeContext, Value


def _gather_elements(node: NodeContext) -> Value:
    x = node.tensor(0)
    axis = node.axis(node.attr_int("axis", 0), x.details.rank)
    return node.make("gather_elements", [x, node.tensor(1)], {"axis": axis})


def _scatter_elements(node: NodeContext) -> Value:
    data = node.tensor(0)
    axis = node.axis(node.attr_int("axis", 0), data.details.rank)
    reduction = node.attr_text("reduction", "none")
    attrs = {"axis": axis, "reduction": reduction}
    return node.make("scatter_elements", [data, node.tensor(1), node.tensor(2)], attrs)


def _top_k(node: NodeContext) -> list[Value]:
    x = node.tensor(0)
    given = node.ints(1, "k") if node.opset >= 10 else (node.attr_int("k"),)
    if len(given) != 1:
        raise node.rule("k must be one integer", str(list(given)))
    attrs = {
        "k": given[0],
        "axis": node.axis(node.attr_int("axis", -1), x.details.rank),
        "largest": bool(node.attr_int("largest", 1)),
    }
    return list(node.scope.graph.make("top_k", [x], attrs, node.name).outputs)


def _cum_sum(node: NodeContext) -> Value:
    x = node.tensor(0)
    given = node.ints(1, "an axis")
    if len(given) != 1:
        raise node.rule("the axis must be one integer", str(list(given)))
    attrs = {
        "axis": node.axis(given[0], x.details.rank),
        "exclusive": bool(node.attr_int("exclusive", 0)),
        "reverse": bool(node.attr_int("reverse", 0)),
    }
    return node.make("cum_sum", [x], attrs)


HANDLERS: dict[str, Handler] = {
    "GatherElements": _gather_elements,
    "ScatterElements": _scatter_elements,
    "Scatter": _scatter_elements,
    "TopK": _top_k,
    "CumSum": _cum_sum,
}
