"""Layers that are networks of their own: recurrent ones and attention."""

from __future__ import annotations

from ..compositions import recurrent
from ..row import Means

_INPUTS = "X, W, R, B?, sequence_lens?, initial_h?"

ROWS = (
    Means(
        recurrent.rnn, onnx=f"RNN({_INPUTS}) by recurrent", pnnx="nn.RNN(input, h0?) by recurrent"
    ),
    Means(
        recurrent.gru, onnx=f"GRU({_INPUTS}) by recurrent", pnnx="nn.GRU(input, h0?) by recurrent"
    ),
    Means(
        recurrent.lstm,
        onnx=f"LSTM({_INPUTS}, initial_c?, P?) by recurrent",
        pnnx="nn.LSTM(input, h0?, c0?) by recurrent",
    ),
)
