"""A schedule, how a kernel runs, as a value with a text.

Contractions have a list of steps, `split n 48; split m 32; ...; tensorize 8x3 over m1 n1 k1` (`nest/steps`). Other
kernels have an algorithm and its parameters, `pointwise tasks=2 inner=plain`, defined by their `ScheduleSpace`. The
pass `choose_schedules` chooses it, it is printed and parsed with the graph, and lowering depends on nothing else.
"""

from __future__ import annotations

import re
from functools import lru_cache

from ...base.errors import InternalError, UserError
from ...base.records import dataclass

Parameter = int | str
STEP_NAMES = (
    "split",
    "tile",
    "chunk",
    "reorder",
    "stage",
    "tensorize",
    "prefetch",
    "parallelize",
    "specialize",
)
"""The transformations of a nest, which the text of steps begins with."""

_WORD = re.compile(r"[A-Za-z_][\w-]*")
_SETTING = re.compile(r"([A-Za-z_]\w*)=(?:(\d{1,9})|([A-Za-z_][\w-]*))")


@dataclass(frozen=True)
class Schedule:
    """`algorithm` and (name, value) pairs in the order they are printed, or `steps`. A request may leave out some."""

    algorithm: str
    parameters: tuple[tuple[str, Parameter], ...] = ()
    steps: str = ""

    @classmethod
    def of(cls, algorithm: str, **parameters: Parameter) -> Schedule:
        """`Schedule.of("gemm", mr=4, nv=3)`."""
        return cls(algorithm, tuple(parameters.items()))

    @property
    def settings(self) -> dict[str, Parameter]:
        """Return the parameters by name; of steps, those that can be read off their text."""
        return dict(read_steps(self.steps)) if self.steps else dict(self.parameters)

    def number(self, name: str) -> int:
        """A parameter that is a number. Raise InternalError if there is none: schedules are checked before they are
        read."""
        value = self.settings.get(name)
        if not isinstance(value, int):
            raise InternalError(f"schedule '{self}' has no number '{name}'")
        return value

    def word(self, name: str) -> str:
        """A parameter that is a word. Raise InternalError if there is none."""
        value = self.settings.get(name)
        if not isinstance(value, str):
            raise InternalError(f"schedule '{self}' has no word '{name}'")
        return value

    def replaced(self, **changes: Parameter) -> Schedule:
        """The same with some parameters changed."""
        return Schedule(self.algorithm, tuple({**self.settings, **changes}.items()))

    def __str__(self) -> str:
        if self.steps:
            return self.steps
        settings = (f"{name}={value}" for name, value in self.parameters)
        return " ".join([self.algorithm, *settings] if self.algorithm else settings)


@lru_cache(1024)
def read_steps(text: str) -> dict[str, Parameter]:
    """Return the register tile (mr, nv), blocks (mc, kc), chunks (ng), instruction (use) and layout of B (b) of steps.

    What they say of all sizes counts. What they leave out, or say in a way that no blocking does, is left out.
    """
    found: dict[str, Parameter] = {"ng": 1, "b": "plain"}
    for words in (step.split() for step in text.partition("specialize")[0].split(";")):
        match words:
            case ["split", "m" | "y" | "k" as axis, *factors]:
                first = next((int(x) for x in factors if x.isdigit()), 0)
                found |= {"kc" if axis == "k" else "mc": first} if first else {}
            case ["tile", *axes]:
                sizes = dict(zip(axes, axes[len(axes) // 2 :], strict=False))
                found |= {
                    "kc" if axis == "k" else "mc": int(sizes[axis])
                    for axis in ("m", "y", "k")
                    if sizes.get(axis, "").isdigit()
                }
            case ["chunk", "n0", count] if count.isdigit() and int(count):
                found["ng"] = int(count)
            case ["stage", "B", "at", "root", *_]:
                found["b"] = "panels"
            case ["tensorize", tile, *names]:
                if match := re.fullmatch(r"([1-9]\d{0,3})x([1-9]\d{0,3})", tile):
                    found |= {"mr": int(match[1]), "nv": int(match[2])}
                found["use"] = names[0] if names and names[0] != "over" else "fma"
                loops = "".join(x[0] for x in names if x not in ("over", "exact"))
                if loops[-4:] == "mnkk" and found["b"] == "plain":
                    found["b"] = "blocked"
    return found


def parse_schedule(text: str) -> Schedule:
    """The schedule that prints as `text`; the algorithm may be left out, or begin with `algorithm=`.

    Raise UserError for any other text.
    """
    words = text.split()
    steps = [part.split() for part in re.split(r"[;\n]", text) if part.strip()]
    if any(step[0] in STEP_NAMES for step in steps):
        return Schedule("", (), "; ".join(map(" ".join, steps)))
    first = words[0].removeprefix("algorithm=") if words else ""
    algorithm = first if _WORD.fullmatch(first) else ""
    words = words[1:] if algorithm else words
    found: dict[str, Parameter] = {}
    for word in words:
        match = _SETTING.fullmatch(word)
        if match is None or match[1] in (*found, "algorithm"):
            raise UserError(
                f"schedule '{text}': each setting must look like 'kc=256', once per name, got '{word}'; the first of "
                f"several steps is one of {', '.join(STEP_NAMES)}"
            )
        found[match[1]] = int(match[2]) if match[2] else match[3]
    if not algorithm and not found:
        raise UserError(f"schedule '{text}' must look like 'gemm mr=4 nv=3 mc=32 kc=256 ng=1'")
    return Schedule(algorithm, tuple(found.items()))
