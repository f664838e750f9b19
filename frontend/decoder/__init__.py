"""Decoders of language models: the table of architectures, and the graph that is built from a row and the weights."""

from __future__ import annotations
