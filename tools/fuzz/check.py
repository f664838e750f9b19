"""One case checked: written and read as text, compiled, run between guard pages, and compared with the references."""

from __future__ import annotations

import math
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

from ...base.dtypes import F64
from ...base.errors import UnsupportedError, UserError
from ...base.options import CompileOptions
from ...driver.compiler import compile_stages
from ...frontend.correspondence.values import attributes_of
from ...graph_ir.ir.graph import Array, Graph
from ...graph_ir.rewriting.known_sizes import with_sizes
from ...graph_ir.text.parser import parse_graph
from ...graph_ir.text.printer import print_graph
from ...runtime.artifact import Artifact
from ...runtime.executor import CompiledModel
from ..error_bound import CAREFUL, DISTURBED, Expected, expected_outputs
from ..sum_rounding import ANYTHING
from .case import Case
from .certainty import Certainty, Freedom, certainties
from .dynamic_sizes import DYNAMIC, arrays_at, sizes_to_try, with_dynamic_size
from .format_route import RefusedFile, reread, run_by_onnxruntime
from .native_run import GuardedModel, run_guarded
from .outcome import INTERNAL, REFUSED, RIGHT, WRONG, Outcome


class Wrong(Exception):
    """A result is not what it must be; the sentence says which."""


class Check:
    """The stages of one case, and what formats refused."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.stage = "text"
        self.refusals: list[str] = []

    def run(self) -> None:
        """Every stage in turn; raises at the first that fails."""
        case = self.case
        self._text()
        self.stage = "reference"
        expected = _expectation(case.graph, case.arrays)
        expected(DISTURBED)
        freedom = Freedom.NONE if "winograd" in case.setting.disabled else Freedom.WINOGRAD
        known = certainties(case.graph, case.arrays, freedom)
        self.stage = "compile"
        options, target = case.setting.options(), case.setting.resolved_target()
        artifact = compile_stages(case.graph, target, options).artifact
        self.stage = "run"
        model = GuardedModel(artifact, case.setting.threads)
        results = run_guarded(model, case.arrays, "end")
        compare_carefully(results, expected, known)
        self._conditions(artifact, known)
        again = run_guarded(model, case.arrays, "start", is_serial=True)
        self.stage = "threads" if case.setting.threads > 1 else "run again"
        _same_bits(results, again)
        for route in case.setting.routes:
            self.stage = route
            if route == "gcm":
                reloaded = GuardedModel(_reloaded(artifact), 1)
                _same_bits(results, run_guarded(reloaded, case.arrays, "end"))
            elif route == "dynamic":
                self._dynamic()
            elif route == "onnxruntime":
                self._peer(expected, certainties(case.graph, case.arrays, freedom | Freedom.NAN))
            else:
                self._format(route, expected, known)

    def _conditions(self, artifact: Artifact, known: list[Certainty]) -> None:
        """A call ends as the evaluation of the graph does, where it is certain which conditions hold."""
        checks = len(self.case.graph.checks)
        if not checks or max(known[-checks:]) > Certainty.EXACT:
            return
        self.stage = "conditions"
        with np.errstate(all="ignore"):
            wanted = _complaint(lambda: self.case.graph.evaluate(self.case.arrays))
        with CompiledModel(artifact, self.case.setting.threads) as model:
            found = _complaint(lambda: model(*self.case.arrays))
        if found != wanted:
            raise Wrong(f"a call ends with '{found}', not with '{wanted}'")

    def _dynamic(self) -> None:
        """A model with one dynamic size, from 0 on if it can be, against models of several sizes."""
        setting = self.case.setting
        disabled = setting.options().disabled | {"winograd"}  # not offered for dynamic dimensions
        options, target = replace(setting.options(), disabled=disabled), setting.resolved_target()
        refusal = ""
        for least in (0, 1):
            found = with_dynamic_size(self.case.graph, least)
            if found is None:
                refusal = "dynamic: no size can be dynamic"
                continue
            try:
                artifact = compile_stages(found[0], target, options).artifact
            except UnsupportedError as error:
                refusal = f"dynamic {type(error).__name__} {str(error).partition(':')[0]}"
                continue
            graph, number = found
            model = GuardedModel(artifact, setting.threads)
            for one in sizes_to_try(number, least):
                self.stage = f"dynamic at {one} for {number}"
                self._dynamic_at(graph, one, model, options)
            return
        self.refusals.append(refusal)

    def _dynamic_at(
        self, graph: Graph, one: int, model: GuardedModel, options: CompileOptions
    ) -> None:
        target = self.case.setting.resolved_target()
        try:
            fixed = with_sizes(graph, {DYNAMIC: one})
            arrays = arrays_at(fixed, self.case.arrays)
            alone = compile_stages(fixed, target, options).artifact
        except (UserError, UnsupportedError):  # an op does not take this size
            return
        results = run_guarded(model, arrays, "end")
        wanted = run_guarded(GuardedModel(alone, self.case.setting.threads), arrays, "end")
        if not _are_same_bits(wanted, results):  # sums may be added in another order
            known = certainties(fixed, arrays, Freedom.NONE)
            compare_carefully(results, _expectation(fixed, arrays), known)

    def _text(self) -> None:
        graph = self.case.graph
        if not parse_graph(print_graph(graph, full=True)).compare_contents(graph):
            raise Wrong("what is parsed is not what was printed")

    def _format(self, name: str, expected: Expectation, known: list[Certainty]) -> None:
        twin = self._reread(name)
        if twin is None:
            return
        own = _expectation(twin, _in_order(twin, self.case))
        self._compare_rewritten(name, [o.value for o in own(DISTURBED)], own, expected, known)

    def _peer_twin(self) -> Graph | None:
        """The graph of the ops that ONNX Runtime runs."""
        return self._reread("onnx")

    def _peer_results(self, folder: Path) -> list[Array]:
        """Return the results of ONNX Runtime."""
        return run_by_onnxruntime(self.case.graph, folder, self.case.arrays)

    def _peer(self, expected: Expectation, known: list[Certainty]) -> None:
        """Run the file unchanged, and read it back for the bounds of the ops that it has."""
        twin = self._peer_twin()
        if twin is None:
            return
        try:
            with tempfile.TemporaryDirectory() as folder:
                found = self._peer_results(Path(folder))
        except (UnsupportedError, UserError) as error:
            self.refusals.append(f"onnxruntime: {error}")
            return
        except RefusedFile as error:
            raise Wrong(f"the ONNX file is refused: {error}") from error
        exact = _expectation(twin, _in_order(twin, self.case))
        self._compare_rewritten(
            "onnx", found, lambda n: [_loosened(e) for e in exact(n)], expected, known
        )

    def _reread(self, name: str) -> Graph | None:
        """The graph written in a format and read again; None where it cannot be."""
        try:
            with tempfile.TemporaryDirectory() as folder:
                return reread(self.case.graph, name, Path(folder))
        except (UnsupportedError, UserError) as error:
            self.refusals.append(f"{name}: {error}")
            return None

    def _compare_rewritten(
        self,
        name: str,
        found: Sequence[Array],
        own: Expectation,
        expected: Expectation,
        known: list[Certainty],
    ) -> None:
        if _rounds_parameters(name, self.case.graph):
            known = [Certainty.UNKNOWN if c == Certainty.ROUGH else c for c in known]

        def together(walks: int) -> list[Expected]:
            """Evaluate ops that the format expresses by others with the rounding of those."""
            return [
                Expected(e.value, e.bound + o.bound) if e.value.shape == o.value.shape else e
                for e, o in zip(expected(walks), own(walks), strict=True)
            ]

        compare_carefully(found, together, known)


Expectation = Callable[[int], list[Expected]]
"""Number of perturbed evaluations -> the expected results, with the bounds they give."""


def _expectation(graph: Graph, arrays: Sequence[Array]) -> Expectation:
    @cache
    def expected(walks: int) -> list[Expected]:
        with np.errstate(all="ignore"):
            return expected_outputs(graph, arrays, walks)

    return expected


def compare_carefully(
    results: Sequence[Array], expected: Expectation, known: Sequence[Certainty]
) -> None:
    """`compare`; a result beyond its bound is judged again by one that more evaluations give."""
    try:
        compare(results, expected(DISTURBED), known)
    except Wrong:
        compare(results, expected(CAREFUL), known)


def _loosened(wanted: Expected) -> Expected:
    """The same value with the bound of an engine whose functions are less accurate: a share of the largest number."""
    sizes = np.abs(wanted.value.astype(np.float64))
    largest = np.max(sizes, where=np.isfinite(sizes), initial=0.0)
    share = PEER_ERRORS[wanted.value.dtype.itemsize > 2]
    return Expected(wanted.value, wanted.bound + share * largest)


PEER_ERRORS = (1e-2, 1e-5)
"""Error bounds of types of 16 bits and of wider ones."""


def _complaint(call: Callable[[], object]) -> str:
    """The sentence of the condition that does not hold; "" where all do."""
    try:
        call()
    except UserError as error:
        return str(error)
    return ""


def _rounds_parameters(name: str, graph: Graph) -> bool:
    """Return whether a format rounds the graph's numbers: ONNX and PNNX have 32-bit floats, GE's text has
    six decimals."""
    if name == "ge":
        return any(
            isinstance(x, float) and math.isfinite(x) and round(x, 6) != x
            for op in graph.ops
            for x in attributes_of(op).values()
        )
    wide = any(y.details.dtype == F64 for op in graph.ops for y in op.outputs)
    return wide and name in ("onnx", "pnnx")


def check(case: Case) -> Outcome:
    """Return the outcome of a case in this process, which may not survive it."""
    return outcome_of(Check(case))


def outcome_of(run: Check) -> Outcome:
    """Run a check, and say how it ends."""
    start = time.perf_counter()
    kind, message = RIGHT, ""
    try:
        run.run()
    except Wrong as error:
        kind, message = WRONG, str(error)
    except (UserError, UnsupportedError) as error:
        kind, message = REFUSED, str(error)
    except MemoryError:
        kind, message = INTERNAL, "out of memory"
    except Exception as error:  # noqa: BLE001 - this is what is looked for
        kind, message = INTERNAL, f"{type(error).__name__}: {_first_line(error)} {_where(error)}"
    return Outcome(kind, run.stage, message, tuple(run.refusals), time.perf_counter() - start)


def compare(
    results: Sequence[Array], expected: Sequence[Expected], known: Sequence[Certainty]
) -> None:
    """Wrong where a result has another type, other values if they are exact, or is off by more than its bound."""
    for number, (result, wanted, sure) in enumerate(zip(results, expected, known, strict=True)):
        value = wanted.value
        if (result.shape, result.dtype) != (value.shape, value.dtype):
            found = f"{result.dtype}{list(result.shape)}"
            raise Wrong(f"result {number} is {found}, not {value.dtype}{list(value.shape)}")
        if sure == Certainty.UNKNOWN:
            continue
        exact = sure == Certainty.EXACT
        bound = np.zeros(()) if exact else wanted.bound
        error = Expected(value, bound).error(result if exact else _without_poles(result, wanted))
        if not error.ok:
            at = error.position
            pair = f"{result.reshape(-1)[at]} instead of {value.reshape(-1)[at]}"
            raise Wrong(f"result {number} is {sure.name.lower()}, and has {pair}: {error}")


def _without_poles(result: Array, wanted: Expected) -> Array:
    """The expected value in place of what is not finite where rounding alone is left of it: terms that cancel may add
    up to 0, and a power of that is infinite; or to either sign, of which a logarithm may be anything."""
    value = wanted.value.astype(np.float64)
    lost = np.isfinite(value) & (wanted.bound >= np.abs(value)) & (value != 0)
    lost &= ~np.isfinite(result.astype(np.float64))
    return np.where(lost | (wanted.bound >= ANYTHING), wanted.value, result)


def _same_bits(one: Sequence[Array], other: Sequence[Array]) -> None:
    for number, (a, b) in enumerate(zip(one, other, strict=True)):
        if not _are_same_bits([a], [b]):
            raise Wrong(f"result {number} has other bits in another run")


def _are_same_bits(one: Sequence[Array], other: Sequence[Array]) -> bool:
    return all(a.tobytes() == b.tobytes() for a, b in zip(one, other, strict=True))


def _reloaded(artifact: Artifact) -> Artifact:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.gcm")
        artifact.save(path)
        return Artifact.load(path)


def _in_order(graph: Graph, case: Case) -> list[Array]:
    """The arrays in the order in which a graph that was read has its inputs; formats may change names and order."""
    by_name = {op.name: a for op, a in zip(case.graph.inputs, case.arrays, strict=True)}
    names = [op.name for op in graph.inputs]
    return [by_name[name] for name in names] if set(names) == set(by_name) else case.arrays


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [""])[0][:300]


def _where(error: Exception) -> str:
    """File and function that raised, of our own code if possible."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [f for f in frames if "graphc" in f.filename and "/fuzz/" not in f.filename] or frames
    last = ours[-1]
    return f"(in {Path(last.filename).name}, {last.name})"
