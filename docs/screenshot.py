"""Screenshot of the report for the README: `python docs/screenshot.py` writes docs/report.png; needs Chromium."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

DOCS = Path(__file__).resolve().parent
MODEL = DOCS.parent / "examples" / "mha.onnx"


def main() -> None:
    """Write the report of an example and let a browser take a picture of its top."""
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder, "report.html")
        report = [sys.executable, "-m", "graphc", "profile", str(MODEL), "--html", str(page)]
        subprocess.run(report, check=True)
        subprocess.run(
            [
                "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                "--disable-background-networking", f"--user-data-dir={folder}/profile",
                "--window-size=1280,860", "--force-device-scale-factor=0.75",
                f"--screenshot={DOCS / 'report.png'}", page.as_uri(),
            ],
            check=True, capture_output=True,
        )  # fmt: skip


if __name__ == "__main__":
    main()
