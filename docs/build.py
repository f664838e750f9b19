"""Build the documentation as a site: `python docs/build.py [FOLDER]` (default: build/docs); warnings are errors.

The pages of the command line are generated into a copy of the sources, so that they always match the program.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

DOCS = Path(__file__).resolve().parent


def build(output: Path) -> int:
    """Build the site in a folder; return the exit code of Sphinx."""
    from cli_pages import pages
    from sphinx.cmd.build import main as sphinx

    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "docs")
        shutil.copytree(DOCS, source, ignore=shutil.ignore_patterns("__pycache__"))
        commands = source / "reference" / "cli"  # docs/reference/cli.md includes what is here
        commands.mkdir()
        for name, text in pages().items():
            (commands / name).write_text(text, encoding="utf-8")
        return sphinx(["-W", "--keep-going", "-q", "-E", str(source), str(output)])


if __name__ == "__main__":
    sys.exit(build(Path(*sys.argv[1:2]) if sys.argv[1:] else DOCS.parent / "build" / "docs"))
