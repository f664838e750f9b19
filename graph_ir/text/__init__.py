"""Graphs as text: printer, grammar, parser.

May import: ir and the rooms below graph_ir.
"""
