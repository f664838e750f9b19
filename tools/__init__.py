"""Tools that inspect a compilation: the debug executor, explain, compare, profile and report.

May import: every room but cli.
"""
