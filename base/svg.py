"""Writes SVG elements as escaped text; characters that XML does not allow are written as Python escapes."""

from __future__ import annotations

from html import escape
from typing import Any

from .printable import printable


def escaped(text: str) -> str:
    """Any text as part of XML or HTML."""
    return escape(printable(text))


def element(tag: str, *inside: str, text: str = "", **attributes: object) -> str:
    """One element. `class_` is `class`, and `_` in a name becomes `-`; numbers are rounded to 2 decimals."""
    kinds = " ".join(str(attributes.pop(key)) for key in ("class", "class_") if key in attributes)
    attributes |= {"class": kinds} if kinds else {}
    named = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{escaped(_value(value))}"'
        for name, value in attributes.items()
    )
    content = escaped(text) + "".join(inside)
    return f"<{tag}{named}>{content}</{tag}>"


def label(text: str, x: float, y: float, **attributes: object) -> str:
    """A line of text that starts (or has its `text_anchor`) at a point."""
    return element("text", text=text, x=x, y=y, **attributes)


def picture(width: float, height: float, *inside: str, **attributes: Any) -> str:
    """Return the text of a drawing, as large in pixels as in its units."""
    return element(
        "svg", *inside, xmlns="http://www.w3.org/2000/svg", width=width, height=height,
        viewBox=f"0 0 {_value(width)} {_value(height)}", **attributes,
    )  # fmt: skip


def heat(share: float) -> dict[str, str]:
    """Return the attributes of an element colored from cold (0) to hot (1): by the style sheet, which knows the theme,
    or by a color where style sheets have no `color-mix`."""
    share = min(max(share, 0.0), 1.0)
    return {
        "fill": f"hsl({48 - 43 * share:.0f} 95% {94 - 34 * share:.0f}%)",
        "class": "heat",
        "style": f"--heat:{share:.3f}",
    }


def _value(value: object) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
