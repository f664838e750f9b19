"""Ports of x86 cores, and the assembly that LLVM writes for them (AT&T syntax, the result last)."""

from __future__ import annotations

import re

from .ports import ASSEMBLY, PORTS, CoreFamily, Cost, Step

_KINDS = tuple(
    (kind, re.compile(pattern))
    for kind, pattern in (
        ("jump", r"j\w+|call\w*|ret\w*"),
        ("none", r"nop\w*|vzeroupper|endbr64"),
        ("prefetch", r"prefetch\w+"),
        ("tile dot", r"tdp\w+"),
        ("tile load", r"tileload\w+"),
        ("tile store", r"tilestore\w+"),
        ("tile zero", r"tilezero"),
        ("dot bf16", r"vdpbf16ps"),
        ("dot", r"vpdp\w+|vpmadd\w+"),
        ("fma", r"vfn?m(add|sub)\w+|v?mul[ps][sd]|vscalef\w+"),
        ("multiply", r"vpmull?[wud]\w*|vpmulh\w+"),
        ("divide", r"v?(div|sqrt)[ps][sd]"),
        ("round", r"v(rndscale|round)\w+"),
        ("widen", r"vcvt(ph2ps|ps2ph|ps2pd|pd2ps|neps2bf16|neebf162ps)\w*"),
        ("convert", r"v?cvt\w+"),
        ("move", r"v?mov([au]p[sd]|dq[au]\d*)"),
        ("broadcast", r"vp?broadcast([sd]|[fi]\d+x\d+|ss|sd|q)\w*"),
        ("permute", r"vp?(perm|compress|expand)\w+|vp?mov[szd]x?\w+|vp?mov[wdq][bwd]|v(insert|extract)\w+|"
                    r"vp?broadcast\w+|valign\w+|vshuf[fi]\w+"),
        ("shuffle", r"vp?(shuf|unpck|ack|alignr|sadbw)\w*|vpack\w+|vmov(s[lh]dup|ddup|hlps|lhps)"),
        ("shift", r"vps[lr][la]\w+|vprol\w+|vpror\w+"),
        ("compare", r"vp?cmp\w+"),
        ("gather", r"vp?gather\w+"),
        ("mask", r"k\w+"),
        ("logic", r"vp?(and|or|xor|tern|blend|add[bwdq]|sub[bwdq]|max[su]|min[su]|abs)\w*|vp?testn?m\w+"),
        ("add", r"v\w+|\w+[ps][sd]"),
        ("scalar multiply", r"imul\w*|mul[bwlqx]"),
        ("scalar load", r"movs\w+|movz\w+|mov[bwlq]?|movabsq"),
    )
)  # fmt: skip
"""The kinds by mnemonic, the first that matches; others are scalar arithmetic. `mov` only counts with memory."""

_SCALAR = "alu"
_ACCUMULATES = re.compile(
    r"vfn?m|vpdp|vdpbf16|tdp|vpternlog|vperm[it]2|vpinsr|vinsertps|vgather|vpgather"
)
_NO_RESULT = re.compile(r"cmp[bwlq]?$|test[bwlq]?$|v?u?comis|prefetch|j|vptest$|bt[wlq]?$")
_OPERAND = re.compile(
    r"[-\w.$+@]*\([^)]*\)(?:\s?\{[^}]*\})*|[%$*][-\w.]+(?:\s?\{[^}]*\})*|[-\w.$+@]+"
)
_LINE = re.compile(r"\s+([a-z]\w*)(?:\s+([^#]*))?")
_REGISTER = re.compile(r"%(\w+)")
_VECTOR = re.compile(r"%([xyz])mm(\d+)")
_BITS = {"x": 128, "y": 256, "z": 512}
_STACK = re.compile(r"\(%r[sb]p\)")
_TILE_BYTES = 16 * 16 * 64


def read_step(line: str) -> Step | None:
    """Read one line; None if it holds no instruction."""
    match = _LINE.match(line)
    if match is None:
        return None
    name, operands = match[1], _OPERAND.findall(match[2] or "")
    kind = next((kind for kind, pattern in _KINDS if pattern.fullmatch(name)), _SCALAR)
    bits = max((_BITS[letter] for letter, _ in _VECTOR.findall(line)), default=0)
    memory = next((x for x in operands if "(" in x), "")
    if name.startswith("lea"):
        memory = ""
    has_result = bool(operands) and not _NO_RESULT.match(name)
    stores = bool(memory) and has_result and "(" in operands[-1]
    loads = bool(memory) and not stores and kind != "prefetch"
    reads, writes = _registers(name, operands, has_result)
    if len(operands) > 1 and kind == "logic" and "xor" in name and len(set(operands)) == 1:
        kind, reads = "none", ()  # a register is cleared when it is renamed
    if kind in ("move", "broadcast", "scalar load") and memory or kind == "move":
        kind = "none"
    elif kind == "broadcast":
        kind = "permute"
    elif kind == "scalar load":
        kind = _SCALAR
    slot = memory.partition("{")[0] if _STACK.search(memory) else ""
    if slot:  # memory on the stack keeps what was written, as a register does
        reads, writes = (reads, (slot,)) if stores else ((*reads, slot), writes)
    return Step(
        kind, bits, reads, writes, _names(memory), loads, stores, bool(slot and bits), _multiply_adds(name, kind, bits)
    )  # fmt: skip


ASSEMBLY |= dict.fromkeys(("amx", "avx512", "avx2", "generic"), read_step)


def _registers(
    name: str, operands: list[str], has_result: bool
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(registers an instruction reads beside addresses, those it writes)."""
    values = [_names(x) if "(" not in x else _masks(x) for x in operands]
    if not has_result:
        return tuple(x for names in values for x in names), ()
    result = operands[-1]
    reads = [x for names in values[:-1] for x in names]
    masked = "{%k" in result and "{z}" not in result
    scalar = not name.startswith(("v", "mov", "lea", "k", "tileload", "set"))
    if _ACCUMULATES.match(name) or masked or (scalar and len(operands) < 3):
        reads += values[-1][:1] if "(" not in result else ()
    return (*reads, *_masks(result)), values[-1][:1] if "(" not in result else ()


def _names(operand: str) -> tuple[str, ...]:
    return tuple(_whole(name) for name in _REGISTER.findall(operand) if name != "rip")


def _masks(operand: str) -> tuple[str, ...]:
    return tuple(re.findall(r"\{%(k\d)\}", operand))


def _whole(register: str) -> str:
    """Return one name for all widths of a register: v3 for ymm3, rax for al."""
    vector = re.fullmatch(r"[xyz]mm(\d+)", register)
    if vector:
        return f"v{vector[1]}"
    numbered = re.fullmatch(r"(r\d+)[bwd]?", register)
    if numbered:
        return numbered[1]
    short = re.fullmatch(r"[re]?([abcd])[xlh]|[re]?(si|di|bp|sp)l?", register)
    return f"r{short[1]}x" if short and short[1] else f"r{short[2]}" if short else register


def _multiply_adds(name: str, kind: str, bits: int) -> int:
    if kind == "tile dot":
        return _TILE_BYTES // (2 if "16" in name else 1)
    if kind == "dot bf16" or (kind == "dot" and "wd" in name) or name.startswith("vpdpwss"):
        return bits // 16
    if kind == "dot":
        return bits // 8
    if kind != "fma" or name.startswith("vscalef"):
        return 0
    return {"ps": bits // 32, "pd": bits // 64, "ph": bits // 16}.get(name[-2:], 1)


_ALU, _LOAD = ("0 1 5 6 10",), ("2 3 11",)
PORTS["sapphire-rapids"] = CoreFamily(
    width=6,
    costs={
        "none": Cost((), 0),
        "jump": Cost(("0 6",)),
        "alu": Cost(_ALU),
        "scalar multiply": Cost(("1",), 3),
        "load": Cost(_LOAD, 6),
        "prefetch": Cost(_LOAD),
        "store": Cost(("4 9", "7 8"), 4),
        "fma": Cost(("0 1",), 4),
        "add": Cost(("1 5",), 3),
        "multiply": Cost(("0 1",), 5),
        "dot": Cost(("0 1",), 5),
        "dot bf16": Cost(("0 1",), 6, busy=2),
        "divide": Cost(("0",), 11, busy=5),
        "round": Cost(("0 1", "0 1"), 8),
        "convert": Cost(("0 1",), 4),
        "widen": Cost(("0 1", "5"), 7),
        "logic": Cost(("0 1 5",)),
        "shift": Cost(("0 1",)),
        "compare": Cost(("0 1",), 4),
        "shuffle": Cost(("1 5",)),
        "permute": Cost(("5",), 3),
        "mask": Cost(("0",)),
        "gather": Cost(("0", "5", *_LOAD * 8), 20),
        "tile dot": Cost(("5",), 52, busy=16),
        "tile load": Cost(("2 3",) * 16, 45),
        "tile store": Cost(("4 9", "7 8") * 16, 16),
        "tile zero": Cost(("0",)),
    },
    wide={
        "load": Cost(("2 3",), 7),
        "store": Cost(("4 9", "4 9", "7 8"), 4),
        "fma": Cost(("0 5",), 4),
        "add": Cost(("0 5",), 4),
        "multiply": Cost(("0",), 5),
        "dot": Cost(("0 5",), 5),
        "dot bf16": Cost(("0 5",), 6, busy=4),
        "divide": Cost(("0",), 18, busy=10),
        "round": Cost(("0 5", "0 5"), 8),
        "convert": Cost(("0 5",), 4),
        "widen": Cost(("0 5", "5"), 7),
        "logic": Cost(("0 5",)),
        "shift": Cost(("0",)),
        "compare": Cost(("5",), 3),
        "shuffle": Cost(("5",)),
        "gather": Cost(("0", "5", *_LOAD * 16), 26),
    },
)
"""Golden Cove: uops.info, and Intel's Optimization Reference Manual (tiles: 20.5); that of `dot bf16` was measured."""

_ALU5, _LOAD5, _ANY5 = ("A0 A1 A2 A3 A4 A5",), ("L0 L1",), ("F0 F1 F2 F3",)
PORTS["zen5"] = CoreFamily(
    width=8,
    costs={
        "none": Cost((), 0),
        "jump": Cost(("A3 A4 A5",)),
        "alu": Cost(_ALU5),
        "scalar multiply": Cost(("A0 A1 A2",), 3),
        "load": Cost(_LOAD5, 7),
        "prefetch": Cost(_LOAD5),
        "store": Cost(("S0 S1",), 7),
        "fma": Cost(("F0 F1",), 4),
        "add": Cost(("F2 F3",), 3),
        "multiply": Cost(("F0 F1",), 3),
        "dot": Cost(("F0 F1",), 4),
        "dot bf16": Cost(("F0 F1",), 6),
        "divide": Cost(("F1",), 11, busy=5),
        "round": Cost(("F2 F3",), 3),
        "convert": Cost(("F2 F3",), 4),
        "widen": Cost(("F2 F3", "F1 F2"), 5),
        "logic": Cost(_ANY5, 2),
        "shift": Cost(("F1 F2",), 2),
        "compare": Cost(("F0 F1",), 4),
        "shuffle": Cost(("F1 F2",), 2),
        "permute": Cost(("F1 F2",), 4),
        "mask": Cost(("F2 F3",), 2),
        "gather": Cost((*_LOAD5 * 8, *_ANY5 * 24), 30),
    },
    wide={"store": Cost(("S0 S1", "S0 S1"), 7), "divide": Cost(("F1",), 11, busy=7),
          "gather": Cost((*_LOAD5 * 16, *_ANY5 * 48), 40)},
)  # fmt: skip
"""AMD's Software Optimization Guide for the Zen 5 Microarchitecture (58455): pipes F0 to F3, integer units A, memory L
and S."""

_ALU3, _LOAD3, _ANY3 = ("A0 A1 A2 A3",), ("L0 L1",), ("F0 F1 F2 F3",)
PORTS["zen3"] = CoreFamily(
    width=6,
    costs={
        "none": Cost((), 0),
        "jump": Cost(("A0 B",)),
        "alu": Cost(_ALU3),
        "scalar multiply": Cost(("A1",), 3),
        "load": Cost(_LOAD3, 7),
        "prefetch": Cost(_LOAD3),
        "store": Cost(("S0",), 7),
        "fma": Cost(("F0 F1",), 4),
        "add": Cost(("F2 F3",), 3),
        "multiply": Cost(("F0 F3",), 3),
        "dot": Cost(("F0 F3",), 3),
        "divide": Cost(("F1",), 15, busy=3.6),
        "round": Cost(("F2 F3",), 3),
        "convert": Cost(("F2 F3",), 3),
        "widen": Cost(("F3", "F1 F2"), 4),
        "logic": Cost(_ANY3),
        "shift": Cost(("F1 F2",)),
        "compare": Cost(("F2 F3",)),
        "shuffle": Cost(("F1 F2",)),
        "permute": Cost(("F1 F2",), 4, busy=2),
        "gather": Cost((*_LOAD3 * 8, *_ANY3 * 40), 20),
    },
    wide={},
)
"""Pipes and latencies of AMD's Software Optimization Guide for AMD Family 19h (56665); rates, latencies and pairs of
kinds that share pipes were measured with 48 instructions of a loop on an EPYC of this family."""
