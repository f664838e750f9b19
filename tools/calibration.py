"""Ranges of a model's activations on sample inputs, for static quantization to u8."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field

import numpy as np

from ..base.dims import Size, bounds
from ..base.errors import UserError
from ..base.records import dataclass
from ..driver.compiler import compile as compile_model
from ..graph_ir.ir.graph import Array, Graph
from ..graph_ir.ir.logical_tensor import LogicalTensor
from ..graph_ir.ir.note import MODEL_VALUES

METHODS = ("min-max", "percentile", "mse")
BINS = 2048
LEVELS = 255
"""Steps of u8."""

SHARES = np.linspace(0.2, 1.0, 65)
"""Fractions of the whole range that are tried for the least mean square error."""

OnStep = Callable[[str, int, int], None]
Range = tuple[float, float]


@dataclass
class _Seen:
    """The values of one tensor so far: their range, then their histogram over it."""

    low: float = 0.0
    high: float = 0.0
    counts: Array = field(default_factory=lambda: np.zeros(BINS, np.int64))

    def widen(self, value: Array) -> None:
        if value.size:
            self.low = min(self.low, float(value.min()))
            self.high = max(self.high, float(value.max()))

    def count(self, value: Array) -> None:
        found, _ = np.histogram(value, BINS, (self.low, self.high or 1.0))
        self.counts += found

    @property
    def centers(self) -> Array:
        width = ((self.high or 1.0) - self.low) / BINS
        return np.asarray(self.low + width * (np.arange(BINS) + 0.5))


def batches_of(graph: Graph, arrays: Mapping[str, Array]) -> list[dict[str, Array]]:
    """Split sample inputs into runs: arrays with several times a model's rows, or whole inputs concatenated.

    If the number of rows is dynamic, a run has as few as the model allows. Raise UserError if an input is missing,
    unknown or of another shape, or inputs disagree in the number of runs.
    """
    cut: dict[str, list[Array]] = {}
    known = {op.name: op.outputs[0].details for op in graph.inputs}
    unknown = sorted(set(arrays) - set(known))
    missing = sorted(set(known) - set(arrays))
    if unknown or missing:
        raise UserError(
            f"calibration inputs must be those of the model, {', '.join(known)}, got {', '.join(sorted(arrays))}"
        )
    for name, details in known.items():
        runs = _runs(arrays[name], details)
        if runs is None or not runs.size:
            raise UserError(
                f"calibration input '{name}': it must hold samples of {details}, "
                f"got {arrays[name].dtype} {list(arrays[name].shape)}"
            )
        # What is too large becomes infinite, and is refused as that.
        with np.errstate(over="ignore"):
            cut[name] = list(np.ascontiguousarray(runs.astype(details.dtype.numpy)))
    counts = {len(runs) for runs in cut.values()}
    if len(counts) != 1:
        sizes = ", ".join(f"{name} {len(runs)}" for name, runs in cut.items())
        raise UserError(f"calibration inputs must hold equally many samples, got {sizes}")
    return [{name: runs[i] for name, runs in cut.items()} for i in range(counts.pop())]


def _runs(array: Array, details: LogicalTensor) -> Array | None:
    """An array cut along its first axis into inputs of a run; None if it holds other samples."""
    dims, dtype = details.plain_dims, details.dtype
    if array.dtype.kind not in ("biuf" if dtype.is_float else "biu") and array.dtype != dtype.numpy:
        return None
    if _are(array.shape[1:], dims):
        return array
    if not dims or not _are(array.shape[1:], dims[1:]):
        return None
    rows = max(bounds(dims[0])[0], 1)
    return None if array.shape[0] % rows else array.reshape(-1, rows, *array.shape[1:])


def _are(shape: tuple[int, ...], dims: Sequence[Size]) -> bool:
    """Return whether a shape has these sizes, any number where they are dynamic."""
    return len(shape) == len(dims) and all(
        not isinstance(size, int) or size == number
        for number, size in zip(shape, dims, strict=True)
    )


def computed_values(source: Graph) -> set[str]:
    """The names of a model's inputs, and of the values that are computed when it runs."""
    tensors = {y.name for op in source.ops if not op.is_constant for y in op.outputs}
    names = MODEL_VALUES.of(source)
    return {op.name for op in source.inputs} | {
        name for name, tensor in names.items() if tensor in tensors
    }


def calibrate(
    source: Graph,
    values: Sequence[str],
    batches: Sequence[Mapping[str, Array]],
    method: str = "min-max",
    percentile: float = 99.99,
    step: OnStep | None = None,
) -> dict[str, Range]:
    """The range of each of the model's `values` over all batches, 0 within; the model runs natively.

    `percentile`: the share of values, in percent, that method "percentile" keeps. Raise UserError for values that are
    not finite.
    """
    report = step or (lambda phase, done, total: None)
    seen = {name: _Seen() for name in values}
    for name, value in _observed(source, values, batches, report, "ranges"):
        if not np.all(np.isfinite(value)):
            raise UserError(
                f"calibration: '{name}' has values that are not finite; check the inputs"
            )
        seen[name].widen(value)
    if method != "min-max":
        for name, value in _observed(source, values, batches, report, "counts"):
            seen[name].count(value)
    return {name: _range(found, method, percentile) for name, found in seen.items()}


def _observed(
    source: Graph,
    values: Sequence[str],
    batches: Sequence[Mapping[str, Array]],
    report: OnStep,
    phase: str,
) -> Iterator[tuple[str, Array]]:
    """Every value of every batch."""
    tapped, tensor_names = source.copy(), MODEL_VALUES.of(source)
    inputs = {op.name for op in source.inputs}
    tensors = {y.name: y for op in tapped.ops for y in op.outputs}
    computed = [name for name in values if tensor_names.get(name, name) not in inputs]
    for op in list(tapped.outputs):
        tapped.remove([op])
    for number, name in enumerate(computed):
        tapped.make_output(tensors[tensor_names.get(name, name)], f"tap{number}")
    model = compile_model(tapped) if computed else None
    for done, batch in enumerate(batches):
        report(phase, done, len(batches))
        yield from (
            (name, batch[tensor_names.get(name, name)]) for name in values if name not in computed
        )
        results = model.run(None, batch) if model is not None else []
        yield from zip(computed, results, strict=True)
    report(phase, len(batches), len(batches))


def _range(seen: _Seen, method: str, percentile: float) -> Range:
    if method == "min-max" or seen.low == seen.high:
        return seen.low, seen.high
    if method == "percentile":
        tail = (1 - percentile / 100) / 2 * seen.counts.sum()
        sums = np.cumsum(seen.counts)
        low = seen.centers[np.searchsorted(sums, tail)]
        high = seen.centers[min(np.searchsorted(sums, sums[-1] - tail), BINS - 1)]
        return min(float(low), 0.0), max(float(high), 0.0)
    errors = [_error(seen, share) for share in SHARES]
    best = float(SHARES[int(np.argmin(errors))])
    return seen.low * best, seen.high * best


def _error(seen: _Seen, share: float) -> float:
    """The sum of squared errors of all values in u8 over a share of their range."""
    scale, zero = scale_of((seen.low * share, seen.high * share))
    x = seen.centers
    whole = np.clip(np.rint(x / scale) + zero, 0, LEVELS)
    return float(np.sum(seen.counts * np.square((whole - zero) * scale - x)))


def scale_of(limits: Range) -> tuple[float, int]:
    """Scale and zero point of u8 for a range with 0 in it: 0 is exact."""
    low, high = limits
    scale = float(np.float32((high - low) / LEVELS)) or 1.0
    return scale, int(np.clip(np.rint(-low / scale), 0, LEVELS))
