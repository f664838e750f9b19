"""What lowering may look at: the target and the options, passed down as one argument."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ...base.options import CompileOptions
from ...base.target import Target
from .matmul_tile import MatmulBlocking


@dataclass(frozen=True)
class LowerContext:
    """Target and options of one compilation; `blockings` overrules the cost model for problems it names."""

    target: Target
    options: CompileOptions = CompileOptions()
    blockings: Mapping[str, MatmulBlocking] = field(default_factory=dict)
