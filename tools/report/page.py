"""The report: one self-contained HTML file."""

from __future__ import annotations

import base64
import json
import zlib
from pathlib import Path
from typing import Any

from ...base.printable import printable
from ...base.svg import escaped
from ...driver.stages import Compilation
from ..explain import Explanation
from ..profile import Profile
from ..profile_summary import profile_facts
from .charts import memory_chart, phase_chart, roofline_chart
from .facts import kernel_texts, node_facts, pass_facts
from .graph_picture import graph_picture, stylesheet
from .sections import kernel_table, pass_table, summary

HINT = "Click a row, a node of the graph, a point or a block to see what it computes, why, and its code."


def report_facts(compilation: Compilation, profile: Profile) -> dict[str, Any]:
    """Return what the report shows, as plain values: the profile, and the nodes, kernels, passes and phases."""
    explanation = Explanation.of(compilation)
    return {
        "profile": profile_facts(profile),
        "nodes": {printable(k): v for k, v in node_facts(explanation, profile).items()},
        "kernels": kernel_texts(compilation),
        "passes": pass_facts(compilation, explanation.ctx),
        "phases": dict(compilation.phases.seconds),
    }


def report_page(compilation: Compilation, profile: Profile) -> str:
    """Return the HTML text of a compiled and profiled model."""
    facts = report_facts(compilation, profile)
    passes = facts["passes"]
    data = {
        "profile": facts["profile"],
        "nodes": facts["nodes"],
        "kernels": {name: _packed(texts) for name, texts in facts["kernels"].items()},
        "passes": [_packed(stage["text"]) if stage["text"] else "" for stage in passes],
    }
    seconds = {k.node: k.seconds for k in profile.kernels}
    phases = list(facts["phases"].items())
    picture = f'<div class="scroll">{graph_picture(compilation.graph, seconds)}</div>'
    sections = [
        ("Kernels", kernel_table(profile)),
        ("Graph", picture),
        ("Roofline", roofline_chart(profile)),
        ("Memory", memory_chart(compilation.graph, profile.sizes)),
        ("Phases", phase_chart(phases)),
        ("Passes", pass_table(passes)),
    ]
    title = escaped(profile.model or "model")
    body = "".join(
        f'<section id="{name.lower()}"><h2>{name}</h2>{content}</section>'
        for name, content in sections
    )
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}: graphc report</title><style>{stylesheet()}{_asset('page.css')}</style></head><body>"
        f'<header><h1>{title}</h1><button id="theme" title="light, dark or as the system has it"></button></header>'
        f'{summary(profile)}<div class="columns"><main>{body}</main>'
        f'<aside id="panel"><p class="soft">{HINT}</p></aside></div>'
        f'<script type="application/json" id="data">{_json(data)}</script>'
        f"<script>{_asset('page.js')}</script></body></html>\n"
    )


def _packed(value: Any) -> str:
    """JSON, compressed, as base64: code is long and repetitive."""
    return base64.b64encode(zlib.compress(json.dumps(value).encode(), 9)).decode()


def _json(value: Any) -> str:
    """JSON that cannot close the script element it is in."""
    return json.dumps(value).replace("<", "\\u003c")


def _asset(name: str) -> str:
    return (Path(__file__).parent / name).read_text(encoding="utf-8")
