"""Whole networks through `torch.compile`: graphc against PyTorch itself and its compiler Inductor.

python -m graphc.bench.torch_models [NAME ...] [--threads 1] [--rounds 20] [--seconds 20]

Networks of torch alone, and those of torchvision, timm and transformers where these are installed, with random weights.
A line per network: milliseconds of each (medians of interleaved rounds), graphc's factor, seconds to the first result.
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings
from collections.abc import Callable
from typing import Any

Network = Callable[[], tuple[Any, tuple[Any, ...]]]


def _mlp() -> tuple[Any, tuple[Any, ...]]:
    import torch
    from torch import nn

    sizes, layers = (479, 1024, 1024, 512, 256, 1), []
    for inner, outer in zip(sizes, sizes[1:], strict=False):
        layers += [nn.Linear(inner, outer), nn.ReLU()]
    return nn.Sequential(*layers), (torch.randn(128, 479),)


def _encoder() -> tuple[Any, tuple[Any, ...]]:
    import torch
    from torch import nn

    layer = nn.TransformerEncoderLayer(768, 12, 3072, batch_first=True, activation="gelu")
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), (torch.randn(1, 128, 768),)


def _torchvision(name: str) -> Network:
    def make() -> tuple[Any, tuple[Any, ...]]:
        import torch
        import torchvision

        return getattr(torchvision.models, name)(), (torch.randn(1, 3, 224, 224),)

    return make


def _timm(name: str) -> Network:
    def make() -> tuple[Any, tuple[Any, ...]]:
        import timm
        import torch

        return timm.create_model(name), (torch.randn(1, 3, 224, 224),)

    return make


def _bert() -> tuple[Any, tuple[Any, ...]]:
    import torch
    import transformers

    config = transformers.BertConfig(num_hidden_layers=4)
    return transformers.BertModel(config), (torch.randint(0, 1000, (1, 128)),)


NETWORKS: dict[str, Network] = {
    "mlp": _mlp,
    "encoder": _encoder,
    "resnet18": _torchvision("resnet18"),
    "resnet50": _torchvision("resnet50"),
    "mobilenet_v2": _torchvision("mobilenet_v2"),
    "vit_tiny": _timm("vit_tiny_patch16_224"),
    "bert": _bert,
}


def measured(
    module: Any, args: tuple[Any, ...], rounds: int, most: float
) -> dict[str, tuple[float, float]]:
    """Median milliseconds and seconds to the first result by contender; AssertionError where results differ."""
    import torch

    from ..integrations.torch_backend import backend

    contenders = {"eager": module}
    for name, chosen in (("inductor", "inductor"), ("graphc", backend)):
        torch._dynamo.reset()
        contenders[name] = torch.compile(module, backend=chosen)
    first, times = {}, {name: [] for name in contenders}  # type: ignore[var-annotated]
    wanted = [y for y in torch.utils._pytree.tree_leaves(module(*args)) if hasattr(y, "shape")]
    for name, run in contenders.items():
        begin = time.perf_counter()
        found = [y for y in torch.utils._pytree.tree_leaves(run(*args)) if hasattr(y, "shape")]
        first[name] = time.perf_counter() - begin
        for mine, theirs in zip(found, wanted, strict=True):
            torch.testing.assert_close(mine, theirs, rtol=1e-2, atol=1e-3)
    begin = time.perf_counter()
    for number in range(rounds):
        for name, run in contenders.items():
            start = time.perf_counter()
            run(*args)
            times[name].append(time.perf_counter() - start)
        if number > 2 and time.perf_counter() - begin > most:
            break
    return {name: (statistics.median(t) * 1e3, first[name]) for name, t in times.items()}


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help=", ".join(NETWORKS))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=20, help="limit per network")
    chosen = parser.parse_args()
    import os

    os.environ["GRAPHC_NUM_THREADS"] = str(chosen.threads)
    import torch

    warnings.simplefilter("ignore")
    torch.set_num_threads(chosen.threads)
    torch._inductor.config.freezing = True
    print(
        f"{'network':<14}{'eager':>9}{'inductor':>10}{'graphc':>9}   best / graphc   first result: inductor, graphc"
    )
    for name in chosen.names or NETWORKS:
        try:
            module, args = NETWORKS[name]()
        except (ImportError, RuntimeError) as error:
            print(f"{name:<14} cannot be made here: {error}"[:100])
            continue
        torch.manual_seed(0)
        with torch.no_grad():
            found = measured(module.eval(), args, chosen.rounds, chosen.seconds)
        eager, inductor, mine = (found[key][0] for key in ("eager", "inductor", "graphc"))
        seconds = ", ".join(f"{found[key][1]:.1f} s" for key in ("inductor", "graphc"))
        print(
            f"{name:<14}{eager:>9.2f}{inductor:>10.2f}{mine:>9.2f}   {min(eager, inductor) / mine:>13.2f}   {seconds}",
            flush=True,
        )


if __name__ == "__main__":
    main()
