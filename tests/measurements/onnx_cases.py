"""Counts how many cases of the onnx package's node tests come out right, and why the others do not.

    python tests/measurements/onnx_cases.py [--native]
    python tests/measurements/onnx_cases.py --others        models that PyTorch wrote, simple ones, real networks

Two columns: `graphc.compile(model)` alone, which knows no value of an input, and the class `graphc.onnx_backend`,
which may compile for the values of small inputs. Without `--native` ops run as their NumPy references, which takes
half a minute.
"""

from __future__ import annotations

import argparse
import sys
import unittest
import warnings
from collections import Counter
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
from onnx.backend.test.runner import Runner, _normalize_tensor

import graphc
from graphc.base.errors import UnsupportedError
from graphc.frontend import load
from graphc.integrations import onnx_backend

REASONS = {
    "element type STRING": "texts",
    "element type": "element types of 8 bits or less that graphc lacks",
    "String": "texts", "TfIdf": "texts", "Regex": "texts", "value_string": "texts", "LabelEncoder": "texts",
    "Sequence": "sequences and optional values", "Optional": "sequences and optional values",
    "only tensors": "sequences and optional values",
    "training": "training and random numbers", "Random": "training and random numbers",
    "depends on": "values that only a run knows",
    "NonMaxSuppression": "NonMaxSuppression", "ImageDecoder": "ImageDecoder",
}  # fmt: skip


class Evaluated:
    """A graph run by its references, with the interface of a compiled model."""

    def __init__(self, graph: graphc.Graph) -> None:
        self.graph = graph
        self.inputs = graph.inputs
        self.outputs = [SimpleNamespace(name=op.attr("temp.result")) for op in graph.results]

    def run(self, names: None, feeds: dict[str, Any]) -> list[Any]:
        """All outputs."""
        return self.graph.evaluate([feeds[op.name] for op in self.graph.inputs])


def evaluated(model: Any, inputs: Any = None, constants: Any = None, **_: Any) -> Any:
    """Instead of `graphc.compile`."""
    return Evaluated(load(model, inputs, constants))


def outcome(case: Any, alone: bool) -> str:
    """right, wrong, or why the case is refused."""
    ((inputs, outputs),) = case.data_sets
    try:
        rep = onnx_backend.prepare(case.model)
        if alone and not rep._compiled:
            rep._compile({})
        results = rep.run([_normalize_tensor(x) for x in inputs])
        Runner.assert_similar_outputs(
            [_normalize_tensor(x) for x in outputs], results, case.rtol, case.atol
        )
    except UnsupportedError as error:
        found = (reason for word, reason in REASONS.items() if word in str(error))
        return next(found, "other ops")
    except AssertionError:
        return "wrong (or outside of the tolerance)"
    except Exception as error:  # noqa: BLE001 - such as element types that NumPy lacks
        if "has no graphc type" in str(error):
            return "texts" if "object" in str(error) else REASONS["element type"]
        if "is a sequence" in str(error):
            return REASONS["Sequence"]
        return f"{type(error).__name__}: {error}"[:60]
    return "right"


def others() -> None:
    """Print how many of the package's other cases are right, by group; all are compiled natively."""
    from onnx.backend.test import BackendTest

    for name, group in BackendTest(onnx_backend, __name__).test_cases.items():
        if "NodeModel" in name:
            continue
        names = [word for word in dir(group) if word.endswith("_cpu")]
        result = unittest.TestResult()
        unittest.TestSuite(map(group, names)).run(result)
        bad = [str(case) for case, _ in (*result.failures, *result.errors, *result.skipped)]
        print(f"{name:<50} {result.testsRun - len(bad):>6} of {len(names)}", *bad)


def main(words: list[str]) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--native", action="store_true", help="compile, which takes some minutes")
    parser.add_argument("--others", action="store_true", help="cases that are not single nodes")
    args = parser.parse_args(words)
    if args.others:
        others()
        return
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        from onnx.backend.test.case.node import collect_testcases

        cases: list[Any] = collect_testcases(None)
        for case in cases:
            for opset in case.model.opset_import:
                opset.version = max(opset.version, 6) if not opset.domain else opset.version
        run = graphc.compile if args.native else evaluated
        with mock.patch.object(onnx_backend, "compile", run):
            columns = [Counter(outcome(case, alone) for case in cases) for alone in (True, False)]
    for reason in dict.fromkeys(key for column in columns for key, _ in column.most_common()):
        print(f"{reason:<50} {columns[0][reason]:>6} {columns[1][reason]:>6}")


if __name__ == "__main__":
    main(sys.argv[1:])
