"""Every operator of PyTorch's own `op_db` through graphc: right, refused or wrong.

python -m graphc.bench.torch_ops [NAME ...] [--dtype f32 | f16 | bf16 | s64 | bool] [--limit SAMPLES]

Each forward sample is traced to ATen operators, read, evaluated by the ops' references and compared with PyTorch. A
line per operator and reason for what is not right; then the sums, those of core ATen apart. Results of 16 bits are
right if they are as near to PyTorch's of f64 as PyTorch's own, those of native code where those of references are not.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import types
import warnings
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..base.errors import GraphcError
from ..driver.compiler import compile as compile_model
from ..frontend.torch.fx_graph import FxGraph, read_fx
from ..frontend.torch.program import decomposition_table
from ..frontend.torch.tensors import array_of

DTYPES = {"f32": "float32", "f16": "float16", "bf16": "bfloat16", "s64": "int64", "bool": "bool"}
_TOLERANCE = {"float64": 1e-10, "float32": 2e-4, "float16": 4e-3, "bfloat16": 3e-2}


def op_infos(names: list[str]) -> Iterator[Any]:
    """The OpInfos of these names, all where there are none. Their module imports a test library that is not needed."""
    sys.modules.setdefault("expecttest", types.SimpleNamespace(TestCase=object))  # type: ignore[arg-type]
    from torch.testing._internal.common_methods_invocations import op_db

    for info in op_db:
        if "empty" in info.name:
            continue  # what is in new memory is nobody's business
        full = info.name + (f".{info.variant_test_name}" if info.variant_test_name else "")
        if not names or full in names or info.name in names:
            yield full, info


def outcome(info: Any, sample: Any) -> tuple[str, str]:
    """`right`, `refused` or `wrong` and why, of one sample; `skipped` where PyTorch itself cannot trace or run it."""
    import torch
    from torch._functorch.aot_autograd import aot_export_joint_simple
    from torch.utils import _pytree as pytree

    leaves, structure = pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
    where = [i for i, x in enumerate(leaves) if isinstance(x, torch.Tensor)]

    def call(*tensors: Any) -> Any:
        filled = list(leaves)
        for i, x in zip(where, tensors, strict=True):
            filled[i] = x
        first, args, kwargs = pytree.tree_unflatten(filled, structure)
        return [
            y for y in pytree.tree_leaves(info.op(first, *args, **kwargs)) if hasattr(y, "shape")
        ]

    def copied(*tensors: Any) -> Any:
        """Results that are not views of arguments."""
        return [y.clone() for y in call(*tensors)]

    tensors = [leaves[i].detach() for i in where]
    try:
        wanted = call(*[x.clone() for x in tensors])
        with torch.no_grad():
            traced = aot_export_joint_simple(
                copied, tensors, trace_joint=False, decompositions=decomposition_table()
            )
    except Exception as error:  # noqa: BLE001 - data-dependent sizes, complex numbers, layouts
        return "skipped", str(error).splitlines()[0][:80] if str(error) else type(error).__name__
    traced.graph.eliminate_dead_code()
    kinds = {str(x.dtype) for x in (*tensors, *wanted)}
    if any("complex" in kind for kind in kinds):
        return "skipped", "complex"
    try:
        # Tokens that order effects come before other arguments and results.
        tokens = sum(node.op == "placeholder" for node in traced.graph.nodes) - len(tensors)
        found = read_fx(traced, info.name, {})
        if found.refused:
            return "refused", next(iter(dict.fromkeys(found.refused.values())))
        given = [*[torch.empty(0)] * tokens, *tensors]
        inputs = [array_of(given[i], "input") for i in found.inputs]
        mine = found.graph.evaluate(inputs) if found.graph.outputs else []
    except GraphcError as error:
        return "refused", str(error)
    results = [mine[r] if isinstance(r, int) else r[0] for r in found.results[tokens:]]
    if info.name in _ORDERS and not sample.kwargs.get("stable"):
        results, wanted = (_looked_up(info.name, sample, list(x)) for x in (results, wanted))
    said = _compared(results, wanted, wanted)
    if said[0] == "wrong" and kinds & {"torch.float16", "torch.bfloat16"}:
        with contextlib.suppress(Exception):  # some take no other type
            exact = call(*[x.double() if x.is_floating_point() else x for x in tensors])
            return _judged_exactly(found, inputs, results, wanted, exact)
    return said


def _judged_exactly(
    found: FxGraph,
    inputs: list[np.ndarray],
    results: list[Any],
    wanted: list[Any],
    exact: list[Any],
) -> tuple[str, str]:
    """Results of 16 bits against those of f64: native code rounds where kernels end, references behind every op."""
    said = _compared(results, wanted, exact)
    return said if said[0] == "right" else _compared(_native(found, inputs), wanted, exact)


def _native(found: FxGraph, inputs: list[np.ndarray]) -> list[Any]:
    """The results of native code."""
    model = compile_model(found.graph, threads=1, cache=False)
    given = {spec.name: x for spec, x in zip(model.inputs, inputs, strict=True)}
    outputs = model.run(None, given)
    return [outputs[r] if isinstance(r, int) else r[0] for r in found.results]


_ORDERS = {"topk": "k dim", "kthvalue": "k dim", "sort": "dim", "argsort": "dim"}
"""Operators that give indices, where nobody says which of equal elements these are, and their arguments."""


def _looked_up(name: str, sample: Any, found: list[Any]) -> list[Any]:
    """Values, and the elements at their indices: a wrong index shows by its element."""
    import torch

    *values, indices = found
    given = dict(zip(_ORDERS[name].split(), sample.args, strict=False)) | sample.kwargs
    dim, at = given.get("dim", -1), torch.as_tensor(indices)
    x = sample.input
    if at.dim() < x.dim():
        at = at.unsqueeze(dim)
    picked = torch.gather(x, dim, at) if x.dim() else x
    return [*values, array_of(picked, "") if isinstance(indices, np.ndarray) else picked]


def _compared(mine: list[Any], wanted: list[Any], exact: list[Any]) -> tuple[str, str]:
    """`exact`: the results in f64, which those of 16 bits may be as far from as PyTorch's own are."""
    if len(mine) != len(wanted):
        return "wrong", f"{len(mine)} results, not {len(wanted)}"
    for a, tensor, wide in zip(mine, wanted, exact, strict=True):
        b = array_of(tensor, "result")
        if not isinstance(a, np.ndarray) or (a.dtype, a.shape) != (b.dtype, b.shape):
            got = f"{a.dtype}{list(a.shape)}" if isinstance(a, np.ndarray) else repr(a)
            return "wrong", f"{got}, not {b.dtype}{list(b.shape)}"
        with np.errstate(invalid="ignore"):  # inf - inf
            fine = _near(a, b, array_of(wide, "result"))
            far = np.abs(a.astype(np.float64) - b.astype(np.float64))
        if not fine.all():
            return "wrong", f"off by {np.nanmax(far, where=~fine, initial=0):.3g}"
    return "right", ""


def _near(mine: np.ndarray, theirs: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """Elements that are PyTorch's or near the exact ones: as near as the worst of PyTorch's where that is finite.
    Numbers that are not rounded have nothing near them."""
    tolerance = _TOLERANCE.get(theirs.dtype.name)
    if tolerance is None:
        return (mine == theirs) | (mine == exact)
    left, right, best = (x.astype(np.float64) for x in (mine, theirs, exact))
    error = np.abs(right - best)
    slack = tolerance + error.max(initial=0, where=np.isfinite(error))
    near = np.isclose(left, best, rtol=tolerance, atol=slack, equal_nan=True)
    return near | (left == right) | (np.isnan(left) & np.isnan(right))


def is_core(info: Any) -> bool:
    """Return whether an operator is tagged `core`: those that all others are decomposed to."""
    import torch

    packet = getattr(torch.ops.aten, info.aten_name or info.name, None)
    overloads = [getattr(packet, name) for name in packet.overloads()] if packet else []
    return any(torch.Tag.core in overload.tags for overload in overloads)


def count(
    names: list[str], dtype: str, limit: int
) -> Iterator[tuple[str, bool, Counter[tuple[str, str]]]]:
    """Operators, whether they are core ATen, and outcomes with the number of samples of each."""
    import torch

    kind = getattr(torch, DTYPES[dtype])
    for name, info in op_infos(names):
        if kind not in info.supported_dtypes("cpu"):
            continue
        outcomes: Counter[tuple[str, str]] = Counter()
        try:
            samples = list(info.sample_inputs("cpu", kind, requires_grad=False))
        except Exception:  # noqa: BLE001 - samples that need a library which is not here
            continue
        for sample in samples[:limit]:
            outcomes[outcome(info, sample)] += 1
        yield name, is_core(info), outcomes


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--dtype", choices=DTYPES, default="f32")
    parser.add_argument("--limit", type=int, default=1 << 30, help="samples per operator")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    total: dict[bool, Counter[str]] = {True: Counter(), False: Counter()}
    for name, core, outcomes in count(chosen.names, chosen.dtype, chosen.limit):
        for (word, why), number in outcomes.items():
            total[core][word] += number
            if word not in ("right", "skipped"):
                print(f"{name:<32} {word:<8} {number:>4}  {why[:140]}", flush=True)
    for core, sums in total.items():
        words = ", ".join(f"{sums[w]} {w}" for w in ("right", "refused", "wrong", "skipped"))
        print(f"{chosen.dtype}, {'core ATen' if core else 'other operators'}: {words}")


if __name__ == "__main__":
    main()
