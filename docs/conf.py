"""Configuration of Sphinx; `python docs/build.py` builds the site."""

from __future__ import annotations

import re
from typing import Any

from graphc.base.version import __version__

project = "graphc"
copyright = "the graphc authors"
version = release = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["records"]
html_theme = "furo"
html_title = f"graphc {__version__}"
html_static_path: list[str] = []
html_show_sourcelink = False

nitpicky = False
myst_heading_anchors = 4
suppress_warnings = ["myst.header"]  # generated parts may begin below the second level

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
autodoc_mock_imports: list[str] = []


def as_rst(
    app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]
) -> None:  # the signature of an autodoc hook
    """Turn the code spans of a docstring, written as in Markdown, into those of reStructuredText."""
    for number, line in enumerate(lines):
        parts = re.split(r"(?<![`:])`([^`]+)`(?!`)", line)
        parts[::2] = [part.replace("*", r"\*") for part in parts[::2]]
        parts[1::2] = [f"``{part}``" for part in parts[1::2]]
        lines[number] = "".join(parts)


def setup(app: Any) -> None:
    """Register the hook."""
    app.connect("autodoc-process-docstring", as_rst)
