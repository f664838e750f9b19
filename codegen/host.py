"""The CPU that graphc runs on, as a `Target`, and the targets that stand for an ISA level."""

from __future__ import annotations

import platform
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

from llvmlite import binding as llvm

from ..base.errors import UserError
from ..targets.isa import ISAS, NATIVE_MACHINES, Target
from ..targets.machines import NEOVERSE_N1, Machine, machine_of
from ..targets.target_names import NATIVE, split_target_name

_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_CPUINFO = Path("/proc/cpuinfo")
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@cache
def target_for(name: str) -> Target:
    """Return the target called `native` or as a row of `ISAS`, `+` optional features, with this machine's cache sizes.

    `native` is the widest level this CPU supports, scheduled for it, as is the level that it extends. Any other level
    below gives code that runs on every CPU of the level; one above gives code that does not run here. All have this
    machine's rates. Raise UserError if there is no such target.
    """
    level, added, system = split_target_name(name)
    target = _target_of(level)
    if system and target.table.tiles is not None:
        raise UserError(
            f"target '{name}': tiles need a permission that only Linux grants; "
            f"compile for {target.table.extends}@{system}"
        )
    missing = [one for one in added if level == NATIVE and not host_has(one)]
    if missing:
        raise UserError(f"target '{name}': the features must be of this CPU, got {missing[0]}")
    features = ",".join([target.features, *(f"+{one}" for one in added)])
    return replace(target, features=features, system=system)


def _target_of(name: str) -> Target:
    native = _native_isa()
    isa = native if name == NATIVE else name
    is_own = isa in (native, ISAS[native].extends)
    if ISAS[isa].triple and not is_own:  # whose caches are not those of this machine
        return replace(_level_target(isa), machine=NEOVERSE_N1, l1_bytes=64 << 10, l2_bytes=1 << 20)
    return _with_caches(_native_target(isa) if is_own else _level_target(isa))


def host_supports(isa: str) -> bool:
    """Return whether this CPU runs code of an ISA level. Raise UserError if there is no such level."""
    return host_has(*Target(isa).table.needs)


def host_has(*features: str) -> bool:
    """Return whether this CPU has features, by LLVM's names."""
    return all(_host_features().get(feature, False) for feature in features)


def cpu_name() -> str:
    """The CPU's name as its maker spells it: `AMD EPYC 7763 64-Core Processor`."""
    return _cpu_info("model name") or platform.processor() or str(llvm.get_host_cpu_name())


def _cpu_info(key: str) -> str:
    """Return what Linux says of the first CPU under a key; "" where it says nothing."""
    if _CPUINFO.exists():
        for line in _CPUINFO.read_text(errors="replace").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == key and value.strip():
                return " ".join(value.split())
    return ""


@cache
def _host_machine() -> Machine:
    """Return the description of this CPU's core family."""
    has = [name for name, present in _host_features().items() if present]
    return machine_of(llvm.get_host_cpu_name(), has, _cpu_info("vendor_id"))


def _native_isa() -> str:
    return next(isa for isa in ISAS if host_supports(isa))


@cache
def _host_features() -> dict[str, bool]:
    return dict(llvm.get_host_cpu_features())


def _native_target(isa: str) -> Target:
    """Scheduled for this CPU by name; of its instruction sets, those of the level and no other."""
    row, host = ISAS[isa], _host_features()
    if not row.needs:
        return _level_target(isa)
    wanted = [f for f in row.features + row.optional if host.get(f, False)]
    same = (other for other in ISAS.values() if other.triple == row.triple)
    known = dict.fromkeys(f for other in same for f in other.features + other.optional)
    flags = [f"+{f}" for f in wanted]
    flags += [f"-{f}" for f in (*known, *row.unwanted) if f not in wanted]
    return Target(isa, str(llvm.get_host_cpu_name()), ",".join(flags))


def _level_target(isa: str) -> Target:
    if not _runs_levels() and not ISAS[isa].triple:
        return Target(isa, "generic", "")
    return Target(isa, ISAS[isa].cpu, ",".join(f"+{f}" for f in ISAS[isa].features))


def _runs_levels() -> bool:
    """Return whether this machine is of the kind that levels without a triple are for."""
    return str(llvm.get_process_triple()).startswith(NATIVE_MACHINES)


def _with_caches(target: Target) -> Target:
    found = _caches(_CACHES)
    ways = {f"l{level}_ways": x.ways for level, x in found.items() if level < 3 and x.ways}
    sizes = {f"l{level}_bytes": x.size for level, x in found.items() if level <= 3}
    return replace(target, machine=replace(_host_machine(), **ways), **sizes)  # type: ignore[arg-type]


class _Cache(NamedTuple):
    size: int
    ways: int
    """0 where the system does not say."""


def _caches(folder: Path) -> dict[int, _Cache]:
    """Level -> the data cache that the system reports: its bytes, and lines of a set."""
    found: dict[int, _Cache] = {}
    for entry in sorted(folder.glob("index*")):
        try:
            kind, level, size = ((entry / n).read_text().strip() for n in ("type", "level", "size"))
            unit = _UNITS.get(size[-1:].upper())
            number = int(size[:-1]) * unit if unit else int(size)
            if kind != "Instruction" and number > 0:
                found[int(level)] = _Cache(number, _ways(entry))
        except (OSError, ValueError):
            continue  # the file is missing or malformed: keep the default
    return found


def _ways(entry: Path) -> int:
    try:
        return max(int((entry / "ways_of_associativity").read_text()), 0)
    except (OSError, ValueError):
        return 0
