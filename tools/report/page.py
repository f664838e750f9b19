"""The report: one self-contained HTML file."""

from __future__ import annotations

import base64
import json
import zlib
from pathlib import Path
from typing import Any

from ...base.printable import printable
from ...driver.stages import Compilation
from ..explain import Explanation
from ..profile import KernelTime, Profile
from .charts import memory_chart, phase_chart, roofline_chart
from .facts import kernel_texts, node_facts, pass_facts
from .graph_picture import graph_picture, stylesheet
from .svg import escaped

COLUMNS = (
    *("node", "kernel", "problem", "layouts", "schedule", "time us", "share %"),
    *("GFLOP/s", "GB/s", "% of roof", "roof"),
)


def report_page(
    compilation: Compilation,
    profile: Profile,
) -> str:
    """The HTML text of a compiled and profiled model."""
    ctx = compilation.request.context
    explanation = Explanation(compilation.source, compilation.graph, compilation.lowered, ctx)
    passes = pass_facts(compilation, ctx)
    data = {
        "nodes": {printable(k): v for k, v in node_facts(explanation, profile).items()},
        "kernels": {name: _packed(texts) for name, texts in kernel_texts(compilation).items()},
        "passes": [_packed(stage["text"]) if stage["text"] else "" for stage in passes],
    }
    seconds = {k.node: k.seconds for k in profile.kernels}
    phases = list(compilation.phases.seconds.items())
    picture = f'<div class="scroll">{graph_picture(compilation.graph, seconds)}</div>'
    panel = '<div id="panel"><p>Click a node of the graph, a row, a point or a block.</p></div>'
    sections = [
        ("Graph", f'<div class="beside">{picture}{panel}</div>'),
        ("Kernels", _kernel_table(profile)),
        ("Roofline", roofline_chart(profile)),
        ("Memory", memory_chart(compilation.graph, profile.sizes)),
        ("Phases", phase_chart(phases)),
        ("Passes", _pass_table(passes)),
    ]
    title = escaped(f"{profile.model or 'model'}: graphc report")
    body = "".join(
        f'<section id="{name.lower()}"><h2>{name}</h2>{content}</section>'
        for name, content in sections
    )
    return (
        f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f"<style>{_asset('page.css')}{stylesheet()}</style></head><body><h1>{title}</h1>{_summary(profile)}"
        f'{body}<script type="application/json" id="data">{_json(data)}</script>'
        f"<script>{_asset('page.js')}</script></body></html>\n"
    )


def _summary(profile: Profile) -> str:
    gflop = sum(k.gflop for k in profile.kernels)
    texts = (
        f"{profile.roofline.cpu}, {profile.roofline.isa}, {profile.threads} threads",
        f"{profile.seconds * 1e6:.2f} us a run (median; {profile.runs} runs with time stamps), "
        f"{gflop / max(profile.seconds, 1e-12):.1f} GFLOP/s of {profile.roofline.gflops:.1f}",
        f"{profile.outside * 1e6:.2f} us outside kernels",
        f"time stamps cost {100 * profile.overhead:.2f} %",
        *(f"{name} = {number}" for name, number in profile.sizes.items()),
    )
    return f'<p class="summary">{escaped("; ".join(texts))}</p>'


def _kernel_table(profile: Profile) -> str:
    head = "".join(f'<th tabindex="0">{escaped(name)}</th>' for name in COLUMNS)
    rows = "".join(_kernel_row(k, profile.seconds) for k in profile.kernels)
    return f'<div class="scroll"><table id="table"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'


def _kernel_row(kernel: KernelTime, total: float) -> str:
    seconds = max(kernel.seconds, 1e-12)
    texts = [
        kernel.node, kernel.kernel, kernel.problem,
        "; ".join(kernel.layouts), kernel.schedule,
    ]  # fmt: skip
    numbers = [
        f"{kernel.seconds * 1e6:.2f}",
        f"{100 * kernel.seconds / max(total, 1e-12):.1f}",
        f"{kernel.gflop / seconds:.1f}",
        f"{kernel.nbytes / 1e9 / seconds:.1f}",
        f"{100 * kernel.of_roof:.0f}",
    ]
    cells = [f"<td>{escaped(text)}</td>" for text in texts]
    cells += [f'<td class="number">{text}</td>' for text in numbers]
    node = escaped(kernel.node)
    return (
        f'<tr class="node" data-node="{node}">{"".join(cells)}<td>{escaped(kernel.roof)}</td></tr>'
    )


def _pass_table(passes: list[dict[str, Any]]) -> str:
    rows = []
    for i, stage in enumerate(passes):
        link = f'<button data-pass="{i}">show</button>' if stage["text"] else ""
        removed, added = (escaped(", ".join(stage[key])) for key in ("removed", "added"))
        counts = (
            f'<td class="number">{stage["before"]}</td><td class="number">{stage["after"]}</td>'
        )
        name = f"{stage['number']} {escaped(stage['pass'])}"
        rows.append(
            f"<tr><td>{name}</td>{counts}<td>{link}</td>"
            f'<td class="long">{removed}</td><td class="long">{added}</td></tr>'
        )
    head = "<tr><th>pass</th><th>ops before</th><th>after</th><th>graph</th><th>removed</th><th>added</th></tr>"
    return (
        f'<div class="scroll"><table><thead>{head}</thead><tbody>{"".join(rows)}</tbody></table></div>'
        '<pre id="pass-text" hidden></pre>'
    )


def _packed(value: Any) -> str:
    """JSON, compressed, as base64: code is long and repetitive."""
    return base64.b64encode(zlib.compress(json.dumps(value).encode(), 9)).decode()


def _json(value: Any) -> str:
    """JSON that cannot close the script element it is in."""
    return json.dumps(value).replace("<", "\\u003c")


def _asset(name: str) -> str:
    return (Path(__file__).parent / name).read_text(encoding="utf-8")
