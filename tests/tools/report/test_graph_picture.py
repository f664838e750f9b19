"""The drawing of a graph as a separate file."""

from __future__ import annotations

from xml.etree import ElementTree

from graphc.tools.report.graph_picture import standalone_picture
from support.networks import attention

SVG = "{http://www.w3.org/2000/svg}"


def test_a_whole_picture_with_its_own_style() -> None:
    graph = attention()
    root = ElementTree.fromstring(standalone_picture(graph))
    assert root.tag == f"{SVG}svg" and "stroke" in (root.findtext(f"{SVG}style") or "")
    drawn = {node.get("data-node") for node in root.iter(f"{SVG}g")} - {None}
    assert drawn == {op.name for op in graph.ops if op.op_name != "constant"}
    texts = " ".join(node.text or "" for node in root.iter(f"{SVG}text"))
    assert "f32 16x16 AB  wq" in texts and "us" not in texts.split()
