"""One case, every engine: results compared first, then timed in interleaved rounds."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from typing import TYPE_CHECKING

from ..base.errors import UnsupportedError
from ..base.records import dataclass
from ..codegen.host import target_for
from ..driver.compiler import compile as compile_model
from ..graph_ir.inspect.compare import difference, relative_rms
from .cases import Array, Case, specs_of
from .exact import exact_results
from .measure import Timing, interleave
from .peak import measured_peak
from .peers import Contender, RefusedModel, gathered, graphc_contender, make_peer
from .roofline import COMPUTE, read_seconds, roofline

if TYPE_CHECKING:
    from ..runtime.executor import CompiledModel
    from ..targets.isa import Target

OnStep = Callable[[str, int, int], None]

F32 = "f32"
"""The name under which the f32 model of a quantized case is timed."""
FIXED = "fixed"
"""The name under which graphc's model of one size is timed beside that of dynamic dimensions."""
EAGER = "eager"
"""The name under which a module that PyTorch runs itself is timed, whose results the others must have."""
FROZEN = "frozen"
"""The name under which `torch.compile` is timed with graphc's option that promises modules which do not change."""
MODULE = "module"
"""The name under which `graphc.torch.compile` is timed beside `torch.compile`, whose guards it has no part in."""


@dataclass(frozen=True)
class Roof:
    """The bound of a case, `compute` or a level of memory, and the minimum seconds it allows."""

    name: str
    seconds: float


@dataclass(frozen=True)
class Row:
    """One case: work, the machine's peak at that time, and each engine's times.

    `worst` is the largest relative deviation; `wrong` are the engines whose results are, `refused` those that cannot
    run the model, and why. Among the engines of a quantized case is "f32": graphc with the model it was made of.
    Single operators have a roof. A model of dynamic dimensions is timed beside "fixed", graphc's model of the sizes of
    the row; `same_bits` says whether their results are equal bit for bit. `precisions` are the compute dtypes of f32
    matmuls that engines report. A problem of the lab has `sizes` for its dynamic dimensions, and the `nbytes` of its
    operands and results.
    """

    name: str
    gflop: float
    peak: float
    timings: dict[str, Timing]
    worst: float
    wrong: frozenset[str] = frozenset()
    refused: Mapping[str, str] = field(default_factory=dict)
    roof: Roof | None = None
    same_bits: bool | None = None
    precisions: Mapping[str, str] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)
    nbytes: int = 0

    @property
    def roof_name(self) -> str:
        """Return the bound, `compute` or a level of memory; "" without one."""
        return self.roof.name if self.roof else ""

    @property
    def roof_seconds(self) -> float:
        """Return the least time that the roof allows; 0 without one."""
        return self.roof.seconds if self.roof else 0.0

    @property
    def of_roof(self) -> float:
        """Return the share of the roof that graphc reaches."""
        return self.roof_seconds / self.timings["graphc"].median

    def gflops(self, engine: str) -> float:
        """GFLOP/s by the median."""
        return self.gflop / self.timings[engine].median

    @property
    def is_quantized(self) -> bool:
        """Return whether there is an f32 model beside it."""
        return F32 in self.timings

    @property
    def has_reference(self) -> bool:
        """Return whether engines are judged by themselves: by exact results, or by those of PyTorch itself."""
        return self.is_quantized or EAGER in self.timings

    @property
    def agree(self) -> bool:
        """Return whether graphc is right; without an exact reference, whether all engines agree."""
        if "graphc" in self.refused:
            return False
        return "graphc" not in self.wrong if self.has_reference else not self.wrong

    @property
    def ratio(self) -> float | None:
        """Best peer's median divided by graphc's: above 1 graphc is faster. None without peers.

        Where there is a reference, the best peer whose result is right.
        """
        return self.ratio_of("graphc")

    def ratio_of(self, engine: str) -> float | None:
        """The same of another engine of graphc's. None where it was not timed."""
        left_out = {"graphc", F32, FIXED, FROZEN, MODULE}
        left_out |= self.wrong if self.has_reference else frozenset()
        others = [timing.median for name, timing in self.timings.items() if name not in left_out]
        if not others or engine not in self.timings:
            return None
        return min(others) / self.timings[engine].median

    @property
    def gain(self) -> float | None:
        """The speedup of a quantized model over its f32 model."""
        if not self.is_quantized:
            return None
        return self.timings[F32].median / self.timings["graphc"].median

    @property
    def to_fixed(self) -> float | None:
        """Time of the model of dynamic dimensions relative to that of the model of one size."""
        if FIXED not in self.timings:
            return None
        return self.timings["graphc"].median / self.timings[FIXED].median


@dataclass(frozen=True)
class Setting:
    """Timing parameters shared by every case of a table."""

    peers: Sequence[str]
    target: str
    threads: int
    rounds: int
    seconds: float


def compare(case: Case, setting: Setting, report: OnStep) -> Row:
    """Load the case into every engine, check that they agree, and time them.

    A quantized case is checked against its exact results, and its f32 model is timed as one more engine. Where a
    case `may_be_refused`, engines that cannot run it are named in its row.
    """
    report(case.name, 0, setting.rounds)
    target, arrays = target_for(setting.target), case.arrays()
    peak = measured_peak(target) * setting.threads
    try:
        model = compile_model(
            case.model, setting.target, setting.threads, specs_of(arrays), precision=case.precision
        )
    except UnsupportedError as error:
        if not case.may_be_refused:
            raise
        return Row(case.name, 0.0, peak, {}, 0.0, refused={"graphc": str(error)})
    contenders, refused = _contenders(case, model, arrays, setting)
    worst, wrong = (
        deviation(contenders)
        if case.origin is None
        else _distance(contenders, exact_results(case.exact(), arrays), case.noise)
    )
    gflop = model.stats["gflop"] if case.op_gflop is None else case.op_gflop
    roof = None if case.op_gflop is None else _roof(case, model, target, setting.threads)
    row = timed_row(case.name, contenders, setting.rounds, setting.seconds, (worst, wrong), report)
    return replace(row, gflop=gflop, peak=peak, refused=refused, roof=roof)


def timed_row(
    name: str,
    contenders: Sequence[Contender],
    rounds: int,
    seconds: float,
    judged: tuple[float, frozenset[str]] | None = None,
    report: OnStep | None = None,
) -> Row:
    """Time contenders, which are compared with the first unless they are `judged`: (deviation, the wrong ones)."""
    worst, wrong = judged or deviation(contenders)
    told = partial(report, name) if report else None
    timings = interleave({c.name: c.run for c in contenders}, rounds, seconds, told)
    used = {c.name: c.precision for c in contenders if c.precision}
    return Row(name, 0.0, 0.0, timings, worst, wrong, precisions=used)


def _contenders(
    case: Case, model: CompiledModel, arrays: Mapping[str, Array], setting: Setting
) -> tuple[list[Contender], dict[str, str]]:
    """graphc and all that can run the case, each run once, and why the others cannot."""
    in_bf16 = case.precision == "bf16"
    peers, refused = gathered(
        setting.peers, lambda name: make_peer(name, case.onnx(), arrays, setting.threads, in_bf16)
    )
    if refused and not case.may_be_refused:
        raise RefusedModel(next(iter(refused.values())))
    found = [graphc_contender(model, arrays), *peers.values()]
    if case.origin is not None:
        origin = compile_model(case.origin, setting.target, setting.threads, specs_of(arrays))
        found.append(graphc_contender(origin, arrays, F32))
    for contender in found:
        contender.run()
    return found, refused


def _roof(case: Case, model: CompiledModel, target: Target, threads: int) -> Roof:
    """Work at the peak of the type that is multiplied, or operands and results at the bandwidth of their level.

    Where their size is near that of the last cache, that bandwidth is measured for it, here and now.
    """
    roofs = roofline(target, threads).of_type(case.multiplied or model.inputs[0].dtype.name)
    nbytes = _nbytes(model, case.selects)
    name, least = roofs.bound(case.op_gflop or 0.0, nbytes)
    if name != COMPUTE and roofs.is_between(nbytes):
        return Roof(f"{nbytes >> 20}MB", read_seconds(target, threads, nbytes))
    return Roof(name, least)


def _nbytes(model: CompiledModel, selects: bool) -> int:
    """Bytes that a model reads and writes at least; one that `selects` reads from its first operand what it writes."""
    facts = model.artifact.metadata
    written = sum(x.nbytes for x in facts.outputs)
    read = [x.nbytes for x in facts.inputs]
    if not selects:
        return sum(read) + len(model.artifact.constants) + written
    return sum(read) - max(read) + 2 * written if len(read) > 1 else 2 * written


def deviation(contenders: Sequence[Contender]) -> tuple[float, frozenset[str]]:
    """The largest deviation from graphc, and the engines that differ from it."""
    ours, *others = [(c.name, c.results()) for c in contenders]
    found = [
        (name, difference(a, b))
        for name, other in others
        for a, b in zip(ours[1], other, strict=True)
    ]
    wrong = frozenset(name for name, d in found if not d.ok)
    return max((d.relative for _, d in found), default=0.0), wrong


def _distance(
    contenders: Sequence[Contender], exact: Sequence[Array], noise: float
) -> tuple[float, frozenset[str]]:
    """graphc's distance from the exact results, and the engines farther from them than the f32 model is, or `noise`.

    Values between two integers may be rounded either way by sums in another order, and later layers go on from there:
    that is noise below that of quantization. Saturated sums are far above it.
    """
    far = {c.name: relative_rms(c.results(), exact) for c in contenders}
    bound = max(far[F32], noise)
    return far["graphc"], frozenset(name for name, distance in far.items() if distance > bound)


def geometric_mean(rows: Sequence[Row], engine: str = "graphc") -> float | None:
    """Geometric mean of the ratios of an engine of graphc's; None without peers."""
    return mean_of(row.ratio_of(engine) for row in rows)


def mean_of(ratios: Iterable[float | None]) -> float | None:
    """Geometric mean of the ratios that are known; None if none is."""
    known = [ratio for ratio in ratios if ratio is not None]
    return statistics.geometric_mean(known) if known else None
