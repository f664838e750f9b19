"""The documentation as a site: it builds without a warning, its links lead somewhere, and a browser shows it."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from support.browser import seen_in_browser
from support.process import ROOT, run_python

SHOWN = ("index.html", "reference/cli/compile.html", "reference/ops.html", "benchmarks.html")
WIDTHS = (1280, 800)
PROBE = """
<body><script>
addEventListener("load", () => {
  const seen = [...document.querySelectorAll("iframe")].map(({contentDocument: page, width}) => ({
    title: page.title, links: page.querySelectorAll(".sidebar-tree a").length,
    width: page.documentElement.scrollWidth, window: Number(width)}));
  document.body.appendChild(document.createElement("xmp")).textContent = JSON.stringify(seen);
});
</script>
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    for package in ("sphinx", "furo", "myst_parser"):
        pytest.importorskip(package)
    folder = tmp_path_factory.mktemp("site")
    done = run_python(str(ROOT / "docs" / "build.py"), str(folder), cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


class Links(HTMLParser):
    """The targets of links, and the anchors, of a page."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.anchors = {""}
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.anchors.add(found.get("id") or "")
        for key in ("href", "src"):
            if target := found.get(key):
                self.targets.append(target)


def test_every_link_inside_the_site_leads_somewhere(site: Path) -> None:
    pages = {path: Links(path) for path in site.rglob("*.html")}
    assert len(pages) > 40
    broken = []
    for path, page in pages.items():
        for target in page.targets:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                continue
            file = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            anchors = pages[file].anchors if file in pages else {parts.fragment}
            if not file.is_file() or unquote(parts.fragment) not in anchors:
                broken.append(f"{path.relative_to(site)}: {target}")
    assert not broken


def test_there_is_a_page_for_each_command(site: Path) -> None:
    text = (site / "reference" / "cli.html").read_text(encoding="utf-8")
    names = set(re.findall(r'href="cli/([\w-]+)\.html"', text))
    assert {"compile", "run", "bench", "explain", "profile"} <= names
    for name in names:
        page = (site / "reference" / "cli" / f"{name}.html").read_text(encoding="utf-8")
        assert "--help" in page


def test_a_browser_shows_pages_within_its_window(site: Path, tmp_path: Path) -> None:
    frames = [
        f'<iframe src="{page}" width="{width}" height="900"></iframe>'
        for page in SHOWN
        for width in WIDTHS
    ]
    probe = site / "probe.htm"
    probe.write_text(PROBE + "\n".join(frames), encoding="utf-8")
    seen = seen_in_browser(probe, tmp_path, "--allow-file-access-from-files")
    assert len(seen) == len(frames)
    for page in seen:
        assert "graphc" in page["title"] and page["links"] > 40
        assert page["width"] <= page["window"], page
