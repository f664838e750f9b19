"""The table of the `-X` switches, as text and as a page of the docs."""

from __future__ import annotations

from ..base.options import LAYOUTS, SWITCHES, WINOGRAD

VARIANTS = {
    f"winograd={'|'.join(('off', *WINOGRAD))}": "Winograd form of 3 x 3 convolutions, wherever it can run",
    f"layout={'|'.join(LAYOUTS)}": "blocked layouts (NCHW16c, MK16m16k) wherever possible",
    "check-bounds": "check every access to memory, on one thread, several times slower",
}
"""Switches that choose a variant, with their meaning."""


def switch_table() -> str:
    """Return the table for a terminal: each switch with its meaning."""
    rows = {f"no-{name}": f"do not {one.meaning}" for name, one in SWITCHES.items()} | VARIANTS
    width = max(map(len, rows))
    return "".join(f"{name:<{width}}  {meaning}\n" for name, meaning in rows.items())


def switch_page() -> str:
    """Return docs/reference/switches.md: each switch with the test that results are equal with it on and off."""
    lines = [
        "# Switches",
        "",
        '`graphc compile MODEL -X no-fuse` (`graphc.compile(..., disabled=["fuse"])`) turns an optimization off.',
        "No switch changes results beyond rounding; the last column names the test that compares on and off.",
        "`graphc compile -X help` prints this table, which is generated from `base/options.py`.",
        "",
        "| switch | turns off | test |",
        "|---|---|---|",
        *(f"| `no-{n}` | {s.meaning} | `tests/{s.test}` |" for n, s in SWITCHES.items()),
        "",
        "Other values of `-X` choose a variant:",
        "",
        "| switch | meaning |",
        "|---|---|",
        *(
            f"| `{name.replace('|', chr(92) + '|')}` | {meaning} |"
            for name, meaning in VARIANTS.items()
        ),
    ]
    return "\n".join(lines) + "\n"
