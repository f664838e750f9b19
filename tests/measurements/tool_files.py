"""Counts the files of other tools that graphc reads and runs as the tools say.

    python tests/measurements/tool_files.py make TOOL FOLDER      with the Python that has the tool
    python tests/measurements/tool_files.py judge FOLDER... [--json]

`make` needs the tool and not graphc: it writes each file that the tool can make of small models, by
`support.tool_makers`, with inputs, the tool's own results, and those of ONNX Runtime where it runs the file. `judge`
compares with the tool's, or ONNX Runtime's where a tool has none; results that are further apart must both lie in the
bounds of the graph's rounding: "lost" is a file that says something else than the tool, as ONNX Runtime finds too.
Exit code 1 if a result is wrong. Figures in docs/reference/compatibility.md.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

EXACT = (
    "keras",
    "jax2onnx",
    "catboost",
    "skl2onnx",
    "hummingbird-ml",
    "lightgbm",
    "xgboost",
    "jaxlib",
)
"""Tools that neither quantize nor write half precision."""

SHARES = {True: 1e-4, False: 2e-3}
"""Error bound of every element, relative to the largest of a result: for exact tools, and for others, where an
integer inside of the model may be the next one."""

STEPS = 0.02
"""Error bound of a few elements: integers of few bits that fell to the other side of a boundary."""

MAX_STEPPED = 0.1
"""The share of such elements."""

PACKAGES = {
    "modelopt": "nvidia-modelopt", "quark": "amd-quark", "hummingbird": "hummingbird-ml", "genai": "onnxruntime-genai",
    "every_skl2onnx": "skl2onnx",
    "hlo": "jaxlib",
}  # fmt: skip


def make(tool: str, folder: Path) -> None:
    """Write what a tool makes."""
    from support.tool_makers import MAKERS
    from support.tool_makers.making import attempt

    folder.mkdir(parents=True, exist_ok=True)

    def save(
        name: str, path: Path, inputs: Mapping[str, Any], results: Sequence[Any] | None
    ) -> None:
        peers = _by_onnxruntime(path, inputs) if path.suffix == ".onnx" else []
        if results is None and not peers:
            raise ValueError("ONNX Runtime does not run the file")
        target = folder / f"{name}{path.suffix}"
        shutil.copy(path, target)
        for extra in path.parent.glob("*.data"):
            shutil.copy(extra, folder / extra.name)
        arrays = {f"input {key}": value for key, value in inputs.items()}
        for word, found in (("result", results or peers), ("peer", peers)):
            arrays |= {f"{word} {number:03}": np.asarray(one) for number, one in enumerate(found)}
        np.savez(folder / f"{target.name}.npz", **arrays)

    MAKERS[tool](save)
    package = PACKAGES.get(tool, tool)
    try:
        found = version(package)
    except PackageNotFoundError:
        found = "?"
    about = {"tool": package, "version": found, "not made": attempt.notes}
    (folder / "about.json").write_text(json.dumps(about, indent=1))


def _by_onnxruntime(path: Path, inputs: Mapping[str, Any]) -> list[Any]:
    """Return the results of ONNX Runtime; none where it does not run the file."""
    from support.tool_makers.making import attempt

    try:
        import onnxruntime
    except ImportError:
        return []
    onnxruntime.set_default_logger_severity(4)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        for library in attempt.libraries:
            options.register_custom_ops_library(library)
        session = onnxruntime.InferenceSession(path, options)
        names = [one.name for one in session.get_inputs()]
        results: list[Any] = session.run(None, dict(zip(names, inputs.values(), strict=True)))
    except Exception as error:  # noqa: BLE001 - of ONNX Runtime's own kinds
        print(f"ONNX Runtime: {path}: {error}")
        return []
    return [
        one
        if isinstance(one, np.ndarray)
        else np.array([[*row.values()] for row in one])  # of ZipMap
        for one in results
    ]


def judge(folder: Path) -> dict[str, Any]:
    """Return the counts of a folder, and a sentence for each file that is not right."""
    about = json.loads((folder / "about.json").read_text())
    counts: Counter[str] = Counter()
    others: dict[str, str] = {}
    for arrays in sorted(folder.glob("*.npz")):
        path = arrays.with_suffix("")
        found = _outcome(path, np.load(arrays), SHARES[about["tool"] in EXACT])
        counts[found.partition(":")[0]] += 1
        if found != "right":
            others[path.name] = found
    return {**about, "counts": dict(counts), "others": others}


def _outcome(path: Path, arrays: Any, allowed: float) -> str:
    import graphc

    inputs, wanted, peers = (
        [arrays[name] for name in arrays.files if name.startswith(word)]
        for word in ("input ", "result ", "peer ")
    )
    specs = None
    if any(
        0 in array.shape for array in inputs
    ):  # dynamic sizes are 1 or more unless they are given
        names = [name.removeprefix("input ") for name in arrays.files if name.startswith("input ")]
        specs = dict(zip(names, map(_spec, inputs), strict=True))
    try:
        model = graphc.compile(path, inputs=specs)
        if len(model.inputs) < len(inputs):
            return f"lost: the file takes {len(model.inputs)} inputs, not {len(inputs)}"
        found = model(*inputs)
    except graphc.UnsupportedError as error:
        invalid = "" if peers else _invalid_reason(path)
        return f"lost: no valid ONNX: {invalid}" if invalid else f"refused: {error}"
    except graphc.UserError as error:
        return f"{'wrong' if peers else 'lost: no other engine gave a result'}: {error}"
    except Exception as error:  # noqa: BLE001 - counted
        return f"wrong: {type(error).__name__}: {str(error)[:300]}"
    results = list(found) if isinstance(found, (tuple, list)) else [found]
    reason = _differences(results, wanted, allowed)
    if reason and peers and not _differences(results, peers, allowed):
        return f"lost: ONNX Runtime agrees with graphc; by the tool {reason}"
    if reason and _is_rounding(path, inputs, results, wanted):
        return "right"
    return f"wrong: {reason}" if reason else "right"


def _invalid_reason(path: Path) -> str:
    """Return what ONNX's own checker says against a file; "" for valid files and other formats."""
    if path.suffix != ".onnx":
        return ""
    import onnx

    try:
        onnx.checker.check_model(path, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        return str(error)[:300]
    return ""


def _is_rounding(
    path: Path, inputs: Sequence[Any], results: Sequence[Any], wanted: Sequence[Any]
) -> bool:
    """Return whether both results are as near to those in float64 as rounding in each op explains: sums that cancel,
    and values next to a boundary between two integers or small floats."""
    from graphc.frontend import load
    from graphc.tools.error_bound import CAREFUL, expected_outputs

    names = [op.name for op in load(path).inputs]
    graph = load(path, dict(zip(names, map(_spec, inputs), strict=True)))
    expected = expected_outputs(graph, inputs, CAREFUL)
    both = zip(expected, results, wanted, strict=False)
    return len(expected) == len(wanted) and all(
        one.error(np.asarray(found).astype(one.value.dtype).reshape(one.value.shape)).ok
        for one, result, want in both
        for found in (result, want)
        if found.size == one.value.size
    )


def _spec(array: Any) -> str:
    from graphc.base.dtypes import from_numpy

    return f"{from_numpy(array.dtype)}[{','.join(map(str, array.shape))}]"


def _differences(results: Sequence[Any], wanted: Sequence[Any], allowed: float) -> str:
    """Return what differs first, "" if nothing does."""
    for number, (result, want) in enumerate(zip(results, wanted, strict=False)):
        reason = _difference(np.asarray(result), want, allowed)
        if reason:
            return f"result {number} {reason}"
    return "" if len(results) == len(wanted) else f"{len(results)} results, not {len(wanted)}"


def _difference(found: np.ndarray[Any, Any], want: np.ndarray[Any, Any], allowed: float) -> str:
    if found.size != want.size:
        return f"is {found.shape}, not {want.shape}"
    found, want = (one.astype(np.float64).reshape(-1) for one in (found, want))
    largest = np.max(np.abs(want), initial=1e-6)
    error = np.abs(found - want) / largest
    if np.any(np.isnan(found) != np.isnan(want)) or np.max(np.nan_to_num(error), initial=0) > STEPS:
        return f"is off by {np.nanmax(error):.3g} of the largest"
    share = float(np.mean(np.nan_to_num(error) > allowed)) if error.size else 0.0
    return (
        f"has {share:.1%} of its elements off by up to {np.nanmax(error):.2g}"
        if share > MAX_STEPPED
        else ""
    )


def main() -> None:
    """Make files, or print what became of them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("what", choices=("make", "judge"))
    parser.add_argument("names", nargs="+", metavar="NAME")
    parser.add_argument("--json", action="store_true", help="print one JSON object a folder")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    if args.what == "make":
        make(args.names[0], Path(args.names[1]))
        return
    wrong = 0
    for name in args.names:
        found = judge(Path(name))
        wrong += found["counts"].get("wrong", 0)
        if args.json:
            print(json.dumps(found), flush=True)
            continue
        counts = ", ".join(
            f"{found['counts'].get(kind, 0)} {kind}"
            for kind in ("right", "lost", "refused", "wrong")
        )
        print(f"{found['tool']} {found['version']}: {counts}; not made {len(found['not made'])}")
        for file, sentence in found["others"].items():
            print(f"  {file}: {sentence}", flush=True)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
