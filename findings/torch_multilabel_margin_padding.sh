#!/usr/bin/env bash
# torch 2.13.0: multilabel_margin_loss counts the padding of labels as class 0 once it is compiled or decomposed.
#
# A row of labels ends at its first -1, and the elements behind it do not count. The example of PyTorch's documentation,
# labels [3, 0, -1, 1], has the loss 0.85.
#
# Seen: PyTorch gives 0.85. torch.compile, also with the backend aot_eager, which generates no code, and a program of
# torch.export after run_decompositions() give 2.05: the margins of class 0 are added for each of the two elements
# from there on. Rows without -1 are right.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.13.0
cd "$folder"
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import torch


class Loss(torch.nn.Module):
    def forward(self, scores, labels):
        return torch.nn.functional.multilabel_margin_loss(scores, labels)


def three_ways(labels):
    """The loss by PyTorch, compiled without code generation, and exported and decomposed."""
    scores = torch.tensor([[0.1, 0.2, 0.4, 0.8]])
    arguments = scores, torch.tensor([labels])
    program = torch.export.export(Loss(), arguments).run_decompositions()
    losses = Loss()(*arguments), torch.compile(Loss(), backend="aot_eager")(*arguments), program.module()(*arguments)
    print(f"labels {labels}: eager, aot_eager, decomposed: {[round(x.item(), 4) for x in losses]}")
    return [round(x.item(), 4) for x in losses]


full, padded = three_ways([3, 0, 3, 0]), three_ways([3, 0, -1, 1])
assert len(set(full)) == 1
assert padded == [0.85, 2.05, 2.05], "the behavior has changed"
PYTHON
