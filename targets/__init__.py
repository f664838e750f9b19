"""Instruction sets, one file each, which adds its rows to `isa.ISAS`; microkernels; core families.

Everything that is true of one instruction set only is said here; other rooms read it from a `Target`.
"""

from . import x86 as x86  # isort: skip (widest first)
from . import aarch64 as aarch64  # isort: skip
from . import generic as generic
from . import x86_detection as x86_detection
from . import x86_ports as x86_ports
