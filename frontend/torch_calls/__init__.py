"""Semantics of calls of PyTorch functions, for PNNX files and exported programs.

`call.Call` gives the arguments by name; the other modules read what rows of the table cannot express.
"""
