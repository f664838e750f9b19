"""The report: all parts are there, it needs no network, and in a real browser it answers clicks."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from graphc.base.dtypes import F32
from graphc.base.durations import shown_time
from graphc.base.options import CompileOptions
from graphc.bench.networks.resnet import resnet18
from graphc.bench.roofline import Level, Roofline
from graphc.cli import main
from graphc.cli.run_inputs import input_arrays
from graphc.driver.compiler import compile_stages
from graphc.graph_ir.ir.graph import Graph
from graphc.graph_ir.ir.logical_tensor import LogicalTensor
from graphc.tools.profile import profile
from graphc.tools.profile_summary import headline, profile_facts
from graphc.tools.report.page import report_page
from support.browser import seen_in_browser
from support.process import ROOT
from support.roofs import plant_roofs

ROOFS = Roofline("a CPU", "avx2", 1, 100.0, (Level("L1", 1 << 15, 200.0), Level("DRAM", 0, 10.0)))


def odd_model() -> Graph:
    """Names that mean something to HTML, a branch, a constant and a view."""
    graph = Graph("</script><b>")
    x = graph.make_input(LogicalTensor(F32, (16, 24)), "x<&\"'>")
    w = graph.make_constant(np.ones((24, 8), np.float32), "w</script>")
    y = graph.make("matmul_core", (x, w), name="<fc>").outputs[0]
    z = graph.make("exp", (x,), name="é").outputs[0]
    flat = graph.make("reshape", (y,), {"shape": (128,)}, "flat").outputs[0]
    graph.make_output(flat, "out")
    graph.make_output(z, "z")
    return graph


def page_of(model: object) -> str:
    compilation = compile_stages(model, options=CompileOptions(1))
    arrays = input_arrays(compilation.artifact.metadata.inputs, {})
    return report_page(compilation, profile(compilation, arrays, ROOFS, seconds=0.02))


@pytest.fixture(scope="module")
def mlp() -> str:
    return page_of(str(ROOT / "examples" / "mlp.onnx"))


def data_of(page: str) -> dict:  # type: ignore[type-arg]
    (text,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    found = json.loads(text)
    assert isinstance(found, dict)
    return found


def test_every_node_pass_and_kernel_is_in(mlp: str) -> None:
    data = data_of(mlp)
    assert list(data["nodes"]) == ["x", "relu1.fused", "relu2.fused", "relu3.fused", "y"]
    node = data["nodes"]["relu2.fused"]
    assert ["from", "fc2, fc2.add, relu2"] in node["rows"]
    assert any("fused" in line and "relu2.fused" in line for line in node["decisions"])
    assert any(line.startswith("* matmul m32n256k512 f32: ") for line in node["candidates"])
    assert any("arena[" in line for line in node["candidates"])
    assert set(data["kernels"]) == {n["kernel"] for n in data["nodes"].values() if n["kernel"]}
    changed = sum(map(bool, data["passes"]))
    assert mlp.count("data-pass=") == changed > 5 and data["passes"][0]
    assert f"{len(data['passes']) - changed} passes changed nothing</summary>" in mlp


def test_pictures_are_well_formed_and_hold_layouts_and_times(mlp: str) -> None:
    pictures = [ElementTree.fromstring(text) for text in re.findall(r"<svg.*?</svg>", mlp, re.S)]
    kinds = [picture.get("class") for picture in pictures]
    assert kinds == ["graph", "chart roofline", "chart memory", "chart phases"]
    graph, roofs, memory, _ = ("".join(picture.itertext()) for picture in pictures)
    assert "f32 32x512 AB" in graph and re.search(r"\d [um]s", graph)
    assert re.search(r"f32 256x512 NK\d+n@NK", graph)  # panels as wide as a tile of this ISA
    assert "L1 200 GB/s" in roofs and "FLOP / byte" in roofs
    assert "relu1.fused: arena[0:65536]" in memory


def test_the_page_has_the_facts_of_the_profile_as_json() -> None:
    compilation = compile_stages(str(ROOT / "examples" / "mlp.onnx"), options=CompileOptions(1))
    arrays = input_arrays(compilation.artifact.metadata.inputs, {})
    found = profile(compilation, arrays, ROOFS, seconds=0.02)
    page = report_page(compilation, found)
    assert data_of(page)["profile"] == json.loads(json.dumps(profile_facts(found)))
    whole = headline(found)
    for text in (shown_time(whole.seconds), f"{whole.gflops:.1f}", f"{100 * whole.of_roof:.0f} %"):
        assert f"<strong>{text}</strong>" in page
    assert page.count('<tr class="node"') == len(found.kernels)


def test_the_command_prints_the_facts_of_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plant_roofs(monkeypatch, tmp_path)
    monkeypatch.chdir(tmp_path)
    model = str(ROOT / "examples" / "mlp.onnx")
    assert main(["profile", model, "--json", "--html", "r.html", "--seconds", "0.02"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert list(facts["nodes"]) == ["x", "relu1.fused", "relu2.fused", "relu3.fused", "y"]
    kernels = {kernel["kernel"] for kernel in facts["profile"]["kernels"]}
    assert kernels == facts["kernels"].keys() and facts["passes"][0]["pass"] == "read"
    assert Path("r.html").exists()


def test_nothing_is_needed_of_the_network(mlp: str) -> None:
    without_namespace = mlp.replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"https?:|//cdn|\bsrc=|\bhref=|url\(|@import", without_namespace)


def test_names_cannot_break_the_page() -> None:
    page = page_of(odd_model())
    assert page.count("</script>") == 2 and "<b>" not in page and "<fc>" not in page
    for text in re.findall(r"<svg.*?</svg>", page, re.S):
        ElementTree.fromstring(text)
    assert "x<&\"'>" in data_of(page)["nodes"]
    assert "é" in page


def test_a_model_without_kernels_has_a_page_too() -> None:
    graph = Graph("empty")
    graph.make_output(graph.make_input(LogicalTensor(F32, (0, 3)), "x"), "y")
    assert "<svg" in page_of(graph)


def test_the_command_writes_one_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plant_roofs(monkeypatch, tmp_path)
    file = tmp_path / "r.html"
    model = str(ROOT / "examples" / "linear.pnnx.param")
    assert main(["profile", model, "-q", "--seconds", "0.02", "--html", str(file)]) == 0
    assert capsys.readouterr().out == f"wrote {file}\n"
    assert file.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert main(["profile", model, "-q", "--seconds", "0.02", "--html", str(tmp_path / "a/b")]) == 2


# Clicks as a user does, waits for what is unpacked meanwhile, and leaves what it saw in the document.
CLICKS = """
<script>
(async () => {
  const click = (e) => e.dispatchEvent(new MouseEvent("click", { bubbles: true }));
  const wait = async (ready) => {
    for (let i = 0; i < 500 && !ready(); i++) await new Promise((r) => setTimeout(r, 10));
  };
  const seen = {};
  click(document.querySelector("svg.graph [data-node='relu2.fused'] text"));
  await wait(() => document.querySelector("#panel [data-stage=asm]"));
  const panel = document.getElementById("panel");
  seen.shown = panel.dataset.shown;
  seen.panel = panel.textContent;
  seen.selected = document.querySelectorAll(".selected").length;
  click(panel.querySelector("[data-stage=asm]"));
  seen.asm = panel.querySelector("pre.code").textContent;
  const times = () => [...document.querySelectorAll("#table tbody tr")].map((r) => r.cells[2].dataset.value);
  const button = document.getElementById("theme");
  seen.themes = [0, 1, 2].map(() => { click(button); return getComputedStyle(document.body).backgroundColor; });
  const heads = document.querySelectorAll("#table th");
  seen.before = times();
  click(heads[2]);
  seen.descending = times();
  click(heads[2]);
  seen.ascending = times();
  click(document.querySelector("[data-pass]"));
  const graph = document.getElementById("pass-text");
  await wait(() => !graph.hidden);
  seen.graph = graph.textContent;
  click(document.querySelector("circle[data-node='relu3.fused']"));
  seen.point = panel.dataset.shown;
  document.body.appendChild(document.createElement("xmp")).textContent = JSON.stringify(seen);
})();
</script>
"""


def seen_by_script(page: str, script: str, folder: Path, size: str = "1280,900") -> Any:
    """Return what a script at the end of the page found in a browser."""
    file = folder / "report.html"
    file.write_text(page.replace("</body>", script + "</body>"), encoding="utf-8")
    return seen_in_browser(file, folder, f"--window-size={size}", "--virtual-time-budget=20000")


def test_in_a_browser_a_click_shows_the_node_and_sorts_the_table(mlp: str, tmp_path: Path) -> None:
    seen = seen_by_script(mlp, CLICKS, tmp_path)
    assert seen["shown"] == "relu2.fused" and seen["point"] == "relu3.fused"
    assert "fc2, fc2.add, relu2" in seen["panel"] and "Decisions" in seen["panel"]
    assert seen["selected"] >= 3  # in the graph, the table and the roofline plot
    assert "f32_gemm_add_relu_32x256x512" in seen["asm"] and "ret" in seen["asm"]
    numbers = [float(text) for text in seen["before"]]
    assert numbers == sorted(numbers, reverse=True)
    assert [float(t) for t in seen["descending"]] == numbers
    assert [float(t) for t in seen["ascending"]] == sorted(numbers)
    assert seen["graph"].startswith('graph("mlp")')
    light, dark, system = seen["themes"]
    assert light == "rgb(255, 255, 255)" != dark and system in (light, dark)


# Elements that stick out to the right of the window or of an ancestor that does not scroll, and labels of the roofline
# that lie on each other.
OVERFLOW = """
<script>
(async () => {
  for (let i = 0; i < 500 && !document.querySelector("#panel [data-stage=asm]"); i++) {
    await new Promise((r) => setTimeout(r, 10));
  }
  for (const fold of document.querySelectorAll("details")) fold.open = true;
  const root = document.documentElement, out = [];
  const clips = (e) => getComputedStyle(e).overflowX !== "visible";
  const scrolls = (e) => e && e !== document.body && (clips(e) || scrolls(e.parentElement));
  for (const e of document.body.querySelectorAll("*")) {
    const box = e.getBoundingClientRect();
    const isOut = box.width && box.right > root.clientWidth + 0.5;
    if (isOut && !scrolls(e.parentElement)) out.push(e.outerHTML.slice(0, 200));
  }
  const wide = [...document.querySelectorAll("#kernels .scroll, #panel")]
    .filter((e) => e.scrollWidth > e.clientWidth).map((e) => e.id || e.className);
  const boxes = [...document.querySelectorAll(".roofline text")].map((e) => e.getBoundingClientRect());
  const lap = (a, b) => a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 3 && b.top < a.bottom - 3;
  const overlaps = boxes.flatMap((a, i) => boxes.slice(i + 1).filter((b) => lap(a, b))).length;
  const seen = { page: root.scrollWidth, window: root.clientWidth, out, wide, overlaps };
  document.body.appendChild(document.createElement("xmp")).textContent = JSON.stringify(seen);
})();
</script>
"""


def long_names() -> Graph:
    """Names of 120 letters without a space."""
    graph = Graph("g" * 120)
    x = graph.make_input(LogicalTensor(F32, (16, 24)), "x" * 120)
    w = graph.make_constant(np.ones((24, 8), np.float32), "w" * 120)
    for number in range(3):
        y = graph.make("matmul_core", (x, w), name=f"{number}" * 120).outputs[0]
        graph.make_output(graph.make("softmax", (y,), {"axis": -1}, f"s{number}" * 60).outputs[0])
    return graph


MODELS: dict[str, Callable[[], Any]] = {
    "mlp": lambda: str(ROOT / "examples" / "mlp.onnx"),
    "resnet": lambda: resnet18(32, 0.25).case().model,
    "long names": long_names,
}


@cache
def page_of_model(name: str) -> str:
    return page_of(MODELS[name]())


@pytest.mark.exhaustive
@pytest.mark.parametrize("width", [1280, 800])
@pytest.mark.parametrize("name", MODELS)
def test_nothing_overflows(name: str, width: int, tmp_path: Path) -> None:
    page = page_of_model(name)
    seen = seen_by_script(page, OVERFLOW, tmp_path, f"{width},900")
    assert seen["out"] == [] and seen["wide"] == [] and seen["overlaps"] == 0
    assert seen["page"] <= seen["window"] <= width
