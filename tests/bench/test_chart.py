"""The bar chart: a bar for every time, in proportion, with the facts below."""

from __future__ import annotations

from xml.etree import ElementTree

from graphc.bench.chart import bar_chart
from graphc.bench.records import Column, Record

NAMESPACE = "{http://www.w3.org/2000/svg}"


def test_bars_are_in_proportion_to_speed() -> None:
    columns = [Column("module"), Column("slow, ms"), Column("other, ms"), Column("graphc, ms")]
    rows = [["a <b>", 8.0, 4.0, 2.0], ["c", 6.0, None, 1.0]]
    record = Record("torch", "T", "2026-01-02", "a CPU", {"x": "1"}, "graphc", columns, rows)
    root = ElementTree.fromstring(bar_chart(record, "A & B", "slow, ms", {"other, ms": "peer"}))
    texts = [node.text for node in root.iter(f"{NAMESPACE}text")]
    assert texts == [
        "A & B", "graphc", "peer", "a <b>", "4.0x", "2.0x", "c", "6.0x", "a CPU; 2026-01-02; x 1",
    ]  # fmt: skip
    widths = [float(node.attrib["width"]) for node in root.iter(f"{NAMESPACE}rect")][2:]
    assert [round(width / widths[1], 2) for width in widths] == [2.0, 1.0, 3.0]
