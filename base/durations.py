"""Durations as people read them."""

from __future__ import annotations

_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"))


_AGES = (("days", 86400), ("hours", 3600), ("minutes", 60), ("seconds", 1))


def shown_age(seconds: float) -> str:
    """Return the time since something in the largest unit that fits: "3 hours ago", "0 seconds ago"."""
    age = max(seconds, 0.0)
    unit, size = next((pair for pair in _AGES if age >= pair[1]), _AGES[-1])
    return f"{age / size:.0f} {unit} ago"


def shown_time(seconds: float) -> str:
    """Return a duration with three digits in the unit that suits it: "17.4 ms", "843 us", "0.02 us"."""
    size, unit = next((pair for pair in _UNITS if seconds >= 0.9995 * pair[0]), _UNITS[-1])
    value = seconds / size
    digits = 2 if value < 9.995 else 1 if value < 99.95 else 0
    return f"{value:.{digits}f} {unit}"
