"""Every value of an HLO module as computed by XLA, a few in memory at a time."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ..base.errors import UserError
from ..frontend.hlo import parse_hlo
from ..frontend.hlo.syntax import Instruction

Array = np.ndarray[Any, Any]
CHUNK = 32
"""Values fetched per run."""

_OWN = ("parameter", "constant")
_ENTRY = re.compile(r"^\s*ENTRY\s+(%?[\w.\-]+)[^{\n]*\{[^\n]*$", re.MULTILINE)
_LAYOUT = re.compile(r"^(HloModule [^,\n]+)[^\n]*$", re.MULTILINE)


def xla_values(text: str, inputs: Mapping[str, Array]) -> Iterator[tuple[str, str, Array]]:
    """(name, `opcode 'name'`, array) of every array computed by the entry, in the order of the text.

    Raise UserError for text that is not HLO. ImportError without JAX.
    """
    module = parse_hlo(text)
    entry = module.computations[module.entry]
    wanted = [
        i for i in entry.instructions
        if i.opcode not in _OWN and i.shape is not None and not i.shape.is_tuple
    ]  # fmt: skip
    arrays = [inputs[p.name] for p in entry.parameters]
    for start in range(0, len(wanted), CHUNK):
        part = wanted[start : start + CHUNK]
        results = run_hlo(with_results(text, part), arrays)
        for instruction, array in zip(part, results, strict=True):
            yield instruction.name, f"{instruction.opcode} '{instruction.name}'", array


def with_results(text: str, wanted: Sequence[Instruction]) -> str:
    """The module with these instructions of its entry as a tuple result."""
    text = _LAYOUT.sub(r"\1", text, count=1)  # it gives the layout of the old result
    head = _ENTRY.search(text)
    if head is None:
        raise UserError("the text has no line that begins with ENTRY; mark the main computation so")
    start, end = head.end(), text.index("\n}", head.end())
    body = re.sub(r"^(\s*)ROOT ", r"\1", text[start:end], flags=re.MULTILINE)
    mark = "%" if re.search(r"^\s*%", body, re.MULTILINE) else ""
    shapes = ", ".join(i.shape.logical() for i in wanted if i.shape is not None)
    names = ", ".join(mark + i.name for i in wanted)
    root = f"  ROOT {mark}graphc.values = ({shapes}) tuple({names})"
    return f"{text[: head.start()]}\nENTRY {head[1]} {{{body}\n{root}{text[end:]}"


def run_hlo(text: str, arrays: Sequence[Array]) -> list[Array]:
    """The results of HLO text, compiled and run by XLA. ImportError without JAX."""
    import jax
    from jax._src.lib import xla_client  # HLO text has no public API
    from jaxlib import _hlo

    client = jax.devices("cpu")[0].client
    proto = _hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto()
    stable = xla_client._xla.mlir.hlo_to_stablehlo(proto)
    loaded = client.compile_and_load(stable, client.devices()[:1], xla_client.CompileOptions())
    return [np.asarray(y) for y in loaded.execute([jax.device_put(x) for x in arrays])]
