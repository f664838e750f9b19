"""Contractions as one loop nest: problem, schedule, lowering to Tensor IR.

May import: ir.
"""
