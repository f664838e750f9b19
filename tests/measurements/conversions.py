"""Counts how many conversions of real networks `diff` proves to be the same network.

    python tests/measurements/conversions.py [NETWORK...]

Networks of torchvision, timm and transformers with random weights are exported by PyTorch, written in every format that
can hold them, and read back. Takes some minutes. Figures in docs/howto/convert_and_compare.md.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from graphc.base.errors import GraphcError
from graphc.frontend import load
from graphc.frontend.formats import FORMATS
from graphc.frontend.tvm.params import read_params
from graphc.graph_ir.ir.graph import Graph
from graphc.tools.convert import convert
from graphc.tools.diff import diff
from support.torch_zoo import zoo

TARGETS = ("onnx", "hlo", "pnnx", "tvm", "ge")
VISION = (
    "resnet18", "resnet50", "resnext50_32x4d", "mobilenet_v2", "mobilenet_v3_small", "squeezenet1_1", "densenet121",
    "shufflenet_v2_x0_5", "googlenet", "mnasnet0_5", "efficientnet_b0", "regnet_y_400mf", "convnext_tiny", "vit_b_32",
)  # fmt: skip
TEXT = {
    "bert": ("BertModel", "BertConfig"),
    "distilbert": ("DistilBertModel", "DistilBertConfig"),
    "roberta": ("RobertaModel", "RobertaConfig"),
    "gpt2": ("GPT2Model", "GPT2Config"),
    "llama": ("LlamaModel", "LlamaConfig"),
    "t5": ("T5EncoderModel", "T5Config"),
}
TIMM: dict[str, dict[str, Any]] = {
    "vit_tiny_patch16_224": {"img_size": 64, "depth": 2},
    "swin_tiny_patch4_window7_224": {"img_size": 56, "depths": (1, 1), "num_heads": (2, 4), "embed_dim": 16},
    "ghostnet_050": {},
    "convnext_atto": {"depths": (1, 1, 1, 1), "dims": (16, 32, 48, 64)},
}  # fmt: skip
"""Made smaller: what there is to write is the same."""
_SMALL = {
    "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128, "vocab_size": 100,
    "dim": 64, "n_layers": 2, "n_heads": 4, "hidden_dim": 128, "n_embd": 64, "n_layer": 2, "n_head": 4,
    "d_model": 64, "num_layers": 2, "num_heads": 4, "d_ff": 128, "d_kv": 16, "num_key_value_heads": 2,
    "use_cache": False,
}  # fmt: skip


def network(name: str) -> Graph:
    """The graph of a network as PyTorch exports it."""
    import torch

    torch.manual_seed(0)
    if name in TEXT:
        model_name, config_name = TEXT[name]
        transformers = zoo("transformers")
        known = getattr(transformers, config_name)()
        names = {*known.to_dict(), *getattr(known, "attribute_map", {})}
        small = {key: value for key, value in _SMALL.items() if key in names}
        model = getattr(transformers, model_name)(getattr(transformers, config_name)(**small))
        example: tuple[Any, ...] = (torch.randint(0, 100, (2, 12)),)
    elif name in TIMM:
        model = zoo("timm").create_model(name, pretrained=False, **TIMM[name])
        size = TIMM[name].get("img_size", 64)
        example = (torch.zeros(1, 3, size, size),)
    else:
        models = zoo("torchvision").models
        extra = {"init_weights": False} if name == "googlenet" else {}
        model = getattr(models, name)(weights=None, **extra)
        size = 224 if name.startswith(("vit", "swin")) else 64
        example = (torch.zeros(1, 3, size, size),)
    with torch.no_grad():
        return load(torch.export.export(model.eval(), example, strict=False))


def converted(graph: Graph, target: str, folder: Path) -> Graph:
    """Write a file and return the graph read back. Raise GraphcError if the format cannot hold the network."""
    source = folder / "m.graph"
    with _as_source(graph, source):
        done = convert(source, target, folder / f"m{FORMATS[target].suffix}")
    specs, constants = {}, {}
    for option, value in zip(done.arguments[::2], done.arguments[1::2], strict=True):
        if option == "--input":
            name, _, spec = value.partition("=")
            specs[name] = spec
        else:
            constants = read_params(value[1:])
    return load(done.files[0], specs, constants)


def _as_source(graph: Graph, path: Path) -> Any:
    """Gives `convert` a graph that is in memory for a path, as its text would be large."""
    from unittest import mock

    path.write_text("graph")
    return mock.patch("graphc.tools.convert.load", lambda *args: graph)


def measure(names: list[str], say: Callable[[str], None]) -> Counter[str]:
    """Count the conversions that are the same, differ or cannot be written, by target."""
    counts: Counter[str] = Counter()
    for name in names:
        graph = network(name)
        for target in TARGETS:
            with tempfile.TemporaryDirectory() as folder:
                try:
                    found = diff(graph, converted(graph, target, Path(folder)))
                    outcome = "same" if found.same else "differs"
                    texts = [
                        f"{part.reason}\n    < {part.first}\n    > {part.second}"
                        for part in found.parts
                    ]
                    texts += [*found.only_first, *found.only_second]
                except GraphcError as error:
                    outcome, texts = "not held", [str(error)]
            counts[f"{target} {outcome}"] += 1
            say(f"{name} {target}: {outcome}" + "".join(f"\n  {text}" for text in texts[:3]))
    return counts


def main() -> None:
    """Print a line per conversion, then the sums."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("networks", nargs="*", default=[*VISION, *TIMM, *TEXT])
    warnings.simplefilter("ignore")
    counts = measure(parser.parse_args().networks, lambda text: print(text, flush=True))
    for outcome, count in sorted(counts.items()):
        print(f"{outcome:<20} {count}")


if __name__ == "__main__":
    main()
