"""`graphc fuzz`: random graphs compiled, run and compared with NumPy; what fails is shrunk and written down."""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ...base.errors import UserError
from ..model_arguments import add_options
from ..progress import Report, progress
from ..terminal import answer

if TYPE_CHECKING:
    from ...tools.fuzz.campaign import Tally
    from ...tools.fuzz.outcome import Outcome

MAX_WRONG = 20  # wrong results of one stage that are shrunk
HELP = "Compile and run random graphs, compare with NumPy, shrink failures"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    parser.add_argument("--seed", type=int, default=0, help="seed of the generator (default: 0)")
    parser.add_argument("--count", type=int, default=1000, help="number of graphs (default: 1000)")
    parser.add_argument(
        "--dynamic", action="store_true",
        help="make a dimension of every graph dynamic, and compare with static models of several sizes",
    )  # fmt: skip
    parser.add_argument(
        "--against", choices=("numpy", "ort"), default="numpy",
        help="ort: compare with ONNX Runtime, on graphs written as ONNX and on files with functions or tree ensembles",
    )  # fmt: skip
    parser.add_argument(
        "--resume", metavar="FILE", help="continue from the counts in FILE, and keep them there"
    )
    parser.add_argument(
        "--jobs", type=int, metavar="N", help="number of processes (default: one per CPU)"
    )
    parser.add_argument(
        "--timeout", type=float, default=60.0, metavar="SECONDS",
        help="time after which a case counts as slow (default: 60)",
    )  # fmt: skip
    parser.add_argument(
        "--shrink", type=float, default=60.0, metavar="SECONDS",
        help="time to shrink one failure; 0 does not shrink (default: 60)",
    )  # fmt: skip
    parser.add_argument(
        "--reproducer", metavar="DIR", default="graphc-fuzz",
        help="folder for the smallest failing cases (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument("--replay", metavar="DIR", help="check one case that was written before")
    add_options(parser, "json", "quiet")


def run(args: argparse.Namespace) -> int:
    """Print the counts and the failures; return 1 if there is a failure."""
    for name in ("count", "jobs"):
        if getattr(args, name) is not None and getattr(args, name) < 1:
            raise UserError(f"--{name} must be at least 1, got {getattr(args, name)}")
    if args.replay:
        return _replay(args)
    from ...runtime.threadpool import available_cpus
    from ...tools.fuzz.campaign import Tally, read_tally, run_campaign
    from ...tools.fuzz.workers import Workers

    resume = Path(args.resume) if args.resume else None
    tally = read_tally(resume, args.seed) if resume else Tally(args.seed)
    first, start = tally.done, time.perf_counter()
    with progress(args.quiet or args.json) as report:
        failures = _Failures(args, report)
        report("fuzz", 0, args.count)
        with Workers(args.jobs or available_cpus(), args.timeout) as workers:
            run_campaign(tally, args.count, workers, failures.on_case, resume, _routes(args))
    rate = (tally.done - first) / (time.perf_counter() - start)
    facts = {**tally.to_json(), "per_second": rate, "reproducers": failures.commands}
    answer(args, facts, _lines(tally, rate, failures.commands))
    return 1 if tally.failures else 0


def _routes(args: argparse.Namespace) -> tuple[str, ...] | None:
    """The ways that all graphs take; None for random ones."""
    chosen = {"dynamic": args.dynamic, "onnxruntime": args.against == "ort"}
    routes = tuple(route for route, used in chosen.items() if used)
    return routes or None


class _Failures:
    """Shrinks failures as soon as they occur, and writes one reproducer per cause.

    Wrong results say nothing of their cause before they are shrunk: of them, `MAX_WRONG` are.
    """

    def __init__(self, args: argparse.Namespace, report: Report) -> None:
        self._args = args
        self._report = report
        self._met: Counter[str] = Counter()
        self.commands: dict[str, str] = {}

    def on_case(self, index: int, outcome: Outcome) -> None:
        """Show progress; look into a failure."""
        self._report("fuzz", index + 1, self._args.count)
        if not outcome.is_failure:
            return
        self._met[outcome.signature] += 1
        if self._met[outcome.signature] <= (MAX_WRONG if outcome.kind == "wrong" else 1):
            self._look_into(index, outcome)

    def _look_into(self, index: int, outcome: Outcome) -> None:
        from ...tools.fuzz.case import Case, case_of
        from ...tools.fuzz.reproducer import write_reproducer
        from ...tools.fuzz.shrink import shrink
        from ...tools.fuzz.workers import Worker

        case = case_of(self._args.seed, index, _routes(self._args))
        if self._args.shrink > 0 and isinstance(case, Case):
            worker = Worker(self._args.timeout)
            try:
                case, outcome = shrink(case, outcome, worker, self._args.shrink)
            finally:
                worker.close()
        ops: list[str] = []
        if isinstance(case, Case):
            ops = [op.op_name for op in case.graph.ops if op.kind not in ("source", "sink")]
        cause = " ".join((outcome.signature, *ops))
        if cause not in self.commands:
            folder = Path(self._args.reproducer, f"{self._args.seed}-{index}-{outcome.kind}")
            self.commands[cause] = write_reproducer(folder, case, outcome)


def _replay(args: argparse.Namespace) -> int:
    """Check one case that was written before."""
    from ...tools.fuzz.reproducer import read_reproducer
    from ...tools.fuzz.workers import Worker

    worker = Worker(args.timeout)
    try:
        outcome = worker.check(read_reproducer(Path(args.replay)).to_json())
    finally:
        worker.close()
    text = f"{outcome.kind} {outcome.stage}: {outcome.message}" if outcome.message else "right"
    answer(args, vars(outcome), [text])
    return 1 if outcome.is_failure else 0


def _lines(tally: Tally, rate: float, commands: dict[str, str]) -> Iterator[str]:
    from ...tools.fuzz.outcome import OUTCOMES

    counts = ", ".join(f"{tally.counts[kind]} {kind}" for kind in OUTCOMES)
    yield f"seed {tally.seed}: {tally.done} graphs, {rate:.1f} a second: {counts}"
    for refusal, count in tally.refusals.most_common(10):
        yield f"  {count:>5}  {refusal}"
    for index, outcome in tally.failures:
        yield f"case {index}: {outcome.kind} {outcome.stage}: {outcome.message}"
    for command in commands.values():
        yield f"again     {command}"
