"""Loop nests as functions of plain numbers, dtypes and tiles. They know no op.

May import: ir, schedule and the rooms below graph_ir.
"""
