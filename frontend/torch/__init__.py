"""Reads what PyTorch exports: `torch.export.ExportedProgram` objects, `.pt2` files, and graphs of ATen operators.

torch is imported by what is called here, never by importing graphc: whoever has such a program has torch.
"""
