"""Artifacts and running them: containers, loading, calls, memory, threads. Works without the compiler.

May import: base; llvmlite in one file.
"""
