"""The outcome of a case."""

from __future__ import annotations

import re
from typing import Any

from ...base.records import dataclass

RIGHT, REFUSED, WRONG, INTERNAL, DEAD, SLOW = OUTCOMES = (
    "right", "refused", "wrong", "internal", "dead", "slow",
)  # fmt: skip
"""right: every result as it must be; refused: a sentence says why not (UserError, UnsupportedError); wrong: a result is
not; internal: any other exception; dead: the process ended; slow: it did not answer in time."""

FAILURES = (WRONG, INTERNAL, DEAD, SLOW)
_NUMBER = re.compile(r"0x[0-9a-f]+|-?\d+(\.\d+)?(e[+-]?\d+)?|'[^']*'")


@dataclass(frozen=True)
class Outcome:
    """`kind` (of `OUTCOMES`), the stage it happened in (compile, run, threads, a format, ...), and what was said.

    `refusals`: what formats refused on the way. `seconds`: of the whole case.
    """

    kind: str
    stage: str = ""
    message: str = ""
    refusals: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def is_failure(self) -> bool:
        """Return whether somebody has to look at it."""
        return self.kind in FAILURES

    @property
    def signature(self) -> str:
        """Return the part of the message shared by cases with one cause, as far as one can tell: no numbers,
        no names."""
        is_value = self.kind == WRONG and self.message.startswith("result ")
        about = "" if is_value else _NUMBER.sub("#", self.message)[:160]
        return f"{self.kind} {self.stage} {about}".strip()

    def is_alike(self, other: Outcome) -> bool:
        """Return whether a smaller case still shows the same failure."""
        return self.signature == other.signature

    @staticmethod
    def from_json(facts: dict[str, Any]) -> Outcome:
        """Read the JSON that a worker wrote."""
        known = {key: facts[key] for key in Outcome.__dataclass_fields__ if key in facts}
        return Outcome(**{**known, "refusals": tuple(known.get("refusals", ()))})
