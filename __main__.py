"""`python -m graphc`, and `python -m gc` by way of the .pth file of the installation."""

from __future__ import annotations

import sys

from .cli import main

if __name__ == "__main__":
    sys.exit(main())
