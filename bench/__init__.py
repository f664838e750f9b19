"""Benchmarks: contenders, interleaved timing, and the workloads of the README's tables.

May import: every room; the other engines.
"""
