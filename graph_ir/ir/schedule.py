"""A schedule, the algorithm of a kernel and its parameters, as a value: `gemm mr=4 nv=3 mc=32 kc=512 ng=2
b=panels use=fma`.

The pass `choose_schedules` chooses it, it is printed and parsed with the graph, and lowering depends on nothing else.
The `ScheduleSpace` of a kernel defines the parameters.
"""

from __future__ import annotations

import re

from ...base.errors import InternalError, UserError
from ...base.records import dataclass

Parameter = int | str
_WORD = re.compile(r"[A-Za-z_][\w-]*")
_SETTING = re.compile(r"([A-Za-z_]\w*)=(?:(\d{1,9})|([A-Za-z_][\w-]*))")


@dataclass(frozen=True)
class Schedule:
    """`algorithm` and (name, value) pairs in the order they are printed. What a user asks for may leave out either."""

    algorithm: str
    parameters: tuple[tuple[str, Parameter], ...] = ()

    @classmethod
    def of(cls, algorithm: str, **parameters: Parameter) -> Schedule:
        """`Schedule.of("gemm", mr=4, nv=3)`."""
        return cls(algorithm, tuple(parameters.items()))

    @property
    def settings(self) -> dict[str, Parameter]:
        """The parameters by name."""
        return dict(self.parameters)

    def number(self, name: str) -> int:
        """A parameter that is a number. InternalError if there is none: schedules are checked before they are read."""
        value = self.settings.get(name)
        if not isinstance(value, int):
            raise InternalError(f"schedule '{self}' has no number '{name}'")
        return value

    def word(self, name: str) -> str:
        """A parameter that is a word. InternalError if there is none."""
        value = self.settings.get(name)
        if not isinstance(value, str):
            raise InternalError(f"schedule '{self}' has no word '{name}'")
        return value

    def replaced(self, **changes: Parameter) -> Schedule:
        """The same with some parameters changed."""
        return Schedule(self.algorithm, tuple({**self.settings, **changes}.items()))

    def __str__(self) -> str:
        settings = (f"{name}={value}" for name, value in self.parameters)
        return " ".join([self.algorithm, *settings] if self.algorithm else settings)


def parse_schedule(text: str) -> Schedule:
    """The schedule that prints as `text`; the algorithm may be left out, or begin with `algorithm=`.

    UserError for any other text.
    """
    words = text.split()
    first = words[0].removeprefix("algorithm=") if words else ""
    algorithm = first if _WORD.fullmatch(first) else ""
    words = words[1:] if algorithm else words
    found: dict[str, Parameter] = {}
    for word in words:
        match = _SETTING.fullmatch(word)
        if match is None or match[1] in (*found, "algorithm"):
            raise UserError(
                f"schedule '{text}': each setting must look like 'kc=256', once per name, got '{word}'"
            )
        found[match[1]] = int(match[2]) if match[2] else match[3]
    if not algorithm and not found:
        raise UserError(f"schedule '{text}' must look like 'gemm mr=4 nv=3 mc=32 kc=256 ng=1'")
    return Schedule(algorithm, tuple(found.items()))
