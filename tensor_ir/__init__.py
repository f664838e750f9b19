"""Tensor IR: loop nests over buffers, with text, verifier, interpreter and passes.

May import: base.
"""
