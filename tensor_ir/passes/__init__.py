"""Passes over loop nests, one per file; `tensor_ir/pipeline.py` lists them in order.

May import: the modules of tensor_ir, but no other pass.
"""
