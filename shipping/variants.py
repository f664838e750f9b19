"""The variants of a model in one library, each for some CPUs, and the function of the library that chooses one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..base.errors import InternalError, UnsupportedError
from ..base.records import dataclass
from ..runtime.artifact import Artifact
from ..targets.detection import DETECTION, Detection, FeatureBit
from ..targets.isa import ISAS, Target, tile_features

SELECT = "graphc_select"
"""`ptr graphc_select()`: the table of the chosen variant, null where none runs on this CPU."""


@dataclass(frozen=True, eq=False)
class Variant:
    """Code of an artifact for CPUs with the features it `needs`; `number` is that of the artifact among several."""

    number: int
    artifact: Artifact
    code: bytes
    needs: tuple[str, ...]
    uses_tiles: bool = False

    @property
    def isa(self) -> str:
        """The instruction set of the code: without tiles, the one that has them extends another."""
        meta = self.artifact.metadata
        has_lost_tiles = meta.uses_tiles and not self.uses_tiles
        return ISAS[meta.isa].extends if has_lost_tiles else meta.isa


def variants_of(artifacts: Sequence[Artifact]) -> list[Variant]:
    """Return the variants of a model's artifacts, the preferred one first; the widest artifact should come first."""
    found = []
    for number, artifact in enumerate(artifacts):
        meta = artifact.metadata
        plain = artifact.object_code
        if meta.uses_tiles:
            tiles = (*meta.cpu_features, *tile_features())
            found.append(Variant(number, artifact, plain, tiles, True))
            plain = artifact.vector_code
        if plain:
            found.append(Variant(number, artifact, plain, meta.cpu_features))
    return found


def selection(variants: Sequence[Variant], any_cpu: Target) -> str:
    """Return LLVM IR of `SELECT`: `@table.N` are the tables.

    If there is a choice, the loader makes it once, or each call where the system's loader cannot. `any_cpu`: the target
    of code for every CPU of the machine. Raise UnsupportedError if code needs more, and the machine has no detection.
    """
    machine = variants[0].artifact.metadata.triple.partition("-")[0]
    tables = [
        f"define internal ptr @graphc_variant.{i}() #0 {{\n  ret ptr @table.{i}\n}}\n"
        for i in range(len(variants))
    ]
    detection = DETECTION.get(machine)
    if detection is None:
        _check_undetected(variants[0], any_cpu)
    if detection is None or not variants[0].needs:
        return f"define internal ptr @{SELECT}() #0 {{\n  ret ptr @table.0\n}}\n"
    lines = ["define internal ptr @graphc_resolve() #0 {", "  br label %variant.0"]
    for i, variant in enumerate(variants):
        otherwise = f"variant.{i + 1}"
        lines.append(f"variant.{i}:")
        for number, test in enumerate(_tests(variant, detection)):
            on = f"v{i}.{number}"
            lines += [f"  %{on}.yes = call i1 @{test}"]
            lines += [f"  br i1 %{on}.yes, label %{on}, label %{otherwise}", f"{on}:"]
        lines.append(f"  ret ptr @graphc_variant.{i}")
    lines += [f"variant.{len(variants)}:", "  ret ptr @graphc_variant.none", "}", ""]
    none = "define internal ptr @graphc_variant.none() #0 {\n  ret ptr null\n}\n"
    chosen = _PER_CALL if any_cpu.system else _ONCE
    return "\n".join((detection.text, *tables, none, "\n".join(lines), chosen))


_ONCE = f"@{SELECT} = internal ifunc ptr (), ptr @graphc_resolve\n"
_PER_CALL = f"""\
define internal ptr @{SELECT}() #0 {{
  %variant = call ptr @graphc_resolve()
  %table = call ptr %variant()
  ret ptr %table
}}
"""


def _check_undetected(variant: Variant, any_cpu: Target) -> None:
    extra = [feature for feature in variant.needs if not any_cpu.has(feature)]
    if extra:
        raise UnsupportedError(
            f"a library for {variant.isa} cannot tell whether a CPU has {', '.join(extra)}; "
            f"compile for --target {any_cpu.isa}"
        )


def _tests(variant: Variant, detection: Detection) -> Iterable[str]:
    """Yield calls that must all be true; the system decides last."""
    questions: dict[tuple[int, int, int], int] = {}
    state = 0
    for feature in variant.needs:
        bit = _bit(feature, detection)
        key = (bit.leaf, bit.subleaf, bit.register)
        questions[key] = questions.get(key, 0) | 1 << bit.bit
        state |= bit.state
    for (leaf, subleaf, register), mask in questions.items():
        words = f"i32 {leaf}, i32 {subleaf}, i64 {register}, i32 {mask}"
        yield f"graphc_cpu_has({words})"
    if state:
        yield f"graphc_cpu_saves(i64 {state})"
    if variant.uses_tiles:
        yield "graphc_tiles_permitted()"


def _bit(feature: str, detection: Detection) -> FeatureBit:
    if feature not in detection.bits:
        raise InternalError(f"code needs the CPU feature '{feature}', whose bit is not known")
    return detection.bits[feature]
