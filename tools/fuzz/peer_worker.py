"""Runs an ONNX file in ONNX Runtime: `python -m graphc.tools.fuzz.peer_worker FOLDER`, which holds m.onnx and inputs.

A separate process, because a model may crash it. Inputs and results are pickled lists of arrays, the latter in
`results`; where ONNX Runtime raises, without its optimizations too, `results` holds its sentence.
"""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

from ...base.errors import UserError
from ...bench.peers import load_peer, results_as_written


def main(folder: Path) -> None:
    """Write the results of the model in the folder, or why there are none."""
    names, arrays = pickle.loads((folder / "inputs").read_bytes())
    model, inputs = (folder / "m.onnx").read_bytes(), dict(zip(names, arrays, strict=True))
    found: object
    try:
        found = load_peer("ort", model, 1)(inputs).results()
    except UserError as error:
        found = results_as_written(model, inputs) or str(error)
    (folder / "results").write_bytes(pickle.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
