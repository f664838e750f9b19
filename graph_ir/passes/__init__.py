"""Passes over a graph, one per file; `pipeline.py` lists them in order.

May import: ir, text, ops, rewriting, schedule.
"""
