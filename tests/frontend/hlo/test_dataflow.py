"""The data-flow graph of a module."""

from __future__ import annotations

import json

from graphc.frontend.hlo import parse_hlo, to_dfg
from support.hlo_text import ADD, module


def test_nodes_and_edges() -> None:
    text = module(
        "t = (f32[3], f32[]) parameter(0)\n"
        "ROOT r = f32[] reduce(t#0, t#1), dimensions={0}, to_apply=add_f32",
        ADD,
    )
    graph = to_dfg(parse_hlo(text))
    assert json.loads(json.dumps(graph)) == graph
    assert (graph["name"], graph["entry"]) == ("m", "e")
    assert [(n["id"], n["label"]) for n in graph["nodes"]] == [
        ("add_f32/a", "parameter"),
        ("add_f32/b", "parameter"),
        ("add_f32/r", "add"),
        ("e/t", "parameter"),
        ("e/r", "reduce"),
    ]
    assert graph["nodes"][3] == {
        "id": "e/t",
        "label": "parameter",
        "computation": "e",
        "shape": "(f32[3], f32[])",
        "is_root": False,
    }
    assert [(e["source"], e["target"], e["label"]) for e in graph["edges"]] == [
        ("add_f32/a", "add_f32/r", "0"),
        ("add_f32/b", "add_f32/r", "1"),
        ("e/t", "e/r", "0#0"),
        ("e/t", "e/r", "1#1"),
        ("add_f32/r", "e/r", "to_apply"),
    ]
    assert len({e["id"] for e in graph["edges"]}) == 5
