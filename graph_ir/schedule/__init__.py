"""How ops run: costs, tiles, blockings and forms, chosen by a model of the machine.

May import: ir, text, ops, rewriting.
"""
