"""A headless Chromium for tests: opens a page, and returns what a script in it found."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from support.process import PATIENCE

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")


def seen_in_browser(page: Path, folder: Path, *flags: str) -> Any:
    """Return the JSON that a script of the page leaves in an element `xmp`; skip without a browser.

    `folder` is a temporary one, for the browser's profile.
    """
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        pytest.skip("there is no Chromium here")
    done = subprocess.run(
        [
            browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
            "--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={folder / 'profile'}", *flags,
            "--dump-dom", page.as_uri(),
        ],
        capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    outcome = re.search(r"<xmp>(.*?)</xmp>", done.stdout, re.S)
    assert outcome, done.stderr
    return json.loads(html.unescape(outcome[1]))
