"""The features of x86 CPUs: bits of CPUID (Intel SDM volume 2, CPUID; AMD APM volume 3, appendix E) and of XCR0."""

from __future__ import annotations

from .detection import DETECTION, Detection, FeatureBit

_EAX, _EBX, _ECX, _EDX = range(4)
_VECTORS, _MASKS, _TILES = 0x06, 0xE6, 0x60000
"""State in XCR0: 256-bit registers; with masks and 512 bits; tile configuration and data."""

_QUESTIONS: dict[tuple[int, int, int], dict[str, int]] = {
    (1, 0, _ECX): {
        "sse3": 0, "pclmul": 1, "ssse3": 9, "cx16": 13, "sse4.1": 19, "sse4.2": 20, "movbe": 22, "popcnt": 23,
        "aes": 25, "fma": 12, "avx": 28, "f16c": 29,
    },
    (7, 0, _EBX): {
        "bmi": 3, "avx2": 5, "bmi2": 8, "adx": 19, "sha": 29, "avx512f": 16, "avx512dq": 17, "avx512ifma": 21,
        "avx512cd": 28, "avx512bw": 30, "avx512vl": 31,
    },
    (7, 0, _ECX): {
        "gfni": 8, "vaes": 9, "vpclmulqdq": 10, "avx512vbmi": 1, "avx512vbmi2": 6, "avx512vnni": 11, "avx512bitalg": 12,
        "avx512vpopcntdq": 14,
    },
    (7, 0, _EDX): {
        "avx512vp2intersect": 8, "avx512fp16": 23, "amx-bf16": 22, "amx-tile": 24, "amx-int8": 25,
    },
    (7, 1, _EAX): {"avxvnni": 4, "avx512bf16": 5, "amx-fp16": 21, "avxifma": 23},
    (0x80000001, 0, _ECX): {"lzcnt": 5, "prfchw": 8},
}  # fmt: skip

_OF_VECTORS = ("fma", "f16c", "avx", "avx2", "vaes", "vpclmulqdq", "avxvnni", "avxifma")


def _state(feature: str) -> int:
    if feature.startswith("amx"):
        return _TILES
    return _MASKS if feature.startswith("avx512") else _VECTORS if feature in _OF_VECTORS else 0


_TEXT = """
; Whether all bits of %mask are set in a register after a question; false for one that the CPU does not know.
define internal i1 @graphc_cpu_has(i32 %leaf, i32 %subleaf, i64 %register, i32 %mask) nounwind uwtable {
entry:
  %registers = alloca { i32, i32, i32, i32 }
  %range = and i32 %leaf, 2147483648
  %first = call { i32, i32, i32, i32 } asm sideeffect "cpuid",
    "={ax},={bx},={cx},={dx},{ax},{cx},~{dirflag},~{fpsr},~{flags}"(i32 %range, i32 0)
  %last = extractvalue { i32, i32, i32, i32 } %first, 0
  %unknown = icmp ult i32 %last, %leaf
  br i1 %unknown, label %no, label %ask
ask:
  %answer = call { i32, i32, i32, i32 } asm sideeffect "cpuid",
    "={ax},={bx},={cx},={dx},{ax},{cx},~{dirflag},~{fpsr},~{flags}"(i32 %leaf, i32 %subleaf)
  store { i32, i32, i32, i32 } %answer, ptr %registers
  %at = getelementptr i32, ptr %registers, i64 %register
  %bits = load i32, ptr %at
  %set = and i32 %bits, %mask
  %has = icmp eq i32 %set, %mask
  ret i1 %has
no:
  ret i1 false
}

; Whether the system saves these parts of the registers when it switches between programs.
define internal i1 @graphc_cpu_saves(i64 %state) nounwind uwtable {
entry:
  %can_tell = call i1 @graphc_cpu_has(i32 1, i32 0, i64 2, i32 134217728)
  br i1 %can_tell, label %ask, label %no
ask:
  %answer = call { i32, i32 } asm sideeffect "xgetbv", "={ax},={dx},{cx},~{dirflag},~{fpsr},~{flags}"(i32 0)
  %saved = extractvalue { i32, i32 } %answer, 0
  %wide = zext i32 %saved to i64
  %set = and i64 %wide, %state
  %all = icmp eq i64 %set, %state
  ret i1 %all
no:
  ret i1 false
}

; Asks the system for the permission to use tiles: arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA).
define internal i1 @graphc_tiles_permitted() nounwind uwtable {
  %refused = call i64 asm sideeffect "syscall",
    "={rax},{rax},{rdi},{rsi},~{rcx},~{r11},~{memory},~{dirflag},~{fpsr},~{flags}"(i64 158, i64 4131, i64 18)
  %permitted = icmp eq i64 %refused, 0
  ret i1 %permitted
}
"""

DETECTION["x86_64"] = Detection(
    {
        name: FeatureBit(*question, bit, _state(name))
        for question, names in _QUESTIONS.items()
        for name, bit in names.items()
    },
    _TEXT,
)
